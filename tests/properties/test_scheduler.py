"""What must hold of every decision of the scheduler about a binding, whatever is asked of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, condition
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.controllers.scheduler import Scheduler, SchedulerSnapshot
from controlplane.engine.decision import Put
from controlplane.engine.state import ReservedCapacity
from controlplane.kinds.binding import SCHEDULED, ResourceBindingSpec, ResourceBindingStatus, TargetCluster
from controlplane.kinds.binding.affinity_index import affine_values, closed_keys, concerns
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.policy import ClusterAffinity, Placement, SpreadConstraint
from controlplane.scheduling.schedule import Placed
from controlplane.scheduling.trigger import APPLIED_PLACEMENT, applied_text
from tests.builders.objects import bound
from tests.properties.test_schedule import SETTINGS, asked, bindings, clusters

NOW = datetime(2026, 1, 1, tzinfo=UTC)

UNMET: tuple[dict[str, Any], ...] = (
    {"cluster_affinity": ClusterAffinity(cluster_names=("nowhere",))},
    {"cluster_affinity": ClusterAffinity(label_selector=LabelSelector({"tier": "none"}))},
    {"spread_constraints": (SpreadConstraint("cluster", "", 99, 99),), "replica_scheduling": None},
    {
        "spread_constraints": (SpreadConstraint("region", "", 9, 9), SpreadConstraint("cluster", "", 9, 9)),
        "replica_scheduling": None,
    },
)


def decided(members: list[Cluster], wanted: ResourceBindingSpec, before: Placement) -> tuple[TargetCluster, ...]:
    """Return where a binding is after a decision; `before`: the placement its present result was made for."""
    subject = bound(wanted, generation=2, annotations={APPLIED_PLACEMENT: applied_text(before)})
    decision = Scheduler().decide(
        SchedulerSnapshot(subject, tuple(members), ReservedCapacity(), {}, {}), SETTINGS, now=NOW
    )
    found = next((one.new for one in decision.changes if isinstance(one, Put)), subject)
    said = condition(found.status.conditions, SCHEDULED)
    assert said is not None, "a changed placement is always decided about"
    assert said.status == "False", said
    return tuple(found.spec.clusters)


@given(clusters(), bindings(), st.sampled_from(UNMET))
def test_a_constraint_that_cannot_be_met_removes_no_running_copy(
    members: list[Cluster], wanted: ResourceBindingSpec, unmet: dict[str, Any]
) -> None:
    assert wanted.placement is not None
    harder = replace(wanted, placement=replace(wanted.placement, **unmet))

    assert decided(members, harder, wanted.placement) == wanted.clusters


@given(clusters(), bindings(), st.data())
def test_who_is_not_asked_about_a_cluster_that_closes_would_have_stayed(
    members: list[Cluster], wanted: ResourceBindingSpec, data: st.DataObject
) -> None:
    """The scheduler does not look at bindings that a further taint on a cluster cannot concern."""
    assert wanted.placement is not None
    by_cluster = tuple(replace(one, min_groups=1) for one in wanted.placement.spread_constraints[:1])
    copies = replace(wanted.placement, replica_scheduling=None, spread_constraints=by_cluster)
    first = asked(members, replace(wanted, placement=copies, reschedule_triggered_at=None)).outcome
    if not isinstance(first, Placed) or not first.clusters:
        return
    steady = replace(wanted, placement=copies, clusters=first.clusters, reschedule_triggered_at=None)
    steady = replace(steady, graceful_eviction_tasks=())
    one = data.draw(st.sampled_from(members))
    taint = data.draw(st.builds(Taint, st.just("new"), st.sampled_from(["NoSchedule", "NoExecute"])))
    shut = one.with_spec(taints=(*one.spec.taints, taint))
    binding = bound(steady)

    before = asked(members, steady).outcome
    after = asked([shut if other is one else other for other in members], steady).outcome

    assert not concerns({shut.metadata.name: shut}, binding, closed=True)
    if before == first:
        assert isinstance(after, Placed)
        assert after.clusters == steady.clusters


@given(clusters(), bindings(), st.booleans())
def test_who_is_asked_about_a_cluster_that_closes_is_found_by_the_index(
    members: list[Cluster], wanted: ResourceBindingSpec, waits: bool
) -> None:
    conditions = (Condition("Scheduled", "False"),) if waits else ()
    binding = bound(wanted, status=ResourceBindingStatus(conditions=conditions))

    found = {one.metadata.name for one in members if not set(closed_keys(binding)).isdisjoint(affine_values(one))}

    assert found >= {one.metadata.name for one in members if concerns({one.metadata.name: one}, binding, closed=True)}


@given(clusters(), bindings(), st.booleans(), st.booleans(), st.data())
def test_several_clusters_concern_whom_each_of_them_concerns(
    members: list[Cluster], wanted: ResourceBindingSpec, waits: bool, closed: bool, data: st.DataObject
) -> None:
    conditions = (Condition("Scheduled", "False"),) if waits else ()
    binding = bound(wanted, status=ResourceBindingStatus(conditions=conditions))
    going = [one.with_meta(deletion_timestamp=NOW) for one in members]
    changed = {
        one.metadata.name: data.draw(st.sampled_from([one, gone, None]))
        for one, gone in zip(members, going, strict=True)
        if data.draw(st.booleans())
    }

    each = [concerns({name: one}, binding, closed=closed) for name, one in changed.items()]

    assert concerns(changed, binding, closed=closed) == any(each)


@given(clusters(), st.lists(bindings(), min_size=1, max_size=6), st.integers(0, 6))
def test_two_parts_of_a_batch_are_decided_as_the_whole(
    members: list[Cluster], several: list[ResourceBindingSpec], first: int
) -> None:
    """What the first part takes is not free for the second."""
    subjects = [bound(one, generation=2, name=f"part{number}") for number, one in enumerate(several)]
    snapshots = [SchedulerSnapshot(one, tuple(members), ReservedCapacity(), {}, {}) for one in subjects]
    scheduler = Scheduler()

    decide = scheduler.deciding(snapshots, SETTINGS, now=NOW)
    parts = [*decide(snapshots[:first]), *decide(snapshots[first:])]

    assert list(map(str, parts)) == list(map(str, scheduler.decide_all(snapshots, SETTINGS, now=NOW)))
