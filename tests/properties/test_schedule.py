"""What must hold of every schedule, whatever clusters, placements and bindings look like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from controlplane.kinds.binding import (
    APPLICATION_FAILURE,
    FAILED_BACK,
    PARTLY_FAILED_BACK,
    PARTLY_REVERTED,
    REVERTED,
    TAINT_UNTOLERATED,
    GracefulEvictionTask,
    ReplicaRequirements,
    ResourceBindingSpec,
    ResourceBindingStatus,
)
from controlplane.kinds.cluster import PREFER_NO_EXECUTE, APIEnablement, Cluster, Taint
from controlplane.kinds.policy import ClusterAffinity, ReplicaSchedulingStrategy, SpreadConstraint, Toleration
from controlplane.scheduling.batch import Batch, Item
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.filters import Refusal
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.placement_plan import DUPLICATED, division_of
from controlplane.scheduling.question import Neighbours
from controlplane.scheduling.refusals import refusals
from controlplane.scheduling.schedule import Placed, Verdict, schedule
from controlplane.scheduling.webster import dispense
from controlplane.scheduling.webster_arrays import divide
from controlplane.settings import GATES, Settings
from tests.builders.objects import APPS, cluster
from tests.builders.placements import AGGREGATED, DYNAMIC, EVENLY, placement, weights
from tests.builders.scheduling import spec

SETTINGS = Settings(feature_gates={**GATES, "WorkloadAffinity": True})
REASONS = (
    "",
    TAINT_UNTOLERATED,
    APPLICATION_FAILURE,
    FAILED_BACK,
    PARTLY_FAILED_BACK,
    REVERTED,
    PARTLY_REVERTED,
    "Maintenance",
)
"""Every reason that a graceful eviction task can have, a user's own included."""
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STATUS = ResourceBindingStatus(last_scheduled_time=NOON)
NAMES = [f"member{number}" for number in range(1, 9)]

taints = st.lists(
    st.builds(
        Taint,
        st.sampled_from(["down", "gpu"]),
        st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule", PREFER_NO_EXECUTE]),
        st.sampled_from(["", "yes"]),
    ),
    max_size=2,
)


@st.composite
def clusters(draw: st.DrawFn) -> list[Cluster]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=8))
    return [
        cluster(
            name,
            room=draw(st.integers(0, 20)),
            region=draw(st.sampled_from(["", "north", "south", "west"])),
            labels={"tier": draw(st.sampled_from(["gold", "silver"]))},
            taints=draw(taints) if draw(st.integers(0, 3)) == 0 else (),
            apis=APPS if draw(st.integers(0, 7)) else (APIEnablement("v1"),),
        )
        for name in names
    ]


@st.composite
def spreads(draw: st.DrawFn) -> list[SpreadConstraint]:
    kind = draw(st.sampled_from(["none", "none", "cluster", "region"]))
    if kind == "none":
        return []
    least = draw(st.integers(1, 3))
    found = [SpreadConstraint("cluster", "", least, least + draw(st.integers(0, 3)))]
    if kind == "region":
        low = draw(st.integers(1, 2))
        found.append(SpreadConstraint("region", "", low, low + draw(st.integers(0, 2))))
    return found


tasks = st.lists(
    st.builds(
        GracefulEvictionTask,
        st.sampled_from(NAMES),
        replicas=st.none() | st.integers(0, 4),
        reason=st.sampled_from(REASONS),
    ),
    max_size=3,
    unique_by=lambda task: task.from_cluster,
)
neighbours = st.builds(
    Neighbours,
    together=st.none() | st.frozensets(st.frozensets(st.sampled_from(NAMES), min_size=1, max_size=4), max_size=2),
    apart=st.none() | st.frozensets(st.sampled_from(NAMES), max_size=2),
)


@st.composite
def bindings(draw: st.DrawFn) -> ResourceBindingSpec:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=6))
    where = placement(
        *names,
        how=draw(st.sampled_from([None, EVENLY, weights(member1=1, member2=2), DYNAMIC, AGGREGATED])),
        spread=draw(spreads()),
        tolerations=draw(st.sampled_from([(), (Toleration("down", "Exists"),)])),
    )
    on = draw(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 8), max_size=3))
    return spec(
        where,
        replicas=draw(st.integers(0, 30)),
        on=dict(sorted(on.items())),
        uid=draw(st.sampled_from(["", "a", "b", "c"])),
        tasks=draw(tasks),
        fails_over=draw(st.booleans()),
        reschedule_triggered_at=NOON + timedelta(hours=1) if draw(st.integers(0, 3)) == 0 else None,
    )


def asked(members: list[Cluster], wanted: ResourceBindingSpec, **more: Any) -> Verdict:
    fleet = Fleet.of(members, settings=SETTINGS)
    return schedule(wanted, STATUS, fleet, settings=SETTINGS, **more)


def result(verdict: Verdict) -> dict[str, int] | str:
    if isinstance(verdict.outcome, Placed):
        return {one.name: one.replicas for one in verdict.outcome.clusters}
    return verdict.outcome.reason


@given(clusters(), bindings())
def test_replicas_are_conserved(members: list[Cluster], wanted: ResourceBindingSpec) -> None:
    got = result(asked(members, wanted))

    assert wanted.placement is not None
    if isinstance(got, str):
        return
    if division_of(wanted.placement) == DUPLICATED:
        assert set(got.values()) <= {wanted.replicas}
    else:
        assert sum(got.values()) == wanted.replicas
    assert all(count > 0 for count in got.values())


@given(clusters(), bindings(), st.sampled_from([DYNAMIC, AGGREGATED]), st.none() | st.integers(0, 3))
def test_nothing_new_is_placed_beyond_what_is_free(
    members: list[Cluster], wanted: ResourceBindingSpec, how: ReplicaSchedulingStrategy, spare: int | None
) -> None:
    room = {one.metadata.name: int(one.status.resource_summary.allocatable["pods"]) for one in members}  # type: ignore[union-attr]
    before = {one.name: one.replicas for one in wanted.clusters}
    assert wanted.placement is not None
    by_room = replace(wanted, placement=replace(wanted.placement, replica_scheduling=how))
    if spare is not None:  # hardly more room than is asked for
        everything = sum(room.values()) + sum(before.get(name, 0) for name in room)
        by_room = replace(by_room, placement=placement(how=how), replicas=max(0, everything - spare))

    got = result(asked(members, by_room))

    if not isinstance(got, str):
        assert all(count - before.get(name, 0) <= room[name] for name, count in got.items())


@given(clusters(), bindings(), st.sampled_from([DYNAMIC, AGGREGATED]))
def test_shares_on_clusters_that_fit_are_kept_when_nothing_shrinks(
    members: list[Cluster], wanted: ResourceBindingSpec, how: ReplicaSchedulingStrategy
) -> None:
    assert wanted.placement is not None
    where = replace(wanted.placement, spread_constraints=(), replica_scheduling=how)
    steady = replace(wanted, placement=where, reschedule_triggered_at=None)
    verdict = asked(members, steady)
    got = result(verdict)

    refused = refusals(verdict.explanation)
    here = {one.metadata.name for one in members} - set(refused)
    kept = {one.name: one.replicas for one in steady.clusters if one.name in here}
    discouraged = any(one.has_taint("PreferNoSchedule", PREFER_NO_EXECUTE) for one in members)
    if isinstance(got, str) or sum(kept.values()) > steady.replicas or discouraged:
        return
    assert all(got.get(name, 0) >= count for name, count in kept.items())


@given(clusters(), bindings(), st.sampled_from([DYNAMIC, AGGREGATED]))
def test_shrinking_gives_no_cluster_more(
    members: list[Cluster], wanted: ResourceBindingSpec, how: ReplicaSchedulingStrategy
) -> None:
    assert wanted.placement is not None
    where = replace(wanted.placement, spread_constraints=(), replica_scheduling=how)
    steady = replace(wanted, placement=where, reschedule_triggered_at=None)
    verdict = asked(members, steady)
    here = {one.metadata.name for one in members} - set(refusals(verdict.explanation))
    kept = {one.name: one.replicas for one in steady.clusters if one.name in here}
    discouraged = any(one.has_taint("PreferNoSchedule", PREFER_NO_EXECUTE) for one in members)
    smaller = replace(steady, replicas=sum(kept.values()) * 2 // 3)

    got = result(asked(members, smaller))

    if not isinstance(got, str) and kept and not discouraged:
        assert all(count <= kept.get(name, 0) for name, count in got.items())


@given(clusters(), bindings(), st.randoms(use_true_random=False))
def test_the_order_things_are_written_in_does_not_matter(
    members: list[Cluster], wanted: ResourceBindingSpec, chance: Any
) -> None:
    def mixed(things: Any) -> Any:
        return type(things)(chance.sample(things, len(things)))

    assert wanted.placement is not None
    others = mixed([replace(one, spec=replace(one.spec, taints=mixed(one.spec.taints))) for one in members])
    where = wanted.placement
    chosen = where.cluster_affinity
    if chosen is not None:
        chosen = replace(chosen, cluster_names=mixed(chosen.cluster_names))
    other = replace(
        wanted,
        placement=replace(where, cluster_affinity=chosen, spread_constraints=mixed(where.spread_constraints)),
        graceful_eviction_tasks=mixed(wanted.graceful_eviction_tasks),
    )

    assert result(asked(members, wanted)) == result(asked(others, other))


@given(clusters(), bindings(), neighbours)
def test_every_cluster_is_either_refused_with_a_reason_or_was_a_candidate(
    members: list[Cluster], wanted: ResourceBindingSpec, near: Neighbours
) -> None:
    verdict = asked(members, wanted, neighbours=near)

    attempt = verdict.explanation.attempts[-1]
    names = attempt.plan.fleet.names
    refused = set(refusals(verdict.explanation, -1))
    feasible = set() if attempt.feasible is None else {names[place] for place in attempt.feasible.tolist()}
    assert refused | feasible == {one.metadata.name for one in members}
    assert not refused & feasible
    got = result(verdict)
    if not isinstance(got, str):
        assert set(got) <= feasible


@given(clusters(), bindings())
def test_a_constraint_that_cannot_be_met_is_refused_and_not_half_obeyed(
    members: list[Cluster], wanted: ResourceBindingSpec
) -> None:
    impossible = (SpreadConstraint("cluster", "", 99, 99),)
    assert wanted.placement is not None
    harder = replace(
        wanted, placement=replace(wanted.placement, spread_constraints=impossible, replica_scheduling=None)
    )

    assert isinstance(result(asked(members, harder)), str)


def without_blocker(
    members: list[Cluster], wanted: ResourceBindingSpec, name: str, why: Refusal
) -> tuple[list[Cluster], ResourceBindingSpec]:
    """Remove exactly what an explanation names, on the cluster it names."""
    assert wanted.placement is not None
    at = next(place for place, one in enumerate(members) if one.metadata.name == name)
    one = members[at]
    match why.filter:
        case "ClusterAffinity":
            chosen = ClusterAffinity(
                cluster_names=(*(wanted.placement.cluster_affinity or ClusterAffinity()).cluster_names, name)
            )
            return members, replace(wanted, placement=replace(wanted.placement, cluster_affinity=chosen))
        case "ClusterEviction":
            tasks = tuple(task for task in wanted.graceful_eviction_tasks if task.from_cluster != name)
            return members, replace(wanted, graceful_eviction_tasks=tasks)
        case "TaintToleration" | "Failover":
            changed = replace(one, spec=replace(one.spec, taints=_fewer(one, why)))
        case "APIEnablement":
            changed = replace(one, status=replace(one.status, api_enablements=APPS))
        case "SpreadConstraint":
            changed = replace(one, spec=replace(one.spec, region="north"))
        case unknown:
            raise AssertionError(f"add a case here that removes what the filter {unknown} refuses a cluster for")
    return [*members[:at], changed, *members[at + 1 :]], wanted


def _fewer(one: Cluster, why: Refusal) -> tuple[Taint, ...]:
    if why.filter == "Failover":
        return tuple(taint for taint in one.spec.taints if taint.effect != PREFER_NO_EXECUTE)
    return tuple(
        taint
        for taint in one.spec.taints
        if f"{taint.key}={taint.value}:{taint.effect}" not in why.value
        and f" {taint.key}:{taint.effect} " not in f" {why.value} "
    )


@given(clusters(), bindings())
def test_removing_the_named_blocker_ends_that_refusal(members: list[Cluster], wanted: ResourceBindingSpec) -> None:
    for name, why in refusals(asked(members, wanted).explanation).items():
        after = asked(*without_blocker(members, wanted, name, why))

        assert refusals(after.explanation).get(name) != why


def batched(several: Iterable[ResourceBindingSpec], fleet: Fleet, ledger: Ledger) -> list[Verdict]:
    """Place bindings in one batch; the ledger reserves their capacity."""
    batch = Batch(fleet, ledger, SETTINGS)
    return [batch.place(Item(one, STATUS))[1] for one in several]


@given(clusters(), st.lists(bindings(), min_size=1, max_size=6))
def test_a_batch_answers_as_one_after_the_other_would(
    members: list[Cluster], several: list[ResourceBindingSpec]
) -> None:
    doubled = [*several, *several]
    fleet = Fleet.of(members, settings=SETTINGS)
    together = batched(doubled, fleet, Ledger(fleet))

    ledger = Ledger(fleet)
    for one, verdict in zip(doubled, together, strict=True):
        alone = schedule(one, STATUS, fleet, settings=SETTINGS, ledger=ledger)
        assert result(verdict) == result(alone)
        batched([one], fleet, ledger)


@given(clusters(), st.lists(bindings(), max_size=8), st.booleans())
def test_a_batch_never_places_more_than_there_is(
    members: list[Cluster], several: list[ResourceBindingSpec], asks_for_cpu: bool
) -> None:
    fleet = Fleet.of(members, settings=SETTINGS)
    shared = [replace(one, placement=placement(how=DYNAMIC), clusters=()) for one in several]
    if not asks_for_cpu:
        shared = [replace(one, replica_requirements=ReplicaRequirements()) for one in shared]
    verdicts = batched(shared, fleet, Ledger(fleet))

    taken: Counter[str] = Counter()
    for verdict in verdicts:
        got = result(verdict)
        taken.update({} if isinstance(got, str) else got)
    room = dict(zip(fleet.names, fleet.capacity.pods.tolist(), strict=True))
    assert all(count <= room[name] for name, count in taken.items())


seat_weights = st.lists(st.integers(0, 5) | st.integers(0, 2**31 - 1), min_size=1, max_size=30)


@given(st.integers(0, 300) | st.integers(0, 20_000), seat_weights, st.booleans())
def test_dividing_arrays_agrees_with_dividing_one_by_one(
    replicas: int, given_weights: list[int], larger_name_first: bool
) -> None:
    names = [f"{place:03d}" for place in range(len(given_weights))]

    got = divide(replicas, np.array(given_weights), larger_name_first=larger_name_first)

    plain = dispense(replicas, dict(zip(names, given_weights, strict=True)), uid="b" if larger_name_first else "")
    assert got.tolist() == [plain[name] for name in names]
