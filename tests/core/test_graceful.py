"""When old copies may go, and what a recovery cancels."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, ObjectMeta, condition
from controlplane.eviction.graceful import ClusterState, assess_tasks, is_scheduled
from controlplane.kinds.binding import (
    PARTLY_FAILED_BACK,
    SCHEDULED,
    TAINT_UNTOLERATED,
    AggregatedStatusItem,
    Binding,
    GracefulEvictionTask,
    TargetCluster,
    origin,
)
from controlplane.kinds.configuration import FailoverConfiguration
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY
from controlplane.kinds.rows import Observation
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import duplicated
from tests.core.fleet_story import FAILOVER, Story

HOLD = Settings()
PURGE = Settings(on_graceful_timeout="Purge")
FAST = replace(FAILOVER, resource_eviction_rate=1000.0, secondary_resource_eviction_rate=100.0)
LATER = START + timedelta(seconds=10)
LATE = START + timedelta(seconds=601)
UP = ClusterState(ready=True, evicting=False, observed_at=LATER)
PLACES = {"member1": ClusterState(ready=False, evicting=True), "member2": UP, "member3": UP}


def task(cluster_name: str = "member1", **more: object) -> GracefulEvictionTask:
    fields = {"reason": TAINT_UNTOLERATED, "replicas": 2, "creation_timestamp": START} | more
    return GracefulEvictionTask(cluster_name, **fields)  # type: ignore[arg-type]


def moving(*tasks: GracefulEvictionTask, on: dict[str, int], **health: AggregatedStatusItem | str) -> Binding:
    one = binding("web", duplicated(), on=on).with_spec(graceful_eviction_tasks=tasks)
    items = [
        item if isinstance(item, AggregatedStatusItem) else AggregatedStatusItem(name, None, True, "", item)
        for name, item in health.items()
    ]
    return one.with_status(aggregated_status=tuple(items), scheduler_observed_generation=one.metadata.generation)


def cleared(one: Binding, settings: Settings = HOLD, *, at: object = LATER, places: object = PLACES) -> list[str]:
    found = assess_tasks(one, settings, clusters=places, now=at)  # type: ignore[arg-type]
    return [gone.task.from_cluster for gone in found.cleared]


def test_all_targets_healthy_clears_the_task() -> None:
    assert cleared(moving(task(), on={"member2": 2, "member3": 2}, member2="Healthy", member3="Healthy")) == ["member1"]


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(moving(task(), on={}), id="an empty target set"),
        pytest.param(moving(task(), on={"member2": 2}, member2="Unhealthy"), id="unhealthy"),
        pytest.param(moving(task(), on={"member2": 2}, member2="Unknown"), id="unknown"),
        pytest.param(moving(task(), on={"member2": 2}), id="not reported"),
        pytest.param(moving(task(), on={"member2": 2, "member3": 2}, member2="Healthy"), id="one of two"),
        pytest.param(
            moving(
                task(),
                on={"member2": 3},
                member2=AggregatedStatusItem("member2", {"readyReplicas": 2}, True, "", "Healthy"),
            ),
            id="fewer ready replicas than asked",
        ),
        pytest.param(
            moving(task(), on={"member2": 2}, member2="Healthy").with_status(scheduler_observed_generation=1),
            id="not scheduled yet",
        ),
        pytest.param(moving(task(), on={"member9": 2}, member9="Healthy"), id="a cluster that is gone"),
        pytest.param(moving(task(), on={"member4": 2}, member4="Healthy"), id="the last word of a dead cluster"),
        pytest.param(moving(task(), on={"member5": 2}, member5="Healthy"), id="observed before the eviction"),
    ],
)
def test_what_never_counts_as_healthy(one: Binding) -> None:
    old = ClusterState(ready=True, evicting=False, observed_at=START - timedelta(seconds=1))
    places = {**PLACES, "member4": ClusterState(ready=False, evicting=False), "member5": old}

    assert cleared(one, places=places) == []


@pytest.mark.parametrize(("mode", "gone"), [(GRACEFULLY, ["member1"]), (DIRECTLY, [])])
def test_a_workload_that_is_scaled_to_zero_needs_no_new_copies(mode: str, gone: list[str]) -> None:
    one = moving(task(purge_mode=mode), on={}).with_spec(replicas=0)

    assert cleared(one) == []
    assert cleared(one.with_status(scheduler_observed_generation=one.metadata.generation)) == gone


@pytest.mark.parametrize(
    ("replicas", "place", "states"),
    [
        (0, UP, []),  # its copy is removed, and no other is wanted
        (0, PLACES["member1"], ["WaitingSource"]),  # its copy may still run
        (2, UP, ["Stuck"]),
    ],
)
def test_a_directly_task_of_a_workload_that_is_scaled_to_zero_is_stuck_only_while_its_cluster_is_down(
    replicas: int, place: ClusterState, states: list[str]
) -> None:
    one = moving(task(purge_mode=DIRECTLY), on={}).with_spec(replicas=replicas)
    one = one.with_status(scheduler_observed_generation=one.metadata.generation)

    found = assess_tasks(one, HOLD, clusters={**PLACES, "member1": place}, now=LATE)

    assert [waiting.state for waiting in found.overdue] == states
    assert len(found.kept) == 1


@pytest.mark.parametrize(
    ("ready", "observed", "gone"), [(1, 0, []), (2, 0, ["member1"]), (3, 0, ["member1"]), (2, -1, [])]
)
def test_enough_ready_replicas_observed_since_the_eviction_count_as_healthy(
    ready: int, observed: int, gone: list[str]
) -> None:
    item = AggregatedStatusItem("member2", {"readyReplicas": ready}, True, "", "Healthy")
    seen = ClusterState(ready=True, evicting=False, observed_at=START + timedelta(seconds=observed))

    assert cleared(moving(task(), on={"member2": 2}, member2=item), places={**PLACES, "member2": seen}) == gone


@pytest.mark.parametrize(
    "old",
    [
        pytest.param(ClusterState(True, False, START - timedelta(seconds=1)), id="observed before"),
        pytest.param(ClusterState(True, False, LATER, Observation("member2", status="False")), id="a failed probe"),
    ],
)
def test_health_that_only_lacks_a_newer_look_is_looked_at_again_soon(old: ClusterState) -> None:
    one = moving(task(), on={"member2": 2}, member2="Healthy")

    found = assess_tasks(one, HOLD, clusters={**PLACES, "member2": old}, now=LATER)

    assert found.cleared == ()
    assert found.wake_at == LATER + timedelta(seconds=HOLD.cluster_monitor_period)


SICK = moving(task(), on={"member2": 2}, member2="Unhealthy")


@pytest.mark.parametrize(("after", "overdue", "wake"), [(599, 0, 600), (600, 0, 600), (600.000_001, 1, None)])
def test_the_time_of_a_task_ends_after_its_last_moment(after: float, overdue: int, wake: float | None) -> None:
    found = assess_tasks(SICK, HOLD, clusters=PLACES, now=START + timedelta(seconds=after))

    assert len(found.overdue) == overdue
    assert found.wake_at == (None if wake is None else START + timedelta(seconds=wake, microseconds=1))


def test_a_task_that_is_stamped_now_is_assessed_again_when_its_time_is_over() -> None:
    one = moving(task(creation_timestamp=None), on={"member2": 2}, member2="Unhealthy")

    found = assess_tasks(one, HOLD, clusters=PLACES, now=LATER)

    assert found.wake_at == LATER + timedelta(seconds=HOLD.graceful_eviction_timeout, microseconds=1)


@pytest.mark.parametrize(
    "first",
    [task("member4", creation_timestamp=None), task("gone"), task("member4", suppress_deletion=True)],
    ids=["stamped now", "cleared", "kept by suppressDeletion"],
)
def test_each_task_is_assessed_whatever_became_of_those_before_it(first: GracefulEvictionTask) -> None:
    places = {**PLACES, "member4": UP}
    one = moving(first, task("gone too"), on={"member2": 2}, member2="Unhealthy")

    assert cleared(one, places=places)[-1] == "gone too"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a", "b", "c"), "a, b, c no longer runs on the cluster"),
        (("a", "b", "c", "d"), "a, b, c and 1 more no longer runs on the cluster"),
        (("a", "b", "c", "d", "e"), "a, b, c and 2 more no longer runs on the cluster"),
    ],
)
def test_the_first_three_dependents_are_named_and_the_others_counted(names: tuple[str, ...], message: str) -> None:
    one = moving(task(), on={"member2": 2}, member2="Healthy")

    (found,) = assess_tasks(one, HOLD, clusters=PLACES, dependents={"member1": names}, now=LATER).waiting

    assert found.waits_for == message


@pytest.mark.parametrize(
    ("on", "seen", "waits_for"),
    [
        ({"member2": 2}, 0, "member2: health is Unhealthy"),
        ({"member2": 2}, 1, "member2: health is Unhealthy; the scheduler has not processed the latest change"),
        ({}, 1, "no cluster was found for the copy"),
    ],
)
def test_a_stuck_task_reports_a_change_that_the_scheduler_has_not_processed(
    on: dict[str, int], seen: int, waits_for: str
) -> None:
    """`seen`: how many generations the scheduler is behind."""
    one = moving(task(), on=on, **dict.fromkeys(on, "Unhealthy"))
    one = one.with_status(scheduler_observed_generation=one.metadata.generation - seen)

    (found,) = assess_tasks(one, HOLD, clusters=PLACES, now=LATE).overdue

    assert found.waits_for == waits_for


def refused_growth(*more: GracefulEvictionTask) -> Binding:
    """A workload that left member1, was placed on member2, and whose later growth was refused."""
    old = moving(on={"member1": 2}, member2="Unhealthy")
    left = old.with_spec(clusters=(), graceful_eviction_tasks=(task(), *more))
    placed = origin.with_departures(left, old, now=START).with_spec(clusters=(TargetCluster("member2", 2),))
    seen = placed.with_status(scheduler_observed_generation=placed.metadata.generation)
    return seen.with_spec(replicas=9).with_status(conditions=(Condition(SCHEDULED, "False", "QuotaExceeded"),))


def test_a_stuck_task_does_not_wait_for_the_scheduler_if_a_later_growth_is_refused() -> None:
    (found,) = assess_tasks(refused_growth(), HOLD, clusters=PLACES, now=LATE).overdue

    assert found.waits_for == "member2: health is Unhealthy"


def test_a_refused_growth_is_processed_once_all_evicted_copies_are_placed_again() -> None:
    """Replicas that leave a target in part are not placed again. The task of the last cluster may have ended."""
    partly = refused_growth(task("member2", reason=PARTLY_FAILED_BACK))
    left = refused_growth().with_spec(clusters=(), graceful_eviction_tasks=(task(), task("member2")))
    ended = origin.with_departures(left, refused_growth(), now=START).with_spec(graceful_eviction_tasks=(task(),))

    assert [is_scheduled(one) for one in (refused_growth(), partly, ended)] == [True, True, False]


@pytest.mark.parametrize(
    ("places", "mode", "gone"),
    [
        (None, DIRECTLY, ["member1"]),
        (None, GRACEFULLY, ["member1"]),
        (PLACES, DIRECTLY, []),
        (PLACES, GRACEFULLY, ["member1"]),
    ],
)
def test_purge_clears_no_directly_task_while_the_clusters_are_known(
    places: dict[str, ClusterState] | None, mode: str, gone: list[str]
) -> None:
    one = moving(task(purge_mode=mode), on={"member2": 2}, member2="Unhealthy")

    assert cleared(one, PURGE, at=LATE, places=places) == gone


@pytest.mark.parametrize(
    ("state", "health", "gone"),
    [({}, "Unhealthy", ["gone"]), ({"a": "1"}, "Unhealthy", []), ({"a": "1"}, "Healthy", ["gone"])],
)
def test_preserved_state_outlasts_its_cluster_until_a_new_copy_is_healthy(
    state: dict[str, str], health: str, gone: list[str]
) -> None:
    one = moving(task("gone", preserved_label_state=state), on={"member2": 2}, member2=health)

    assert cleared(one) == gone


@pytest.mark.parametrize(
    ("settings", "seconds", "gone"),
    [(HOLD, 600, []), (HOLD, 100_000, []), (PURGE, 600, []), (PURGE, 600.001, ["member1"])],
)
def test_past_the_timeout_hold_keeps_the_copy_and_purge_lets_it_go(
    settings: Settings, seconds: float, gone: list[str]
) -> None:
    assert cleared(SICK, settings, at=START + timedelta(seconds=seconds)) == gone


@pytest.mark.parametrize(("source_ready", "state"), [(True, "Stuck"), (False, "WaitingSource")])
def test_a_task_past_its_time_says_what_it_waits_for(source_ready: bool, state: str) -> None:
    places = {**PLACES, "member1": ClusterState(ready=source_ready, evicting=True)}

    (found,) = assess_tasks(SICK, HOLD, clusters=places, now=LATE).overdue

    assert found.state == state
    assert "member2" in found.waits_for
    assert "Unhealthy" in found.waits_for


@pytest.mark.parametrize(
    ("health", "gone"),
    [
        ({"member2": "Healthy", "member3": "Unhealthy"}, ["member1"]),
        ({"member2": "Unhealthy", "member3": "Unhealthy"}, []),
        ({"member1": "Unhealthy", "member2": "Unhealthy", "member3": "Unhealthy"}, ["member1"]),
    ],
)
def test_a_grace_period_wins_but_never_removes_the_last_healthy_copy(health: dict[str, str], gone: list[str]) -> None:
    one = moving(task(grace_period_seconds=30), on={"member2": 2, "member3": 2}, **health)

    for settings in (HOLD, PURGE):
        assert cleared(one, settings, at=START + timedelta(seconds=31)) == gone
        assert cleared(one, settings, at=START + timedelta(seconds=30)) == []


@pytest.mark.parametrize(("suppress", "gone"), [(True, []), (False, ["member1"])])
def test_suppress_deletion_decides_alone(suppress: bool, gone: list[str]) -> None:
    healthy = moving(task(suppress_deletion=suppress), on={"member2": 2}, member2="Healthy")
    sick = moving(task(suppress_deletion=suppress), on={"member2": 2}, member2="Unhealthy")

    assert cleared(healthy, PURGE, at=LATE) == cleared(sick, PURGE, at=LATE) == gone


def test_a_task_without_a_time_is_stamped_and_kept() -> None:
    one = moving(task(creation_timestamp=None), on={"member2": 2}, member2="Healthy")

    found = assess_tasks(one, HOLD, clusters=PLACES, now=LATER)

    assert found.kept == (task(creation_timestamp=LATER),)


@pytest.mark.parametrize(("plugins", "gone"), [(("ScheduledBack",), ["member2"]), (("ResourceHealth",), [])])
def test_a_cluster_in_the_result_and_in_a_task_is_cleared_by_its_named_check(
    plugins: tuple[str, ...], gone: list[str]
) -> None:
    one = moving(task("member2"), on={"member2": 2}, member2="Unhealthy")

    assert cleared(one, replace(HOLD, evict_plugins=plugins)) == gone


def test_a_task_of_a_cluster_that_is_gone_ends() -> None:
    assert cleared(moving(task("member9"), on={"member2": 2}, member2="Unhealthy")) == ["member9"]


def story(one: Binding, settings: Settings = FAST) -> Story:
    return Story(*(cluster(f"member{n}") for n in (1, 2, 3, 4)), one, settings=settings)


def with_health(fleet: Story, health: str) -> None:
    """Store what all members have reported about their copies of web."""
    old = fleet.binding("web")
    items = tuple(replace(item, health=health) for item in old.status.aggregated_status)
    fleet.store.put(old.with_status(aggregated_status=items), old)


def test_i1_the_old_copy_stays_until_the_new_one_is_healthy() -> None:
    fleet = story(binding("web", duplicated("member1", "member2", least=1, most=1), on={"member1": 2}))
    fleet.members.healthy = False
    fleet.taint("member1", no_execute())
    fleet.pass_seconds(500)
    assert (fleet.placed("web"), fleet.leaving("web")) == ({"member2": 2}, ["member1"])

    with_health(fleet, "Healthy")
    fleet.work()

    assert fleet.leaving("web") == []


def test_the_last_report_of_a_cluster_that_refuses_all_logins_does_not_count() -> None:
    one = binding("web", duplicated("member1", "member2", least=1, most=2), on={"member1": 2, "member2": 2})
    fleet = story(one)
    fleet.members.healthy = False
    with_health(fleet, "Unhealthy")
    fleet.taint("member1", no_execute())
    fleet.pass_seconds(30)
    fleet.access_lost("member2", "True")
    with_health(fleet, "Healthy")
    fleet.pass_seconds(602)
    stuck = condition(fleet.binding("web").status.conditions, "EvictionStuck")
    assert fleet.leaving("web") == ["member1"]
    assert stuck is not None
    assert "member2: the cluster is not Ready or access to it is lost" in stuck.message

    fleet.access_lost("member2", "False")

    assert fleet.leaving("web") == []


def test_a_stuck_task_shows_as_condition_and_event_and_its_end_too() -> None:
    fleet = story(binding("web", duplicated("member1", "member2", least=1, most=1), on={"member1": 2}))
    fleet.members.healthy = False
    fleet.taint("member1", no_execute())
    fleet.pass_seconds(602)

    stuck = condition(fleet.binding("web").status.conditions, "EvictionStuck")
    assert stuck is not None
    assert (stuck.status, stuck.reason) == ("True", "Stuck")
    assert len(fleet.events("EvictionStuck")) == 1

    old = fleet.binding("web")
    healthy = tuple(replace(item, health="Healthy") for item in old.status.aggregated_status)
    fleet.store.put(old.with_status(aggregated_status=healthy), old)
    fleet.work()
    over = condition(fleet.binding("web").status.conditions, "EvictionStuck")
    assert over is not None
    assert over.status == "False"


def test_settings_that_give_less_time_count_for_what_is_leaving_already() -> None:
    fleet = story(binding("web", duplicated("member1", "member2", least=1, most=1), on={"member1": 2}))
    fleet.members.healthy = False
    fleet.taint("member1", no_execute())
    fleet.pass_seconds(60)
    assert fleet.events("EvictionStuck") == []

    fleet.settings = replace(FAST, graceful_eviction_timeout=30)
    fleet.store.create(
        FailoverConfiguration("failover.lifeboat.io/v1alpha1", "FailoverConfiguration", ObjectMeta(name="default"))
    )
    fleet.work()

    assert len(fleet.events("EvictionStuck")) == 1


def test_a_recovery_puts_the_copy_back_where_scheduling_failed_after_the_eviction() -> None:
    fleet = story(binding("web", duplicated("member1", "member2", least=1, most=1), on={"member1": 2}))
    fleet.taint("member1", no_execute())
    fleet.taint("member2", replace(no_execute("full"), effect="NoSchedule"))
    old = fleet.binding("web")
    fleet.store.put(old.with_spec(clusters=(), graceful_eviction_tasks=(task(replicas=2),)), old)
    fleet.pass_seconds(5)
    assert (fleet.placed("web"), fleet.leaving("web")) == ({}, ["member1"])

    fleet.untaint("member1")
    fleet.pass_seconds(1)

    assert (fleet.placed("web"), fleet.leaving("web")) == ({"member1": 2}, [])
