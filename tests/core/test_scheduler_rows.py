"""Every row of the scheduler's tables has a case: triggers and queue, filters, outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, condition
from controlplane.kinds.binding import (
    TAINT_UNTOLERATED,
    Binding,
    BindingPriority,
    BindingSuspension,
    GracefulEvictionTask,
    ResourceBindingSpec,
    ResourceBindingStatus,
)
from controlplane.kinds.binding.manual_placement import with_mark
from controlplane.kinds.cluster import Cluster, ResourceSummary, Taint
from controlplane.kinds.policy import (
    DUPLICATED,
    ClusterAffinity,
    ClusterAffinityTerm,
    Placement,
    ReplicaSchedulingStrategy,
    SpreadConstraint,
    WorkloadAffinity,
    WorkloadAffinityTerm,
)
from controlplane.scheduling import filters, trigger
from controlplane.scheduling.binding_outcome import SUCCESS
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.placement_plan import Plan
from controlplane.scheduling.question import Neighbours, Question, question_of
from controlplane.scheduling.refusals import refusals
from controlplane.scheduling.schedule import NO_CLUSTER_FIT, SCHEDULER_ERROR, UNSCHEDULABLE
from controlplane.scheduling.trigger import needs_scheduling
from controlplane.settings import GATES, Compat, Settings
from tests.builders.objects import START, cluster
from tests.builders.placements import DYNAMIC, placement
from tests.builders.scheduling import ask, shares, spec
from tests.core import desk
from tests.core.desk import Desk

# Triggers [scheduling-triggers]: in the original's order, the first that holds

COPIES = ReplicaSchedulingStrategy(DUPLICATED)
TOGETHER = WorkloadAffinity(affinity=WorkloadAffinityTerm("app"))
BEFORE, AFTER = START - timedelta(hours=1), START + timedelta(hours=1)


def placed(where: Placement, *, replicas: int = 2) -> Binding:
    """Return a binding the scheduler has placed on clusters a and b."""
    return Desk(cluster("a", room=9), cluster("b", room=9), desk.pending("web", where, replicas=replicas)).binding(
        "web"
    )


def by_terms(*names: str) -> Placement:
    terms = tuple(ClusterAffinityTerm(cluster_names=("a", name), affinity_name=name) for name in names)
    return Placement(cluster_affinities=terms, replica_scheduling=DYNAMIC)


def with_first(where: Placement, cluster: str) -> Placement:
    """Return the placement with another cluster in its first term, whose name stays."""
    first, *rest = where.cluster_affinities
    return replace(where, cluster_affinities=(replace(first, cluster_names=("a", cluster)), *rest))


def without_workload(one: Binding) -> Binding:
    return one.with_spec(replicas=0, replica_requirements=None)


def by_hand(one: Binding) -> Binding:
    """Return a binding of which a user has removed the copy on b."""
    return with_mark(one.with_spec(clusters=one.spec.clusters[:1]), one)


class Triggered(NamedTuple):
    before: Placement
    change: Callable[[Binding], Binding]
    why: str | None
    gone: Sequence[str] = ()  # clusters that are being deleted
    settings: Settings = Settings()


def observed(name: str, where: Placement) -> Callable[[Binding], Binding]:
    """Return a change: the last result was made for the term of this name, and the placement is another one now."""
    return lambda one: one.with_status(scheduler_observed_affinity_name=name).with_spec(placement=where)


EMPTIED_BY_THE_QUEUE = Settings(feature_gates={"Failover": True}, compat=Compat(terminating_taint=True))

TRIGGERS = {
    "placement is not the applied one": Triggered(
        Placement(replica_scheduling=DYNAMIC),
        lambda one: one.with_spec(placement=Placement(ClusterAffinity(cluster_names=("a",)))),
        trigger.PLACEMENT_CHANGED,
    ),
    "of several affinities the observed one changed": Triggered(
        by_terms("b", "c"), lambda one: one.with_spec(placement=by_terms("d", "c")), trigger.PLACEMENT_CHANGED
    ),
    "of several affinities the observed one has other clusters": Triggered(
        by_terms("b", "c"),
        lambda one: one.with_spec(placement=with_first(by_terms("b", "c"), "d")),
        trigger.PLACEMENT_CHANGED,
    ),
    "of several affinities another one changed": Triggered(
        by_terms("b", "c"), lambda one: one.with_spec(placement=by_terms("b", "d")), None
    ),
    "of several affinities the one before the observed one changed": Triggered(
        by_terms("b", "c"), observed("c", with_first(by_terms("b", "c"), "d")), None
    ),
    "of several affinities the one before the observed one changed, names descend": Triggered(
        by_terms("c", "b"), observed("b", with_first(by_terms("c", "b"), "d")), None
    ),
    "of several affinities none gave a result, and another one changed": Triggered(
        by_terms("b", "c"), observed("", by_terms("b", "d")), trigger.PLACEMENT_CHANGED
    ),
    "its groups of workloads changed": Triggered(
        Placement(replica_scheduling=DYNAMIC),
        lambda one: one.with_spec(placement=Placement(replica_scheduling=DYNAMIC, workload_affinity=TOGETHER)),
        trigger.PLACEMENT_CHANGED,
    ),
    # The original overlooks this one.
    "its groups of workloads changed, beside several affinities": Triggered(
        by_terms("b", "c"),
        lambda one: one.with_spec(placement=replace(by_terms("b", "c"), workload_affinity=TOGETHER)),
        trigger.PLACEMENT_CHANGED,
    ),
    "replicas changed: shares do not add up": Triggered(
        Placement(replica_scheduling=DYNAMIC), lambda one: one.with_spec(replicas=5), trigger.REPLICAS_CHANGED
    ),
    "replicas changed: a copy has another number": Triggered(
        Placement(replica_scheduling=COPIES), lambda one: one.with_spec(replicas=5), trigger.REPLICAS_CHANGED
    ),
    "fewer replicas: shares add up to more": Triggered(
        Placement(replica_scheduling=DYNAMIC), lambda one: one.with_spec(replicas=1), trigger.REPLICAS_CHANGED
    ),
    "fewer replicas: a copy has more": Triggered(
        Placement(replica_scheduling=COPIES), lambda one: one.with_spec(replicas=1), trigger.REPLICAS_CHANGED
    ),
    "a reschedule was asked for later than the last one": Triggered(
        Placement(replica_scheduling=DYNAMIC),
        lambda one: one.with_spec(reschedule_triggered_at=AFTER),
        trigger.RESCHEDULE_ASKED,
    ),
    "a reschedule was asked for before the last one": Triggered(
        Placement(replica_scheduling=DYNAMIC), lambda one: one.with_spec(reschedule_triggered_at=BEFORE), None
    ),
    "it is being deleted": Triggered(
        Placement(replica_scheduling=DYNAMIC),
        lambda one: one.with_spec(replicas=5).with_meta(deletion_timestamp=START),
        None,
    ),
    "no policy places it": Triggered(
        Placement(replica_scheduling=DYNAMIC), lambda one: one.with_spec(placement=None, replicas=5), None
    ),
    "not a workload": Triggered(Placement(), without_workload, trigger.ALWAYS),
    "Duplicated": Triggered(Placement(replica_scheduling=COPIES), lambda one: one, trigger.ALWAYS),
    "Duplicated, and a user chose the targets": Triggered(Placement(replica_scheduling=COPIES), by_hand, None),
    "Duplicated, and a target that a user chose is being deleted": Triggered(
        Placement(replica_scheduling=COPIES), by_hand, trigger.ALWAYS, gone=("a",)
    ),
    "a target is being deleted": Triggered(
        Placement(replica_scheduling=DYNAMIC), lambda one: one, trigger.TARGET_GOING, gone=("a",)
    ),
    "a target is being deleted, and the eviction queue empties it": Triggered(
        Placement(replica_scheduling=DYNAMIC), lambda one: one, None, gone=("a",), settings=EMPTIED_BY_THE_QUEUE
    ),
    "nothing of that": Triggered(Placement(replica_scheduling=DYNAMIC), lambda one: one, None),
}


@pytest.mark.parametrize("row", TRIGGERS)
def test_a_binding_is_scheduled_for_the_first_reason_that_holds(row: str) -> None:
    case = TRIGGERS[row]
    found = case.change(placed(case.before))
    clusters = [_going(cluster(name, room=9), name in case.gone) for name in ("a", "b")]

    assert needs_scheduling(found, Fleet.of(clusters, settings=case.settings)) == case.why


def test_every_trigger_there_is_has_a_row() -> None:
    known = {name: value for name, value in vars(trigger).items() if name.isupper() and isinstance(value, str)}
    known = {name: value for name, value in known.items() if name not in ("APPLIED_PLACEMENT", "DUPLICATED")}

    assert {case.why for case in TRIGGERS.values()} == {*known.values(), None}


def _going(one: Cluster, really: bool) -> Cluster:
    return one.with_meta(deletion_timestamp=START) if really else one


# Who is looked at, and when [scheduling-triggers]

FOLLOWING = Placement(ClusterAffinity(cluster_names=("a", "b")), replica_scheduling=COPIES)

MARKS: dict[str, Callable[[Desk], Any]] = {
    "the binding is new": lambda at: at.store.create(desk.pending("web", FOLLOWING)),
    "its generation moved": lambda at: at.store.put(at.binding("web").with_spec(replicas=3), at.binding("web")),
    "a cluster's labels changed": lambda at: _put(at, at.cluster("a").with_meta(labels={"new": "yes"})),
    "a cluster's generation moved": lambda at: _put(
        at, at.cluster("a").with_spec(taints=(Taint("t", "PreferNoSchedule"),))
    ),
    "a cluster begins to be deleted": lambda at: _put(
        at, at.cluster("a").with_meta(deletion_timestamp=START, finalizers=("cluster.karmada.io/cluster-controller",))
    ),
}


def _put(at: Desk, new: Cluster) -> None:
    at.store.put(new, at.cluster(new.metadata.name))


@pytest.mark.parametrize("row", MARKS)
def test_what_makes_the_scheduler_look_again(row: str) -> None:
    there = () if row == "the binding is new" else (desk.pending("web", FOLLOWING),)
    at = Desk(cluster("a", room=9), cluster("b", room=9), *there)

    MARKS[row](at)

    assert at.decided() == ["web"]


@pytest.mark.parametrize(
    "fields",
    [{"scheduler_name": "mine"}, {"suspension": BindingSuspension(scheduling=True)}, {"placement": None}],
    ids=["another scheduler's", "suspended", "of no policy"],
)
def test_whom_the_scheduler_leaves_alone(fields: dict[str, Any]) -> None:
    at = Desk(cluster("a", room=9), desk.pending("web", Placement()).with_spec(**fields))

    assert at.places("web") == {}
    assert at.binding("web").status.conditions == ()


def test_the_higher_priority_gets_the_room_there_is() -> None:
    low, high = (desk.pending(name, Placement(replica_scheduling=DYNAMIC)) for name in ("a-low", "b-high"))
    at = Desk(cluster("a", room=1), low, high.with_spec(schedule_priority=BindingPriority(1000)))

    assert (at.places("b-high"), at.places("a-low")) == ({"a": 1}, {})


# Filters [scheduling-filters]: which clusters a binding may not go to, and which of them it may stay on


class Filtered(NamedTuple):
    cluster: Cluster  # "a"; "b" refuses no binding
    wanted: ResourceBindingSpec
    exempt: bool  # where "a" is a target already
    more: dict[str, Any] = {}
    compat: Compat = Compat()


def _spread(field: str) -> ResourceBindingSpec:
    spread = [SpreadConstraint(field, "", 1, 2), SpreadConstraint("cluster", "", 1, 2)]
    return spec(placement(spread=spread))


def _leaving(reason: str) -> ResourceBindingSpec:
    return spec(placement(), tasks=[GracefulEvictionTask("a", reason=reason)])


FILTERS = {
    "ClusterAffinity": Filtered(cluster("a"), spec(placement("b")), exempt=False),
    "TaintToleration: NoSchedule": Filtered(
        cluster("a", taints=[Taint("down", "NoSchedule")]), spec(placement()), exempt=True
    ),
    "TaintToleration: NoExecute": Filtered(
        cluster("a", taints=[Taint("down", "NoExecute")]), spec(placement()), exempt=True
    ),
    "APIEnablement": Filtered(cluster("a", apis=()), spec(placement()), exempt=True),
    "SpreadConstraint: provider": Filtered(cluster("a"), _spread("provider"), exempt=False),
    "SpreadConstraint: region": Filtered(cluster("a"), _spread("region"), exempt=False),
    "SpreadConstraint: zone": Filtered(cluster("a"), _spread("zone"), exempt=False),
    "ClusterEviction": Filtered(cluster("a"), _leaving("ApplicationFailure"), exempt=False),
    "WorkloadAffinity": Filtered(
        cluster("a"),
        spec(placement()),
        exempt=True,
        more={"neighbours": Neighbours(together=frozenset({frozenset({"b"})}))},
    ),
    "WorkloadAntiAffinity": Filtered(
        cluster("a"), spec(placement()), exempt=True, more={"neighbours": Neighbours(apart=frozenset({"a"}))}
    ),
    "Terminating": Filtered(_going(cluster("a"), True), spec(placement()), exempt=False),
    # Ours
    "Terminating: the eviction queue empties it": Filtered(
        _going(cluster("a"), True), spec(placement()), exempt=True, compat=Compat(terminating_taint=True)
    ),
    "Leaving: counted as unavailable": Filtered(
        cluster("a"), spec(placement()), exempt=False, more={"unavailable": {"a"}}
    ),
    "Failover: PreferNoExecute would evict it again": Filtered(
        cluster("a", taints=[Taint("sick", "PreferNoExecute")]), spec(placement(), fails_over=True), exempt=True
    ),
    "ClusterEviction: evicted because of a taint that is still there": Filtered(
        cluster("a", taints=[Taint("sick", "PreferNoExecute")]), _leaving(TAINT_UNTOLERATED), exempt=True
    ),
}


def _answer(case: Filtered, *, there: bool) -> Any:
    other = cluster("b", region="north", zones=("n1",))
    other = other.with_spec(provider="ours")
    wanted = replace(case.wanted, clusters=spec(placement(), on={"a": 1}).clusters) if there else case.wanted
    settings = Settings(feature_gates=dict.fromkeys(GATES, True), compat=case.compat)
    return ask([case.cluster, other], wanted, settings=settings, **case.more)


@pytest.mark.parametrize("row", FILTERS)
def test_a_filter_keeps_new_copies_away_and_is_named(row: str) -> None:
    verdict = _answer(FILTERS[row], there=False)

    assert shares(verdict) == {"b": 1}
    assert refusals(verdict.explanation)["a"].filter == row.partition(":")[0]


@pytest.mark.parametrize("row", FILTERS)
def test_a_copy_that_is_there_is_exempt_from_some(row: str) -> None:
    assert ("a" in shares(_answer(FILTERS[row], there=True))) is FILTERS[row].exempt


def test_a_cluster_that_is_not_ready_is_no_reason_by_itself() -> None:
    ill = cluster("a").with_status(conditions=(Condition("Ready", "False"),))

    assert shares(ask([ill], spec(placement()))) == {"a": 1}


def test_every_filter_there_is_has_a_row() -> None:
    missing = {row.name for row in filters.FILTERS} - {row.partition(":")[0] for row in FILTERS}
    assert not missing, "add a case to FILTERS above for each of these filters"
    assert {row.partition(":")[0] for row in FILTERS} <= {row.name for row in filters.FILTERS}


@pytest.mark.parametrize("row", FILTERS)
def test_a_binding_that_a_filter_answers_differently_shares_no_answer_with_others(row: str) -> None:
    """What a filter reads of a binding has to be in `filters.shared_key`, or others get the answer of this binding."""
    verdict = _answer(FILTERS[row], there=False)
    plan, asked = verdict.explanation.attempts[0].plan, verdict.explanation.question
    other = question_of(spec(asked.placement), ResourceBindingStatus(), settings=Settings())
    key, others = (filters.shared_key(plan, question) for question in (asked, other))
    answers = [filters.feasible(plan, question).tolist() for question in (asked, other)]

    assert answers[0] == answers[1] or key != others, f"add what the filter {row} reads to filters.shared_key"


@pytest.mark.parametrize("row", FILTERS)
def test_a_binding_gets_the_answer_that_it_would_get_alone(row: str) -> None:
    verdict = _answer(FILTERS[row], there=False)
    asked, plan = verdict.explanation.question, verdict.explanation.attempts[0].plan
    other = question_of(spec(asked.placement), ResourceBindingStatus(), settings=Settings())

    def answers(*questions: Question) -> list[list[int]]:
        again = Plan(plan.fleet, plan.placement, plan.term, workload=True)
        return [filters.feasible(again, question).tolist() for question in questions]

    assert answers(asked, other) == [*answers(asked), *answers(other)]
    assert answers(other, asked) == [*answers(other), *answers(asked)]


# Outcomes [scheduling-outcomes]; Karmada's QuotaExceeded comes from a webhook of quotas, which do not exist here


class Ended(NamedTuple):
    change: Callable[[Binding], Binding]  # of a binding with one replica on a
    status: str
    kept: bool  # the copy on a
    again: bool  # is looked at again by itself


OUTCOMES = {
    SUCCESS: Ended(
        lambda one: one.with_spec(placement=Placement(ClusterAffinity(cluster_names=("b",)))), "True", False, False
    ),
    NO_CLUSTER_FIT: Ended(  # Karmada clears the clusters here [placement-is-kept]
        lambda one: one.with_spec(placement=Placement(ClusterAffinity(cluster_names=("gone",)))), "False", True, False
    ),
    UNSCHEDULABLE: Ended(lambda one: one.with_spec(replicas=500), "False", True, True),
    SCHEDULER_ERROR: Ended(
        lambda one: one.with_spec(placement=Placement(spread_constraints=(SpreadConstraint("cluster", "", 3, 3),))),
        "False",
        True,
        True,
    ),
}


@pytest.mark.parametrize("reason", OUTCOMES)
def test_what_an_outcome_says_keeps_and_does_next(reason: str) -> None:
    case = OUTCOMES[reason]
    at = Desk(cluster("a", room=9), cluster("b", room=3), desk.pending("web", Placement(replica_scheduling=DYNAMIC)))
    before = at.binding("web")
    at.now += timedelta(minutes=1)

    at.change(case.change(before))

    after = at.binding("web")
    assert at.said("web") == (case.status, reason)
    assert ("a" in at.places("web")) is case.kept
    assert (at.store.next_due(["scheduler"]) is not None) is case.again
    observed = after.status.scheduler_observed_generation == after.metadata.generation
    moved = after.status.last_scheduled_time != before.status.last_scheduled_time
    assert (observed, moved) == (case.status == "True", case.status == "True")


def test_a_result_that_stands_only_lets_the_observed_generation_catch_up() -> None:
    at = Desk(cluster("a", room=9), desk.pending("web", Placement(replica_scheduling=DYNAMIC)))
    before = at.binding("web")

    at.change(before.with_spec(conflict_resolution="Overwrite"))

    after = at.binding("web")
    assert after.status.scheduler_observed_generation == after.metadata.generation > before.metadata.generation
    assert after.status.last_scheduled_time == before.status.last_scheduled_time
    assert condition(after.status.conditions, "Scheduled") == condition(before.status.conditions, "Scheduled")


def test_room_wakes_what_waits_for_it_and_nothing_else_does_for_five_minutes() -> None:
    at = Desk(cluster("a", room=1), desk.pending("web", Placement(replica_scheduling=DYNAMIC), replicas=2))
    assert at.store.next_due(["scheduler"]) == at.now + timedelta(minutes=5)

    at.change(at.cluster("a").with_status(resource_summary=ResourceSummary({"pods": "5", "cpu": "9"})))

    assert at.places("web") == {"a": 2}
