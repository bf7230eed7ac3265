"""Which copies a recovery puts back, with how many replicas, and which tasks it ends [recovered-clusters-cancel]."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition
from controlplane.estimate.quota import evicted_replicas
from controlplane.eviction.graceful import scheduling_found_nothing, with_copies_restored
from controlplane.eviction.purge import with_task
from controlplane.kinds.binding import (
    APPLICATION_FAILURE,
    SCHEDULED,
    TAINT_UNTOLERATED,
    Binding,
    Component,
    GracefulEvictionTask,
    TargetCluster,
    origin,
)
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY, NEVER
from tests.builders.objects import START, binding
from tests.builders.placements import by_weight, duplicated
from tests.core.test_graceful import PLACES, UP, cleared, moving, task


def scheduled(one: Binding, status: str, *, seen: bool) -> Binding:
    conditions = (Condition(SCHEDULED, status, "Success" if status == "True" else "Unschedulable"),)
    return one.with_status(conditions=conditions, scheduler_observed_generation=one.metadata.generation if seen else 1)


# the proposal's six rows: scheduling result, health of the new instance, task still there -> does the copy go back?
PROPOSED = [
    ("success, running", {"member2": 2}, "True", "Healthy", False),
    ("success, running, task cleared", {"member2": 2}, "True", "Healthy", False),
    ("success, not running", {"member2": 2}, "True", "Unhealthy", False),
    ("success, not running, task cleared", {"member2": 2}, "True", "Unhealthy", False),
    ("empty result", {}, "True", "", True),
    ("scheduling failed", {}, "False", "", True),
]


@pytest.mark.parametrize(("row", "on", "status", "health", "back"), PROPOSED, ids=[row[0] for row in PROPOSED])
def test_six_rows_of_recovery(row: str, on: dict[str, int], status: str, health: str, back: bool) -> None:
    tasks = () if "task cleared" in row else (task(),)
    one = scheduled(moving(*tasks, on=on, **dict.fromkeys(on, health)), status, seen=status == "True")

    after, undone = with_copies_restored(one, {**PLACES, "member1": UP})

    assert bool(undone) == back
    assert (after.spec.target("member1") is not None) == back
    assert (after.spec.task("member1") is None) == (back or not tasks)


def test_a_cluster_with_another_evicting_taint_has_not_recovered() -> None:
    one = scheduled(moving(task(), on={}), "False", seen=False)

    assert with_copies_restored(one, PLACES) == (one, ())


@pytest.mark.parametrize(
    ("health", "mode", "never", "unhealthy_on", "back"),
    [
        ("Healthy", GRACEFULLY, None, ["member1"], True),
        ("Unhealthy", GRACEFULLY, None, ["member1"], False),
        ("Unknown", GRACEFULLY, None, ["member1"], False),
        ("Healthy", GRACEFULLY, None, [], False),  # it followed another part, and would follow it again
        ("Healthy", DIRECTLY, None, ["member1"], True),  # it stays until there is a place for the new one
        ("Unhealthy", DIRECTLY, None, ["member1"], False),
        ("Healthy", NEVER, True, ["member1"], False),  # a person clears the task
    ],
)
def test_a_copy_that_left_as_unhealthy_goes_back_when_it_is_healthy_again(
    health: str, mode: str, never: bool | None, unhealthy_on: list[str], back: bool
) -> None:
    left = task(reason=APPLICATION_FAILURE, purge_mode=mode, suppress_deletion=never, replicas=2)
    one = scheduled(moving(left, on={}, member1=health), "False", seen=False)

    after, undone = with_copies_restored(one, {**PLACES, "member1": UP}, unhealthy_on=unhealthy_on)

    assert [(target.name, target.replicas) for target in after.spec.clusters] == ([("member1", 2)] if back else [])
    assert len(undone) == back


@pytest.mark.parametrize(
    ("over", "state", "ready", "back"),
    [
        (["member1"], {}, True, True),
        ([], {}, True, False),
        (["member1"], {"job": "7"}, True, False),  # its state is for another cluster
        (["member1"], {}, False, False),
    ],
)
def test_a_copy_that_was_removed_directly_starts_again_when_the_time_of_its_task_is_over(
    over: list[str], state: dict[str, str], ready: bool, back: bool
) -> None:
    left = task(reason=APPLICATION_FAILURE, purge_mode=DIRECTLY, replicas=2, preserved_label_state=state)
    one = scheduled(moving(left, on={}), "False", seen=False)

    after, undone = with_copies_restored(one, {**PLACES, "member1": replace(UP, ready=ready)}, overdue=over)

    assert [(target.name, target.replicas) for target in after.spec.clusters] == ([("member1", 2)] if back else [])
    assert len(undone) == back


def test_replicas_that_stay_beside_a_restored_part_have_no_grace_period() -> None:
    left = task(reason=APPLICATION_FAILURE, purge_mode=GRACEFULLY, replicas=4, grace_period_seconds=10)
    one = moving(left, on={"member2": 3}, member1="Healthy", member2="Unhealthy")
    one = scheduled(one.with_spec(placement=by_weight(member1=1, member2=1), replicas=5), "False", seen=False)

    after, _ = with_copies_restored(one, {**PLACES, "member1": UP}, unhealthy_on=["member1"])

    (rest,) = after.spec.graceful_eviction_tasks
    assert (rest.replicas, rest.grace_period_seconds) == (2, None)


@pytest.mark.parametrize(("reason", "left"), [(TAINT_UNTOLERATED, []), (APPLICATION_FAILURE, ["member1"])])
@pytest.mark.parametrize("on", [{}, {"member2": 0}], ids=["the only copy", "one of two copies"])
def test_a_set_of_components_goes_back_as_a_copy_with_replicas_does(
    on: dict[str, int], reason: str, left: list[str]
) -> None:
    one = moving(task(reason=reason, replicas=None), on=on, member1="Healthy", **dict.fromkeys(on, "Healthy"))
    one = one.with_spec(components=(Component("jobs", 1), Component("tasks", 2)), replicas=0)

    after, undone = with_copies_restored(
        scheduled(one, "False", seen=False), {**PLACES, "member1": UP}, unhealthy_on=left
    )

    assert [target.name for target in after.spec.clusters] == [*on, "member1"]
    assert (after.spec.graceful_eviction_tasks, len(undone)) == ((), 1)


def test_a_copy_that_is_healthy_again_does_not_go_back_if_others_have_its_place() -> None:
    left = task(reason=APPLICATION_FAILURE)
    one = scheduled(moving(left, on={"member2": 2}, member1="Healthy", member2="Unhealthy"), "True", seen=True)

    assert with_copies_restored(one, {**PLACES, "member1": UP}, unhealthy_on=["member1"]) == (one, ())


def test_divided_gets_back_what_found_no_other_place() -> None:
    placement = by_weight(member1=1, member2=1)
    one = moving(task(replicas=4), on={"member2": 3}).with_spec(placement=placement, replicas=5)

    after, _ = with_copies_restored(scheduled(one, "False", seen=False), {**PLACES, "member1": UP})

    assert {target.name: target.replicas for target in after.spec.clusters} == {"member1": 2, "member2": 3}


@pytest.mark.parametrize(("mode", "stay"), [(GRACEFULLY, [("member1", 2)]), (DIRECTLY, [])])
def test_replicas_that_were_placed_elsewhere_stay_until_those_are_healthy(
    mode: str, stay: list[tuple[str, int]]
) -> None:
    one = moving(task(replicas=4, purge_mode=mode), on={"member2": 3}, member2="Unhealthy")
    one = one.with_spec(placement=by_weight(member1=1, member2=1), replicas=5)

    after, _ = with_copies_restored(scheduled(one, "False", seen=False), {**PLACES, "member1": UP})

    assert [(rest.from_cluster, rest.replicas) for rest in after.spec.graceful_eviction_tasks] == stay
    assert after.spec.replicas_returning("member1") == (2 if stay else 0)
    assert cleared(after) == []


@pytest.mark.parametrize(
    ("behind", "status", "nothing"),
    [(None, "False", True), (0, "False", True), (-1, "False", True), (1, "False", False), (1, "True", False)],
)
def test_a_failure_counts_for_the_generation_it_was_reported_for_and_not_for_a_later_one(
    behind: int | None, status: str, nothing: bool
) -> None:
    """`behind`: generations between the failure and the binding; None: a scheduler that reports no generation."""
    one = moving(task(), on={})
    generation = one.metadata.generation
    observed = None if behind is None else generation - behind
    failure = Condition(SCHEDULED, status, "Unschedulable", observed_generation=observed)
    one = one.with_status(conditions=(failure,), scheduler_observed_generation=generation - 1)

    assert scheduling_found_nothing(one) is nothing


@pytest.mark.parametrize(("behind", "nothing"), [(0, True), (-1, True), (1, False)])
def test_an_empty_result_counts_once_the_scheduler_has_seen_the_generation(behind: int, nothing: bool) -> None:
    one = moving(task(), on={})

    assert scheduling_found_nothing(
        one.with_status(scheduler_observed_generation=one.metadata.generation - behind)
    ) is (nothing)


@pytest.mark.parametrize(
    ("replicas", "lost", "back"),
    [(5, 4, {"member1": 2, "member2": 3}), (3, 4, {"member2": 3}), (0, 0, {"member1": 0, "member2": 3})],
    ids=["a part is missing", "all replicas run", "no workload"],
)
def test_a_recovered_cluster_gets_back_what_is_missing(replicas: int, lost: int, back: dict[str, int]) -> None:
    one = moving(task(replicas=lost), on={"member2": 3}, member2="Healthy").with_spec(
        placement=by_weight(member1=1, member2=1), replicas=replicas
    )
    if not replicas:
        one = one.with_spec(replica_requirements=None)
    assert one.workload is bool(replicas)

    after, undone = with_copies_restored(scheduled(one, "False", seen=False), {**PLACES, "member1": UP})

    assert {target.name: target.replicas for target in after.spec.clusters} == back
    assert len(undone) == 1


def test_without_a_placement_all_lost_replicas_are_restored() -> None:
    one = moving(task(replicas=4), on={"member2": 3}).with_spec(placement=None, replicas=5)

    after, _ = with_copies_restored(scheduled(one, "False", seen=False), {**PLACES, "member1": UP})

    assert after.spec.target("member1") is not None
    assert {target.name: target.replicas for target in after.spec.clusters} == {"member1": 4, "member2": 3}


def test_a_cluster_that_has_not_recovered_does_not_hide_the_next() -> None:
    one = scheduled(moving(task("member1"), task("member3"), on={}), "False", seen=False)

    after, undone = with_copies_restored(one, PLACES)

    assert [target.name for target in after.spec.clusters] == ["member3"]
    assert [gone.task.from_cluster for gone in undone] == ["member3"]


def test_scheduling_still_to_come_is_neither_empty_nor_failed() -> None:
    one = moving(task(), on={}).with_status(scheduler_observed_generation=1)

    assert not scheduling_found_nothing(one)


REFUSED = (Condition(SCHEDULED, "False", "Unschedulable"),)


def placed_elsewhere() -> Binding:
    """Return a binding that left member1 and has all its replicas on member2, which are not healthy yet."""
    old = binding("web", duplicated(), on={"member1": 2})
    left = origin.with_departures(evicted(old, "member1"), old, now=START)
    moved = left.with_spec(clusters=(TargetCluster("member2", 2),))
    return moved.with_status(scheduler_observed_generation=moved.metadata.generation)


def evicted(one: Binding, name: str) -> Binding:
    return with_task(one, name, mode=GRACEFULLY, reason=TAINT_UNTOLERATED, producer="", message="", now=START)


def test_a_copy_that_was_placed_again_does_not_go_back_because_a_later_change_is_refused() -> None:
    one = placed_elsewhere().with_spec(replicas=9).with_status(conditions=REFUSED)

    assert with_copies_restored(one, {**PLACES, "member1": UP}) == (one, ())


@pytest.mark.parametrize("task_is_over", [True, False])
def test_a_copy_whose_new_copy_was_evicted_as_well_goes_back(task_is_over: bool) -> None:
    moved = placed_elsewhere()
    lost = origin.with_departures(evicted(moved, "member2"), moved, now=START)
    if task_is_over:
        lost = lost.with_spec(graceful_eviction_tasks=lost.spec.graceful_eviction_tasks[:1])
    places = {**PLACES, "member1": UP, "member2": PLACES["member1"]}

    after, _ = with_copies_restored(lost.with_status(conditions=REFUSED), places)

    assert [(target.name, target.replicas) for target in after.spec.clusters] == [("member1", 2)]
    assert evicted_replicas(lost, ()) == 2


# With the controllers


def divided(*tasks: GracefulEvictionTask, health: str) -> Binding:
    """Return a binding with 3 of 5 replicas on member2, for which scheduling has failed."""
    one = moving(*tasks, on={"member2": 3}, member2=health).with_spec(
        placement=by_weight(member1=1, member2=1), replicas=5
    )
    return scheduled(one, "False", seen=False)


def test_a_copy_whose_replicas_do_not_run_elsewhere_yet_keeps_its_task_and_those_after_it_are_kept_too() -> None:
    tasks = [task("member1"), task("member3"), task("member9")]

    after, undone = with_copies_restored(divided(*tasks, health="Unhealthy"), {**PLACES, "member1": UP})

    assert {target.name: target.replicas for target in after.spec.clusters} == {"member1": 2, "member2": 3}
    assert after.spec.graceful_eviction_tasks == (tasks[1], tasks[2])
    assert [gone.task for gone in undone] == [tasks[0]]


@pytest.mark.parametrize(("mode", "kept"), [(GRACEFULLY, True), (DIRECTLY, False)])
def test_a_copy_that_was_to_go_directly_is_not_needed_until_the_new_ones_run(mode: str, kept: bool) -> None:
    one = divided(task("member1", purge_mode=mode), health="Unhealthy").with_spec(replicas=3)

    after, undone = with_copies_restored(scheduled(one, "False", seen=False), {**PLACES, "member1": UP})

    assert after.spec.target("member1") is None
    assert (after.spec.task("member1") is not None, not undone) == (kept, kept)


def test_an_object_without_replicas_goes_back_whatever_the_health_of_its_other_copies() -> None:
    one = moving(task(replicas=0), on={"member2": 0}, member2="Unhealthy").with_spec(
        replicas=0, replica_requirements=None
    )

    after, undone = with_copies_restored(scheduled(one, "False", seen=False), {**PLACES, "member1": UP})

    assert [target.name for target in after.spec.clusters] == ["member2", "member1"]
    assert after.spec.graceful_eviction_tasks == ()
    assert len(undone) == 1


def test_a_workload_that_was_scaled_down_meanwhile_has_no_surplus() -> None:
    one = moving(task(replicas=4), on={}).with_spec(replicas=2)

    after, _ = with_copies_restored(scheduled(one, "False", seen=False), {**PLACES, "member1": UP})

    assert after.spec.graceful_eviction_tasks == ()
