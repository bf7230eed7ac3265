"""The table of dangerous acts: how each is asked for on each way in, and what has to be asked before it is done.

`fleet(size)` stores what the acts are about: member1 with `size` workloads, member2 with room for them, the gate
Failover on. member3 is down and fenced. `size` evictions from member1 wait in the queue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from msgspec.structs import asdict, replace

from apps.failover.orders import order
from apps.objects.configuration import configuration
from apps.objects.namespaces import make_namespaces
from apps.objects.store import store
from apps.objects.writer import Author, Writer
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import FENCE_ANNOTATION, UNJOIN_ANNOTATION
from controlplane.clusters.fence import FenceRequest, fenced
from controlplane.eviction.operator_orders import HOLD
from controlplane.eviction.purge import with_task
from controlplane.kind import KINDS
from controlplane.kinds import (
    CLUSTER,
    CLUSTER_TAINT_POLICY,
    EVICTION_HOLD,
    FAILOVER_CONFIGURATION,
    MAINTENANCE_WINDOW,
    OVERRIDE_POLICY,
    PROPAGATION_POLICY,
    RESOURCE_BINDING,
)
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.binding.origin import with_departures
from controlplane.kinds.cluster import Taint
from controlplane.kinds.configuration import FailoverConfiguration
from controlplane.kinds.drain import DRAIN
from controlplane.kinds.drill import DRILL
from controlplane.kinds.failback import FAILBACK
from controlplane.kinds.policy import ClusterFailoverBehavior, FailoverBehavior
from controlplane.kinds.rows import HELD, FleetState, Judgement, eviction_key
from controlplane.kinds.template import Template
from controlplane.kinds.workload_rebalancer import WORKLOAD_REBALANCER
from controlplane.propagation import bindings, matching
from controlplane.scheduling.trigger import APPLIED_PLACEMENT, applied_text
from controlplane.settings import GATES, Settings
from tests.apps.pages import found, stored
from tests.apps.test_console_queue import saved
from tests.apps.test_records import changed, evicted
from tests.builders import objects, steering, templates
from tests.builders.bare import meta
from tests.builders.objects import START, eviction
from tests.builders.placements import by_weight, duplicated

Document = dict[str, Any]

OURS: Final = "failover.lifeboat.io/v1alpha1"
DEPLOYMENT: Final = "apps/Deployment"
WEB: Final = Ref(DEPLOYMENT, "default", "web0")
BINDING: Final = Ref(RESOURCE_BINDING, "default", "web0-deployment")
MEMBER1, MEMBER3 = Ref(CLUSTER, "", "member1"), Ref(CLUSTER, "", "member3")
REASON: Final = "because we test"


class Create(NamedTuple):
    """A new object."""

    kind: str
    name: str
    spec: Document


class Edit(NamedTuple):
    """An edit of a stored object. `edited` returns the new document."""

    ref: Ref
    edited: Callable[[Document], Document]


class Delete(NamedTuple):
    """The deletion of an object, or of all of its kind in its namespace."""

    ref: Ref
    all: bool = False


class Post(NamedTuple):
    """A request to a subresource. `namespace` and `plural` and `name` are of the object."""

    path: str
    body: Document = {}


Write = Create | Edit | Delete | Post


class Guarded(NamedTuple):
    """A dangerous act.

    write: to the API; None: only the page of the console does all of it at once.
    says: a pattern of its preview for `{size}` workloads. "": the write has no effects, and is done at once.
    on_page: what the page of the console says instead. console: the URL of that page; "": it has none.
    admin: an action of the admin instead of the form. command: of `lifeboat`; "": there is none.
    types: what is typed if more than ten workloads are concerned. "": the act concerns at most one, or moves nothing.
    on_page_types: what the page of the console asks for instead.
    always: it is typed also for one workload, because the act cannot be taken back.
    """

    write: Write | None
    says: str
    console: str = ""
    on_page: str = ""
    admin: str = ""
    command: str = ""
    types: str = ""
    on_page_types: str = ""
    always: bool = False
    prepare: Callable[[int], None] = lambda size: None


def edit(ref: Ref, **fields: Any) -> Edit:
    """Return an edit that sets fields of the spec."""
    return Edit(ref, lambda document: {**document, "spec": {**document.get("spec", {}), **fields}})


def tainted(effect: str, key: str = "power") -> Edit:
    return edit(MEMBER1, taints=[{"key": key, "effect": effect}])


def annotated(ref: Ref, name: str, value: str | None) -> Edit:
    """Return an edit that sets an annotation, or takes it away."""

    def edited(document: Document) -> Document:
        metadata = document["metadata"]
        kept = {key: text for key, text in metadata.get("annotations", {}).items() if key != name}
        more = {} if value is None else {name: value}
        return {**document, "metadata": {**metadata, "annotations": {**kept, **more}}}

    return Edit(ref, edited)


def without_taints() -> Edit:
    return edit(MEMBER1, taints=[])


HOLD_ALL: Final = {"reason": "storm", "who": "root"}
WINDOW: Final = {"clusters": ["member1"], "until": "2098-01-02T04:00:00Z", "reason": "kernels"}
CORDON: Final = "cluster.karmada.io/unschedulable"
LABELS: Final = {"overrideRules": [{"overriders": {"labelsOverrider": [{"operator": "add", "value": {"a": "b"}}]}}]}
WORKLOAD: Final = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default"}
AFFINITY: Final = {"clusterAffinity": {"clusterNames": ["member2"]}}
MOVES: Final = "moves {size}, 1 namespace"
FRESH: Final = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "fresh"}
QUEUED: Final = "/apis/failover.lifeboat.io/v1alpha1/namespaces/default/evictions/web0-deployment.member1"


def fleet(size: int) -> None:
    """Store the fleet, with `size` workloads on member1."""
    made = objects.policy("place", placement=duplicated(least=1, most=1))
    gate = FailoverConfiguration(OURS, "FailoverConfiguration", meta("default", ""), {"featureGates": FAILOVER_ON})
    down = objects.cluster("member3", ready="False")
    others = (objects.cluster(f"member{number}") for number in (1, 2, 4, 5, 6))
    make_namespaces(store())
    stored(*others, down, made, gate, *(one for number in range(size) for one in workload(f"web{number}", made)))
    saved(FleetState("default", failover_on_since=START))
    configuration().settings(reread=True)  # those of an earlier test may be half a second old


FAILOVER_ON: Final = {"Failover": True}


def workload(name: str, policy: Any) -> tuple[Template, Binding]:
    """Return a Deployment that the policy has claimed, and its binding with the copy on member1."""
    labels, annotations = matching.claim(policy)
    template = templates.deployment(name, replicas=2, labels={"app": name, **labels}, annotations=annotations)
    bound = bindings.create(template, policy, gates=dict(GATES), now=START)
    assert bound.spec.placement is not None
    applied = {**bound.metadata.annotations, APPLIED_PLACEMENT: applied_text(bound.spec.placement)}
    healthy = objects.binding(name, None, on={"member1": 2}).status
    placed = bound.with_spec(clusters=(TargetCluster("member1", 2),)).with_meta(annotations=applied)
    return template, placed.with_status(**asdict(healthy))


def all_bindings() -> list[Binding]:
    return list(store().list(RESOURCE_BINDING))


def queued(size: int) -> None:
    """All copies on member1 wait in the eviction queue, because of a taint."""
    judged = (Judgement("power", "NoExecute", START, START, wait_seconds=0),)
    old = found(MEMBER1)
    changed(old, old.with_spec(taints=(Taint("power", "NoExecute", time_added=START),)))
    saved(*(eviction(one, judged=judged) for one in all_bindings()))


def held(size: int) -> None:
    queued(size)
    stored(steering.hold("pause", **HOLD_ALL))
    saved(
        *(
            replace(row, state=HELD, reason="OnHold", message="pause")
            for row in (eviction(one, judged=()) for one in all_bindings())
        )
    )


def ordered(size: int) -> None:
    """One eviction is held by an order."""
    queued(size)
    order(eviction_key(BINDING, "member1"), HOLD, reason="look", by="root")


def away(size: int) -> None:
    """All workloads have left member1 for member2, and member1 is Ready again."""
    for one in all_bindings():
        left = with_task(one, "member1", mode="Gracefully", reason="", producer="", message="", now=START)
        moved = with_departures(left, one, now=START).with_spec(
            clusters=(TargetCluster("member2", 2),), graceful_eviction_tasks=()
        )
        changed(one, moved)


def failed_over(size: int) -> None:
    """A failover of the first workload is on record."""
    evicted(BINDING)
    one = found(BINDING)
    changed(one, one.with_spec(clusters=(TargetCluster("member2", 2),)))


def cordoned(size: int) -> None:
    old = found(MEMBER1)
    changed(old, old.with_spec(taints=(Taint(CORDON, "NoSchedule", time_added=START),)))


def fence(size: int) -> None:
    old = found(MEMBER3)
    changed(old, fenced(old, FenceRequest("no power", 600), by="root", now=store().now()))


def may_unjoin(size: int) -> None:
    old = found(MEMBER1)
    changed(old, old.with_meta(annotations={UNJOIN_ANNOTATION: "delete"}))


def uneven(size: int) -> None:
    """The bindings are not where a fresh decision would place them."""
    for one in all_bindings():
        changed(one, one.with_spec(placement=by_weight(member1=1, member2=1)))


def unplaced(size: int) -> None:
    """A Deployment that no policy has claimed."""
    stored(templates.deployment("fresh"))


def down(size: int) -> None:
    """member1 is not Ready."""
    old = found(MEMBER1)
    changed(old, old.with_status(conditions=objects.cluster("member1", ready="False").status.conditions))


def may_fail_over(size: int) -> None:
    """The workloads declare what PreferNoExecute asks for: how they fail over."""
    for one in all_bindings():
        changed(one, one.with_spec(failover=FailoverBehavior(cluster=ClusterFailoverBehavior(purge_mode="Gracefully"))))


def overridden(size: int) -> None:
    selector = {"apiVersion": "apps/v1", "kind": "Deployment"}
    Writer(store(), Settings(), Author("test", "Test")).create(
        KINDS[OVERRIDE_POLICY],
        {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "OverridePolicy",
            "metadata": {"name": "labels", "namespace": "default"},
            "spec": {"resourceSelectors": [selector], **LABELS},
        },
    )


ACTS: Final[dict[str, Guarded]] = {
    "delete a workload": Guarded(Delete(WEB), "removes the copies of 1, 1 namespace"),
    "delete all workloads": Guarded(Delete(WEB, all=True), "removes the copies of {size}, 1 namespace", types="delete"),
    "delete a binding": Guarded(Delete(BINDING), "removes the copies of 1, 1 namespace"),
    "delete a policy": Guarded(Delete(Ref(PROPAGATION_POLICY, "default", "place")), "moves nothing"),
    "delete an override policy": Guarded(
        Delete(Ref(OVERRIDE_POLICY, "default", "labels")), "changes {copies}", types="labels", prepare=overridden
    ),
    "delete a hold: resume": Guarded(
        Delete(Ref(EVICTION_HOLD, "", "pause")),
        MOVES,
        "/resume/pause",
        "{size} evictions go on at",
        command="resume",
        types="pause",
        on_page_types="resume",
        prepare=held,
    ),
    "delete the configuration": Guarded(
        Delete(Ref(FAILOVER_CONFIGURATION, "", "default")),
        "moves nothing; the feature gate Failover is off",
    ),
    "unjoin": Guarded(
        Delete(MEMBER1),
        MOVES,
        "/clusters/member1/unjoin?copies=delete",
        command="unjoin",
        types="member1",
        always=True,
        prepare=may_unjoin,
    ),
    "drain": Guarded(
        Create(DRAIN, "d", {"cluster": "member1", "reason": REASON}),
        MOVES,
        "/clusters/member1/drain?rate=1",
        command="drain",
        types="member1",
    ),
    "drill": Guarded(
        Create(DRILL, "d", {"mode": "Drain", "clusters": ["member1"], "reason": REASON}),
        MOVES,
        "/drills/start?clusters=member1&mode=Drain&rate=1&seconds=60&without_place=0&healthy=1",
        command="drill",
        types="member1",
    ),
    "failback": Guarded(
        Create(FAILBACK, "f", {"cluster": "member1", "reason": REASON}),
        MOVES,
        "/clusters/member1/failback?rate=1&at_once=1",
        command="failback",
        types="member1",
        prepare=away,
    ),
    "taint NoExecute": Guarded(
        tainted("NoExecute"),
        MOVES,
        "/clusters/member1/taint?key=power&effect=NoExecute",
        command="taint",
        types="member1",
    ),
    "taint PreferNoExecute": Guarded(
        tainted("PreferNoExecute"),
        MOVES,
        "/clusters/member1/taint?key=power&effect=PreferNoExecute",
        command="taint",
        types="member1",
        prepare=may_fail_over,
    ),
    "taint NoSchedule": Guarded(
        tainted("NoSchedule"),
        "moves nothing",
        "/clusters/member1/taint?key=power&effect=NoSchedule",
        command="taint",
    ),
    "untaint": Guarded(
        without_taints(),
        "cancels {evictions}",
        "/clusters/member1/untaint?key=power&effect=NoExecute",
        command="taint",
        types="member1",
        prepare=queued,
    ),
    "cordon": Guarded(
        tainted("NoSchedule", CORDON),
        "moves nothing, {bindings} on cluster member1, which takes no new copies",
        "/clusters/member1/cordon",
        "Moves nothing",
        admin="cordon",
        command="cordon",
    ),
    "uncordon": Guarded(
        without_taints(),
        "",
        "/clusters/member1/uncordon",
        "Nothing moves",
        command="uncordon",
        prepare=cordoned,
    ),
    "maintenance": Guarded(
        Create(MAINTENANCE_WINDOW, "w", WINDOW),
        "moves nothing, {size} held, 1 namespace",
        "/clusters/member1/maintenance?minutes=5",
        types="member1",
        prepare=queued,
    ),
    "fence": Guarded(
        Post("/apis/cluster.karmada.io/v1alpha1/clusters/member3/fence", {"reason": REASON, "expiresInSeconds": 600}),
        "nothing starts now, because no new copy waits for cluster member3",
        "/clusters/member3/fence?minutes=5",
        command="fence",
        types="member3",
        always=True,
    ),
    "unfence": Guarded(
        annotated(MEMBER3, FENCE_ANNOTATION, None),
        "new copies that replace those on cluster member3 wait again",
        "/clusters/member3/unfence",
        command="fence",
        prepare=fence,
    ),
    "gate": Guarded(
        edit(Ref(FAILOVER_CONFIGURATION, "", "default"), featureGates={"Failover": False}),
        "moves nothing; the feature gate Failover is off",
        "/queue/gate/off",
    ),
    "rates": Guarded(
        edit(Ref(FAILOVER_CONFIGURATION, "", "default"), resourceEvictionRate=2),
        "resourceEvictionRate from default to 2",
        "/queue/rates?rate=2&secondary=1",
        "No eviction waits",
    ),
    "rates while the queue has evictions": Guarded(
        edit(Ref(FAILOVER_CONFIGURATION, "", "default"), resourceEvictionRate=2),
        "moves {size}, 1 namespace",
        "/queue/rates?rate=2&secondary=1",
        "{size} evictions wait. At 2/s the last takes place at",
        types="default",
        on_page_types="rates",
        prepare=queued,
    ),
    "hold many": Guarded(
        None,
        "Hold: {size} evictions from member1, in 1 namespace.",
        "/queue/order?verb=Hold&everything=yes&cluster=member1",
        types="hold",
        command="hold",
        prepare=queued,
    ),
    "pause": Guarded(
        Create(EVICTION_HOLD, "pause", HOLD_ALL),
        "later evictions of the whole fleet are held",
        "/pause",
        "Later evictions are held",
        command="pause",
    ),
    **{
        verb: Guarded(
            Post(f"{QUEUED}/{verb}", {"reason": REASON}),
            says,
            f"/queue/order?verb={verb.capitalize()}&item=default/web0-deployment.member1",
            command=verb,
            prepare=ordered if verb == "release" else queued,
        )
        for verb, says in {
            "hold": "stays on cluster member1 until it is released",
            "release": "goes on in the order of the queue",
            "skip": "stays on cluster member1 while its present taints last",
            "expedite": "leaves cluster member1 before all others",
        }.items()
    },
    "revert": Guarded(
        Post("/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/web0-deployment/revert"),
        "moves 1, default/web0-deployment from member2",
        "/bindings/default/web0-deployment/revert",
        command="revert",
        prepare=failed_over,
    ),
    "rebalance": Guarded(
        Create(WORKLOAD_REBALANCER, "r", {"workloads": [{**WORKLOAD, "name": "web0"}]}),
        "moves 1, 1 namespace",
        "/bindings/default/web0-deployment/rebalance",
        prepare=uneven,
    ),
    "edit a policy": Guarded(
        edit(Ref(PROPAGATION_POLICY, "default", "place"), placement=AFFINITY), MOVES, types="place"
    ),
    "a new policy": Guarded(
        Create(PROPAGATION_POLICY, "config", {"resourceSelectors": [FRESH], "placement": AFFINITY}),
        "places 1, 1 namespace",
        prepare=unplaced,
    ),
    "edit a policy without effects": Guarded(
        edit(Ref(PROPAGATION_POLICY, "default", "place"), priority=1), "moves nothing"
    ),
    "a new override policy": Guarded(
        Create(OVERRIDE_POLICY, "labels", {"resourceSelectors": [{**WORKLOAD}], **LABELS}),
        "changes {copies}",
        types="labels",
    ),
    "a new taint policy": Guarded(
        Create(
            CLUSTER_TAINT_POLICY,
            "ready",
            {
                "matchConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["False"]}],
                "taintsToAdd": [{"key": "down", "effect": "NoExecute"}],
            },
        ),
        MOVES,
        types="ready",
        prepare=down,
    ),
}
