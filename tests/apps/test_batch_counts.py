"""One batch of each controller, and one chunk of each fan-out, asks the database as often for 500 objects as for 10.

`test_query_counts` plays the whole story and keeps the most each controller ever needed. Here every controller has a
case of its own in which its very first batch has to write something about every object, so none passes by standing
idle. Where the key is one object (fleet, evictions) or the batch is one by declaration (rebalancer, namespace_content,
eviction_records), what it reads and writes grows instead; so it does for drains, which reads the bindings of each of
the ten drains of a batch apart.

`apply` splits what it writes at about 600 lines: statements are counted in what a batch reads and in each transaction,
of which the longest counts. `LIFEBOAT_WRITE_QUERY_COUNTS=1` writes the file the counts are compared with.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from apps.objects import apply as writing
from apps.objects.arrays import BinaryCursor
from apps.objects.store import DjangoStore
from apps.runtime.fleet import store_all
from controlplane import kinds, works
from controlplane.bindings import template_ref
from controlplane.controllers import CONTROLLERS
from controlplane.controllers.fleet import FLEET
from controlplane.controllers.garbage import EVERYTHING
from controlplane.controllers.scheduler import ROOM
from controlplane.controllers.works import BACK
from controlplane.decision import Decision, Save
from controlplane.eviction.rate import TakeTokens, Tokens
from controlplane.kind import KINDS
from controlplane.kinds.binding import SCHEDULED, AggregatedStatusItem, Binding, GracefulEvictionTask
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.drain import RUNNING, Drain, DrainSpec
from controlplane.kinds.event import Event
from controlplane.kinds.policy import (
    GRACEFULLY,
    ApplicationFailoverBehavior,
    DecisionConditions,
    FailoverBehavior,
    Policy,
    PropagationSpec,
    ResourceSelector,
)
from controlplane.kinds.rows import (
    EVICTED,
    AilingCopies,
    Eviction,
    FleetState,
    Judgement,
    Observation,
    Promise,
    Row,
    Sweep,
)
from controlplane.kinds.rows import eviction_key as queued_as
from controlplane.kinds.taint_policy import ClusterTaintPolicy, ClusterTaintPolicySpec, MatchCondition, TaintToAdd
from controlplane.kinds.template import Template
from controlplane.kinds.work import APPLIED, Work
from controlplane.kinds.workload_rebalancer import RebalancedWorkload, WorkloadRebalancer, WorkloadRebalancerSpec
from controlplane.leftovers import marked
from controlplane.members import Answer, Collect, Observe
from controlplane.meta import Condition, Object, ObjectMeta, Ref
from controlplane.names import CLUSTER_PROPAGATION_POLICY_FINALIZER, NAMESPACE_CONTENT_FINALIZER, UNSCHEDULABLE_TAINT
from controlplane.run import World, run_batch
from controlplane.state import Actor
from tests.core.fleet_story import FAILOVER, START, binding, cluster, duplicated, no_execute

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

FILE = Path(__file__).with_name("batch_counts.json")
SIZES = (10, 500)
SETTINGS = replace(FAILOVER, resource_eviction_rate=1e6, secondary_resource_eviction_rate=1e6)
AT_ONCE = 200  # evictions in one decision
LONG_AGO = START - timedelta(days=30)
APIS = [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]
ONE_OF_THEM = duplicated(least=1, most=1)
ALL = Ref(kinds.CLUSTER_PROPAGATION_POLICY, "", "all")


class Case(NamedTuple):
    """What is stored before, and the keys that are due. `writes`: at least how many rows of objects and values."""

    stored: Sequence[Object | Row]
    keys: Sequence[Ref]
    writes: int


# What the cases are made of


def clusters(*names: str, **more: Any) -> list[Cluster]:
    return [cluster(name, **more).with_spec(api_endpoint="https://member.example") for name in names]


def many(size: int) -> list[str]:
    return [f"o{number:03}" for number in range(size)]


def bound(size: int, **on: int) -> list[Binding]:
    return [binding(name, ONE_OF_THEM, on=on) for name in many(size)]


def deployment(name: str, **meta: Any) -> Template:
    fields = {"uid": f"template-{name}", "generation": 1, "creation_timestamp": START, **meta}
    return Template(
        "apps/v1", "Deployment", ObjectMeta(name=name, namespace="default", **fields), {"spec": {"replicas": 2}}
    )


def plain(kind: str, name: str, namespace: str = "", **meta: Any) -> Template:
    fields = {"uid": f"uid-{kind}-{name}", "generation": 1, "creation_timestamp": START, **meta}
    return Template("v1", kind, ObjectMeta(name=name, namespace=namespace, **fields), {"data": {}})


def work_of(one: Binding, place: str, *, applied: bool = False) -> Work:
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": one.spec.resource.name}}
    made = Work(
        "work.karmada.io/v1alpha1",
        "Work",
        ObjectMeta(
            name=one.metadata.name,
            namespace=f"karmada-es-{place}",
            uid=f"work-{one.metadata.name}-{place}",
            generation=1,
            annotations={works.BINDING_ANNOTATION: str(one.ref)},
        ),
    )
    made = made.with_spec(workload=replace(made.spec.workload, manifests=(manifest,)))
    said = Condition(APPLIED, "True", "AppliedSuccessful", "", START, made.metadata.generation)
    return made.with_status(conditions=(said,)) if applied else made


def queued(one: Binding, place: str = "lost", **more: Any) -> Eviction:
    taint = no_execute()
    assert taint.time_added is not None
    fields = {
        "binding": str(one.ref),
        "cluster": place,
        "due_at": START,
        "queued_at": START,
        "generation": one.metadata.generation,
        "judged": (Judgement(taint.key, taint.effect, taint.time_added, START, 0.0),),
    }
    return Eviction(key=queued_as(one.ref, place), **{**fields, **more})


def policy(name: str = "all", **meta: Any) -> Policy:
    return Policy(
        "policy.karmada.io/v1alpha1",
        "ClusterPropagationPolicy",
        ObjectMeta(name=name, uid=f"uid-{name}", generation=1, creation_timestamp=START, **meta),
        PropagationSpec((ResourceSelector("apps/v1", "Deployment"),), placement=ONE_OF_THEM),
    )


def refs(objects: Sequence[Any]) -> list[Ref]:
    return [one.ref for one in objects]


LOST = clusters("lost", taints=[no_execute()])
OPEN = FleetState("default", failover_on_since=LONG_AGO)


# A case for each controller


def cluster_status(size: int) -> Case:
    found = clusters(*many(size), ready="", established=False)
    seen = [Observation(name, "True", "ClusterReady", since=LONG_AGO, observed_at=START) for name in many(size)]
    return Case([*found, *seen], refs(found), size)


def fleet(size: int) -> Case:
    return Case(clusters(*many(size)), [FLEET], 1)


def cluster_taints(size: int) -> Case:
    found = clusters(*many(size), ready="False")
    away = ClusterTaintPolicy(
        "policy.karmada.io/v1alpha1",
        "ClusterTaintPolicy",
        ObjectMeta(name="away", uid="uid-away", generation=1),
        ClusterTaintPolicySpec(
            match_conditions=(MatchCondition("Ready", "In", ("False",)),),
            taints_to_add=(TaintToAdd("away", "NoSchedule"),),
        ),
    )
    return Case([OPEN, away, *found, *clusters("well")], refs(found), size)


def eviction_queue(size: int) -> Case:
    found = bound(size, lost=2)
    return Case([*LOST, *clusters("spare"), OPEN, *found], refs(found), size)


def evictions(size: int) -> Case:
    found = bound(size, lost=2)
    rows = [queued(one) for one in found]
    return Case([*LOST, *clusters("spare"), OPEN, *found, *rows], [FLEET], 2 * min(size, AT_ONCE))


def graceful_eviction(size: int) -> Case:
    task = GracefulEvictionTask("lost", reason="TaintUntolerated", replicas=2, creation_timestamp=LONG_AGO)
    found = [one.with_spec(graceful_eviction_tasks=(task,)) for one in bound(size, spare=2)]
    seen = Observation("spare", "True", observed_at=START)
    return Case([*LOST, *clusters("spare"), seen, *found], refs(found), size)


def rebalancer(size: int) -> Case:
    listed = tuple(RebalancedWorkload("apps/v1", "Deployment", name, "default") for name in many(size))
    asked = WorkloadRebalancer(
        "apps.karmada.io/v1alpha1",
        "WorkloadRebalancer",
        ObjectMeta(name="again", uid="uid-again", generation=1, creation_timestamp=START),
        WorkloadRebalancerSpec(listed),
    )
    return Case([asked, *bound(size, spare=2)], [asked.ref], size + 1)


def scheduler(size: int) -> Case:
    found = [one.with_status(conditions=(), scheduler_observed_generation=0) for one in bound(size)]
    return Case([*clusters("a", "b"), *found], refs(found), size)


def drains(size: int) -> Case:
    cordoned = clusters("full", taints=[Taint(UNSCHEDULABLE_TAINT, "NoSchedule", time_added=START)])
    meta = ObjectMeta(name="full", uid="uid-drain", generation=1, creation_timestamp=START)
    drain = Drain("failover.lifeboat.io/v1alpha1", "Drain", meta, DrainSpec("full", rate=1e6))
    drain = drain.with_status(phase=RUNNING, tokens=1e6, counted_at=START)
    return Case([*cordoned, *clusters("spare"), drain, *bound(size, full=2)], [drain.ref], size)


def application_failover(size: int) -> Case:
    asked = FailoverBehavior(application=ApplicationFailoverBehavior(DecisionConditions(60), GRACEFULLY, 120))
    ill = AggregatedStatusItem("spare", applied=True, health="Unhealthy")
    found = [
        one.with_spec(failover=asked, propagate_deps=True).with_status(aggregated_status=(ill,))
        for one in bound(size, spare=2)
    ]
    rows = [AilingCopies(str(one.ref), {"spare": LONG_AGO}) for one in found]
    return Case([*found, *rows], refs(found), 2 * size)


def promises(size: int) -> Case:
    found = clusters(*many(size))
    rows = [
        Promise(f"x|{name}", "work.karmada.io/ResourceBinding/default/x", name, 2, "", LONG_AGO) for name in many(size)
    ]
    return Case([*found, *rows], refs(found), size)


def policies(size: int) -> Case:
    found = [deployment(name) for name in many(size)]
    return Case([policy(), *found], refs(found), 2 * size)


def policy_release(size: int) -> Case:
    leaving = {"deletion_timestamp": START, "finalizers": (CLUSTER_PROPAGATION_POLICY_FINALIZER,)}
    found = [policy(name, **leaving) for name in many(size)]
    return Case(found, refs(found), size)


def works_(size: int) -> Case:
    found = bound(size, spare=2)
    return Case([*clusters("spare"), *(deployment(name) for name in many(size)), *found], refs(found), size)


def namespaces(size: int) -> Case:
    found = [plain("Namespace", name) for name in many(size)]
    return Case([*clusters("spare"), *found], refs(found), size)


def namespaces_of_a_fleet(size: int) -> Case:
    one = plain("Namespace", "shop")
    return Case([*clusters(*many(size)), one], [one.ref], size)


def namespace_content(size: int) -> Case:
    going = plain("Namespace", "shop", deletion_timestamp=START, finalizers=(NAMESPACE_CONTENT_FINALIZER,))
    inside = [plain("ConfigMap", name, "shop") for name in many(size)]
    return Case([going, *inside], [going.ref], min(size, 200))


def binding_status(size: int) -> Case:
    found = [one.with_status(aggregated_status=()) for one in bound(size, spare=2)]
    return Case([*found, *(work_of(one, "spare", applied=True) for one in found)], refs(found), size)


def template_status(size: int) -> Case:
    said = AggregatedStatusItem("spare", {"replicas": 2, "readyReplicas": 2}, applied=True, health="Healthy")
    found = [one.with_status(aggregated_status=(said,)) for one in bound(size, spare=2)]
    return Case([*found, *(deployment(name) for name in many(size))], [template_ref(one) for one in found], size)


def eviction_pending(size: int) -> Case:
    found = bound(size, lost=2)
    return Case([*found, *(queued(one) for one in found)], refs(found), size)


def eviction_records(size: int) -> Case:
    well = clusters("lost")
    over = [queued(one, state=EVICTED, ended_at=START) for one in bound(size)]
    return Case([*well, *over], refs(well), size)


def garbage(size: int) -> Case:
    rows = [Observation(name, "True") for name in many(size)]
    return Case(rows, [Ref(kinds.CLUSTER, "", name) for name in many(size)], size)


def garbage_of_events(size: int) -> Case:
    old = [
        Event("v1", "Event", ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}"), last_timestamp=START)
        for name in many(size)
    ]
    return Case([amid(kinds.EVENT), *old], [Ref(kinds.EVENT, "", EVERYTHING)], size)


def garbage_of_bindings(size: int) -> Case:
    rounds = [amid(kind) for kind in kinds.BINDINGS]
    return Case([*rounds, *bound(size)], [Ref(kind, "", EVERYTHING) for kind in kinds.BINDINGS], size)


def amid(kind: str) -> Sweep:
    """Return a round that has to write how far it is: onwards after a full page, to the start after the last one."""
    return Sweep(kind, "a", "a")


def members(size: int) -> Case:
    found = clusters(*many(size))
    return Case(found, refs(found), size)


def execution(size: int) -> Case:
    found = [work_of(one, "spare") for one in bound(size, spare=2)]
    return Case([*clusters("spare"), *found], refs(found), size)


def work_status(size: int) -> Case:
    found = [work_of(one, "spare", applied=True) for one in bound(size, spare=2)]
    return Case(found, refs(found), size)


BATCHES: dict[str, Callable[[int], Case]] = {
    "cluster_status": cluster_status,
    "fleet": fleet,
    "cluster_taints": cluster_taints,
    "eviction_queue": eviction_queue,
    "evictions": evictions,
    "graceful_eviction": graceful_eviction,
    "rebalancer": rebalancer,
    "scheduler": scheduler,
    "drains": drains,
    "application_failover": application_failover,
    "promises": promises,
    "policies": policies,
    "policy_release": policy_release,
    "works": works_,
    "namespaces": namespaces,
    "namespaces of a fleet": namespaces_of_a_fleet,
    "namespace_content": namespace_content,
    "binding_status": binding_status,
    "template_status": template_status,
    "eviction_pending": eviction_pending,
    "eviction_records": eviction_records,
    "garbage": garbage,
    "garbage of events": garbage_of_events,
    "garbage of bindings": garbage_of_bindings,
    "probes": members,
    "collection": members,
    "execution": execution,
    "work_status": work_status,
}


# A case for each fan-out: the key is an origin, and every object is made due or decided at once


def to_clusters(size: int) -> Case:
    return Case(clusters(*many(size)), [FLEET], size)


def to_placed(size: int) -> Case:
    return Case([*LOST, OPEN, *bound(size, lost=2)], refs(LOST), size)


def to_all_placed(size: int) -> Case:
    return to_placed(size)._replace(keys=[FLEET])


def to_leaving(size: int) -> Case:
    return Case([*LOST, *(one for one in graceful_eviction(size).stored if isinstance(one, Binding))], refs(LOST), size)


def to_schedulable(size: int) -> Case:
    spare = clusters("spare")
    return Case([*spare, *(one for one in scheduler(size).stored if isinstance(one, Binding))], refs(spare), size)


def to_waiting(size: int) -> Case:
    refused = Condition(SCHEDULED, "False", "NoClusterFit", "", START)
    found = [
        one.with_status(conditions=(refused,), scheduler_observed_generation=one.metadata.generation)
        for one in bound(size)
    ]
    return Case([*clusters("spare"), *found], [Ref(ROOM, "", "spare")], size)


def to_left(size: int) -> Case:
    back = clusters("spare")
    found = [marked(work_of(one, "spare")) for one in bound(size, spare=2)]
    return Case([*back, *found], [Ref(BACK, "", "spare")], size)


def to_namespaces(size: int) -> Case:
    joined = clusters("spare")
    return Case([*joined, *(plain("Namespace", name) for name in many(size))], refs(joined), size)


def to_selected(size: int) -> Case:
    return Case([policy(), *(deployment(name) for name in many(size))], [ALL], size)


def to_named(size: int) -> Case:
    """Each template is named by a selector of its own."""
    one = policy()
    named = tuple(ResourceSelector("apps/v1", "Deployment", "default", name) for name in many(size))
    one = replace(one, spec=replace(one.spec, resource_selectors=named))
    return Case([one, *(deployment(name) for name in many(size))], [ALL], size)


def to_works(size: int) -> Case:
    return Case([*clusters("spare"), *(work_of(one, "spare") for one in bound(size))], refs(clusters("spare")), size)


FAN_OUTS: dict[str, Callable[[int], Case]] = {
    "cluster_taints": to_clusters,
    "eviction_queue": to_placed,
    "eviction_queue of the fleet": to_all_placed,
    "graceful_eviction": to_leaving,
    "scheduler": to_schedulable,
    "scheduler where room is": to_waiting,
    "policies": to_selected,
    "policies by name": to_named,
    "works": to_placed,
    "works left behind": to_left,
    "namespaces": to_namespaces,
    "execution": to_works,
}


# Counting


class Tally:
    """The statements of one batch: in what it reads, in each of its transactions, and how many rows they wrote."""

    def __init__(self) -> None:
        self.reading = 0
        self.transactions: list[int] = []
        self.rows = 0
        self.inside = False

    def count(self, query: str, rows: int) -> None:
        if self.inside:
            self.transactions[-1] += 1
            own = query in (writing._LOCK, writing._SET_VERSION) or "objects_due" in query
            self.rows += rows if not own and any(verb in query for verb in ("INSERT", "UPDATE", "DELETE")) else 0
        else:
            self.reading += 1

    @property
    def counts(self) -> dict[str, int]:
        return {"reading": self.reading, "transaction": max(self.transactions, default=0)}


@pytest.fixture(autouse=True)
def declared_kinds() -> Iterator[None]:
    """Only those: some controllers ask once for every kind there is, and other tests bring kinds of their own."""
    brought = [kind for kind in KINDS if KINDS.is_brought(kind)]
    KINDS.bring(())
    yield
    KINDS.bring(brought)


@pytest.fixture
def tallies(monkeypatch: pytest.MonkeyPatch) -> list[Tally]:
    """Statements are added to the last tally of this list; none, none counted."""
    found: list[Tally] = []
    run, write = BinaryCursor.run, writing._Transaction.run

    def counted(self: BinaryCursor, query: Any, params: Sequence[Any] = ()) -> BinaryCursor:
        done = run(self, query, params)
        if found:
            found[-1].count(query, max(done.rowcount, 0))
        return done

    def bracketed(self: Any) -> Any:
        if not found:
            return write(self)
        found[-1].transactions.append(0)
        found[-1].inside = True
        try:
            return write(self)
        finally:
            found[-1].inside = False

    monkeypatch.setattr(BinaryCursor, "run", counted)
    monkeypatch.setattr(writing._Transaction, "run", bracketed)
    return found


def answer(question: Any) -> Any:
    """Everybody outside is well and says yes."""
    if isinstance(question, TakeTokens):
        return Tokens(dict(question.wanted), -1.0)
    return [None if one is None else _of_member(one) for one in question]


def _of_member(question: Any) -> Answer:
    if isinstance(question, Collect):
        return Answer(200, {"version": {"gitVersion": "v1.32.0"}, "apis": APIS, "nodes": [], "pods": []})
    if isinstance(question, Observe):
        return Answer(200, {**question.manifest, "status": {"replicas": 2, "readyReplicas": 2}})
    return Answer(200, {})


def played(name: str, case: Case, tallies: list[Tally]) -> tuple[Tally, int]:
    """Return what one batch cost, and how many objects are due for the controller besides the keys."""
    controller = next(one for one in CONTROLLERS if one.name == name.partition(" ")[0])
    before = DjangoStore()  # nothing is made due by what it stores
    objects = [one for one in case.stored if isinstance(one, Object)]
    assert store_all(before, objects, by="jane") == len(objects)
    if values := [Save(one) for one in case.stored if isinstance(one, Row)]:
        before.apply([(None, Decision(changes=tuple(values)))], by=Actor("jane"))
    store = DjangoStore(controllers=CONTROLLERS)
    store.mark(controller.name, case.keys)
    tallies.append(Tally())
    report = run_batch(controller, store, SETTINGS, world=World(answer=answer), limit=len(case.keys))
    tally = tallies.pop()
    assert not report.failures, report.failures[0].trace
    assert (report.claimed, report.lost) == (len(case.keys), 0)
    due_now = store.claim(controller.name, shard=0, shards=1, limit=2000, lease_seconds=0).claims
    return tally, len({one.ref for one in due_now} - set(case.keys))


def recorded(what: str, name: str, counts: dict[str, int]) -> dict[str, int]:
    """Return what the file says; with LIFEBOAT_WRITE_QUERY_COUNTS it says what was counted."""
    known: dict[str, dict[str, dict[str, int]]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    if os.environ.get("LIFEBOAT_WRITE_QUERY_COUNTS"):
        known.setdefault(what, {})[name] = counts
        FILE.write_text(json.dumps(known, indent=2) + "\n")
    return known.get(what, {}).get(name, {})


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_asks_as_often_for_500_objects_as_for_10(
    name: str, tallies: list[Tally], flush: Callable[[], None]
) -> None:
    found: list[dict[str, int]] = []
    for size in SIZES:
        if found:
            flush()
        case = BATCHES[name](size)
        tally, _ = played(name, case, tallies)
        assert tally.rows >= case.writes, f"of {size} objects only {tally.rows} rows were written"
        found.append(tally.counts)

    assert found[0] == found[1]
    assert recorded("batches", name, found[0]) == found[0]


@pytest.mark.parametrize("name", FAN_OUTS)
def test_a_chunk_of_a_fan_out_asks_as_often_for_500_objects_as_for_10(
    name: str, tallies: list[Tally], flush: Callable[[], None]
) -> None:
    found: list[dict[str, int]] = []
    for size in SIZES:
        if found:
            flush()
        case = FAN_OUTS[name](size)
        tally, reached = played(name, case, tallies)
        assert reached + tally.rows >= case.writes, f"of {size} objects {reached} were made due, {tally.rows} written"
        found.append(tally.counts)

    assert found[0] == found[1]
    assert recorded("fan-outs", name, found[0]) == found[0]


def test_every_controller_has_a_case() -> None:
    assert {name.partition(" ")[0] for name in BATCHES} == {one.name for one in CONTROLLERS}
    fanning = {one.name for one in CONTROLLERS if any(watch.fan_out for watch in one.watches)}
    assert {name.partition(" ")[0] for name in FAN_OUTS} == fanning


def test_the_file_says_nothing_about_others() -> None:
    known = json.loads(FILE.read_text())

    assert {what: set(of) for what, of in known.items()} == {"batches": set(BATCHES), "fan-outs": set(FAN_OUTS)}
