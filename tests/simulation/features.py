"""Features that the other stories leave out, used and taken back in the middle of a failover. Each is a function of a
run, like those of `wishes`; none knows of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from controlplane.kinds.binding import BindingSuspension
from controlplane.kinds.cluster import NO_SCHEDULE
from controlplane.kinds.drill import DRAIN, Drill, DrillSpec
from controlplane.propagation.lazy_activation import LAZY
from tests.simulation import edits, people, wishes
from tests.simulation.member import UNHEARD

if TYPE_CHECKING:
    from tests.simulation.motley import Motley

REGIONS = {"member1": "north", "member2": "north", "member3": "south", "member4": "south", "member5": "west"}
NGINX = wishes.NGINX.replace(
    "{configMapRef: {name: nginx-needed}}", "{configMapRef: {name: nginx-needed}}, {configMapRef: {name: common}}"
).replace("  labels:\n    app: nginx\nspec:", "  labels:\n    app: nginx\n    team: blue\nspec:")
COMMON = wishes.NEEDED.replace("nginx-needed", "common")
_HEAD = wishes.ALONE[: wishes.ALONE.index("  placement:")]
_GRACEFULLY = _HEAD.replace("purgeMode: Directly", "purgeMode: Gracefully")
_REGIONAL = """  placement:
    spreadConstraints:
    - {spreadByField: region, minGroups: 2, maxGroups: 2}
    - {spreadByField: cluster, minGroups: 2, maxGroups: %d}
    replicaScheduling: %s
"""
_BY_ROOM = (
    "{replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, "
    "weightPreference: {dynamicWeight: AvailableReplicas}}"
)
_AGGREGATED = "{replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}"
_OVERFLOWING = f"""  placement:
    clusterAffinities:
    - affinityName: first
      clusterNames: [member1]
      overflowAffinities: [{{affinityName: more, clusterNames: [member2, member3]}}]
    - {{affinityName: second, clusterNames: [member4, member5]}}
    replicaScheduling: {_AGGREGATED}
"""
REGIONAL = (
    _GRACEFULLY + _REGIONAL % (2, "{replicaSchedulingType: Duplicated}"),
    _GRACEFULLY + _REGIONAL % (3, _BY_ROOM),
    _HEAD + _REGIONAL % (2, _BY_ROOM),
)
PACKED = f"{_GRACEFULLY}  placement:\n    replicaScheduling: {_AGGREGATED}\n"
OVERFLOWING = (_GRACEFULLY + _OVERFLOWING, _HEAD + _OVERFLOWING)
STATEFUL = wishes.ALONE.replace(
    "    cluster:\n",
    "    cluster:\n      statePreservation:\n"
    '        rules: [{aliasLabelName: example.io/replicas, jsonPath: "{ .readyReplicas }"}]\n',
)
_OF_TEAM = "  placement:\n    workloadAffinity: {antiAffinity: {groupByLabelKey: team}}\n"
APART = wishes.ONE.replace("  placement:\n", _OF_TEAM)
TOGETHER = APART.replace("antiAffinity", "affinity")
POLICIES = (*REGIONAL, PACKED, *OVERFLOWING, STATEFUL, APART, APART, TOGETHER)

STORAGE = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: example.io/disks
"""
OF_STORAGE = """
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: fast}
spec:
  resourceSelectors: [{apiVersion: storage.k8s.io/v1, kind: StorageClass}]
  placement:
    spreadConstraints: [{spreadByField: cluster, minGroups: 2, maxGroups: 2}]
"""
OWN = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: %s}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: nginx-needed}]
  placement: {clusterAffinity: {clusterNames: [%s]}}
"""


def lazy(run: Motley) -> None:
    """A policy waits with its edits until its template is edited."""
    name = run.app()
    run.changes(name, activation_preference=LAZY)
    run.later(1, 15, lambda: _replaced_lazily(run, name))
    if run.chance.random() < 0.7:
        run.later(10, 35, lambda: _released(run, name))
    run.outage(14, 30)


def _replaced_lazily(run: Motley, name: str) -> None:
    asked = run.admitted(run.chance.choice((*people.POLICIES, *POLICIES)), name).spec
    run.excuse(name)
    run.changes(name, placement=asked.placement, failover=asked.failover)


def _edited(run: Motley, name: str) -> None:
    """Give a workload another image."""
    old = run.deployment(name)
    if old is None or old.metadata.deletion_timestamp is not None:
        return
    pod = old.spec["template"]
    image = f"nginx:{run.world.store.version}"
    containers = [{**one, "image": image} for one in pod["spec"]["containers"]]
    spec = {**old.spec, "template": {**pod, "spec": {**pod["spec"], "containers": containers}}}
    edits.put(run.world, old.with_content({**old.content, "spec": spec}), old)


def _released(run: Motley, name: str) -> None:
    """Release a new version, with which the edits of a Lazy policy come into force."""
    run.excuse(name)
    _edited(run, name)


def rolled(run: Motley) -> None:
    """A new version of a workload is released, twice."""
    name = run.app()
    for least, most in ((0, 15), (10, 35)):
        run.later(least, most, lambda: _edited(run, name))
    run.outage(14, 30)


def unscheduled(run: Motley) -> None:
    """A person lets no scheduler touch a binding for a while."""
    name = run.app()
    run.later(0, 12, lambda: schedules(run, name, suspended=True))
    run.later(14, 45, lambda: schedules(run, name, suspended=None))
    run.outage(14, 30)


def schedules(run: Motley, name: str, *, suspended: bool | None) -> None:
    """Let the scheduler leave a binding alone, or no longer."""
    old = run.binding(name)
    if old is None or old.metadata.deletion_timestamp is not None or old.spec.scheduling_suspended == bool(suspended):
        return
    new = replace(old.spec.suspension or BindingSuspension(), scheduling=suspended)
    edits.put(run.world, old.with_spec(suspension=new), old)


def relocated(run: Motley) -> None:
    """A cluster is of another region for a while."""
    member, region = run.victim(), run.chance.choice(sorted(set(REGIONS.values())))
    name = run.app()
    run.excuse(name)
    run.changes(name, **asdict(run.admitted(run.chance.choice(REGIONAL), name).spec))
    run.later(0, 20, lambda: located(run, member, region))
    run.later(20, 40, lambda: located(run, member, REGIONS[member]))
    run.outage(14, 30)


def located(run: Motley, member: str, region: str) -> None:
    """Say in which region a cluster is."""
    old = run.cluster(member)
    if old.metadata.uid and old.spec.region != region:
        edits.put(run.world, old.with_spec(region=region), old)


def cordoned(run: Motley) -> None:
    """Nothing new is to be placed on some clusters for a while."""
    for member in run.chance.sample(sorted(run.world.members), run.chance.choice((1, 2))):
        run.later(0, 15, lambda member=member: edits.taint(run.world, member, NO_SCHEDULE))
        run.later(16, 45, lambda member=member: edits.untaint(run.world, member))
    run.outage(14, 30)


def claimed_itself(run: Motley) -> None:
    """What a workload needs has a policy of its own for a while."""
    name = run.app()
    where = ", ".join(run.chance.sample(sorted(run.world.members), run.chance.choice((1, 2))))
    policy = OWN % (f"own-{run.world.store.version}", where)
    ref = run.makes(run.admitted(policy, name))
    run.later(8, 40, lambda: run.deletes(run.world.store.object(ref)))
    run.outage(14, 30)


def unheard(run: Motley) -> None:
    """A member does what it is asked, and its answers are lost."""
    member = run.victim()
    run.breaks(member, UNHEARD, seconds=run.chance.uniform(5, 25))
    run.outage(14, 30)


def unwatched(run: Motley) -> None:
    """The watch on a member is late: what happens there is not known for a while."""
    member = run.victim()
    run.world.unwatched.add(member)
    run.later(5, 30, lambda: watched(run, member))
    run.outage(14, 30)


def watched(run: Motley, member: str) -> None:
    """Let the watch on a member report again, from a list of all."""
    if member in run.world.unwatched:
        run.world.unwatched.discard(member)
        run.world.fault(member, run.world.members[member].fault)
        run.world.seen_again(member)


def switched(run: Motley) -> None:
    """Settings are others for a while."""
    chosen: dict[str, Any] = run.chance.choice(
        (
            {"featureGates": {"Failover": False}},
            {"noExecuteTaintEvictionPurgeMode": "Directly"},
            {"eviction": {"partialRefuge": False}},
            {"eviction": {"requireFullReplacement": True}},
            {"gracefulEvictionTimeout": 3},
        )
    )
    run.later(0, 20, lambda: run.configure(**chosen))
    run.later(21, 40, run.configure)
    run.outage(14, 30)


def drilled(run: Motley) -> None:
    """A cluster is emptied in a drill, while others fail."""
    spec = DrillSpec(DRAIN, (run.victim(long=True),), rate=8.0, returns=run.chance.random() < 0.5)
    ref = run.makes(Drill(edits.API_VERSION, "Drill", run.meta("gameday"), spec))
    run.later(10, 40, lambda: run.deletes(run.world.store.object(ref)))
    run.later(2, 20, lambda: run.outage(8, 20))


FEATURES: dict[str, Callable[[Motley], None]] = {
    one.__name__: one
    for one in (
        lazy,
        rolled,
        unscheduled,
        relocated,
        cordoned,
        claimed_itself,
        unheard,
        unwatched,
        switched,
        drilled,
    )
}
