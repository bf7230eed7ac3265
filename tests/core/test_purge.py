"""The task that a target becomes when its copy leaves, and what its message says of the time it took."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane.eviction.purge import MAX_MESSAGE, purge_mode, with_partial_task, with_taint_task, with_task
from controlplane.kinds.binding import PARTLY_FAILED_BACK, Binding, GracefulEvictionTask, TargetCluster
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY, ClusterFailoverBehavior
from controlplane.kinds.rows import Judgement, Stop
from controlplane.settings import Settings
from tests.builders.objects import START, binding
from tests.builders.placements import by_room

WEB = binding("web", by_room("a", "b"), on={"a": 3, "b": 2}, replicas=5)
SETTINGS = Settings()
NOW = START + timedelta(seconds=100)


def message_parts(*stops: Stop, due: float | None = 100.0) -> list[str]:
    """Return the parts of the message of an eviction 100 s after the taint."""
    at = None if due is None else START + timedelta(seconds=due)
    cause = Judgement("gone", "NoExecute", START, at, due)
    new = with_taint_task(WEB, "a", cause, SETTINGS, preserved={}, stops=stops, now=NOW)
    (task,) = new.spec.graceful_eviction_tasks
    return [task.message, *task.waited_for]


def stop(since: float, until: float | None) -> Stop:
    end = None if until is None else START + timedelta(seconds=until)
    return Stop(START + timedelta(seconds=since), "tier Stopped", end)


def test_the_message_names_the_taint_and_when_it_came() -> None:
    assert message_parts() == ["taint gone:NoExecute of 2026-01-01T00:00:00Z"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        # Only the part of a stop after the taint counts, and it is reported with the whole stop.
        (stop(-50, 40), "evictions to resume, 40 s: stopped from 2025-12-31T23:59:10Z until 2026-01-01T00:00:40Z"),
        (stop(10, 40), "evictions to resume, 30 s: stopped from 2026-01-01T00:00:10Z until 2026-01-01T00:00:40Z"),
        # A stop that goes on has lasted until now.
        (stop(90, None), "evictions to resume, 10 s: stopped from 2026-01-01T00:01:30Z until 2026-01-01T00:01:40Z"),
    ],
)
def test_the_message_lists_each_stop_since_the_taint(given: Stop, said: str) -> None:
    assert message_parts(given)[1:] == [f"{said}, tier Stopped"]


@pytest.mark.parametrize("until", [-1.0, 0.0])
def test_a_stop_that_was_over_when_the_taint_came_is_not_reported(until: float) -> None:
    assert len(message_parts(stop(-50, until))) == 1


def test_several_stops_are_reported_in_their_order() -> None:
    assert [one[:25] for one in message_parts(stop(10, 20), stop(30, 50))[1:]] == [
        "evictions to resume, 10 s",
        "evictions to resume, 20 s",
    ]


@pytest.mark.parametrize(
    ("due", "said"),
    [
        (None, []),
        (99.5, []),
        (99.0, ["its turn in the queue, which came 1 s after it was due at 2026-01-01T00:01:39Z"]),
        (0.0, ["its turn in the queue, which came 100 s after it was due at 2026-01-01T00:00:00Z"]),
    ],
)
def test_the_message_says_how_long_its_turn_took(due: float | None, said: list[str]) -> None:
    assert message_parts(due=due)[1:] == said


def go(one: Binding, cluster: str = "a", **more: Any) -> Binding:
    given = {"mode": GRACEFULLY, "reason": "Drain", "producer": "Drain/one", "message": "because", **more}
    return with_task(one, cluster, now=NOW + timedelta(milliseconds=500), **given)


def test_a_target_becomes_a_task_that_says_all_about_it() -> None:
    new = go(WEB, preserved={"job": "7"})

    assert new.spec.clusters == (TargetCluster("b", 2),)
    assert new.spec.graceful_eviction_tasks == (
        GracefulEvictionTask(
            from_cluster="a",
            purge_mode=GRACEFULLY,
            replicas=3,
            reason="Drain",
            message="because",
            producer="Drain/one",
            preserved_label_state={"job": "7"},
            creation_timestamp=NOW,
        ),
    )


def test_a_task_of_another_cluster_stays_and_comes_first() -> None:
    other = GracefulEvictionTask("z", creation_timestamp=START)

    new = go(WEB.with_spec(graceful_eviction_tasks=(other,)))

    assert [one.from_cluster for one in new.spec.graceful_eviction_tasks] == ["z", "a"]
    assert new.spec.graceful_eviction_tasks[0] == other


def test_a_task_that_is_there_already_is_left_as_it_is() -> None:
    known = GracefulEvictionTask("a", reason="Drain", creation_timestamp=START)

    new = go(WEB.with_spec(graceful_eviction_tasks=(known,)))

    assert new.spec.graceful_eviction_tasks == (known,)
    assert new.spec.clusters == (TargetCluster("b", 2),)


def test_a_part_that_is_going_back_leaves_with_the_rest() -> None:
    part = with_partial_task(WEB, "a", 1, reason=PARTLY_FAILED_BACK, producer="Failback/f", message="home", now=START)
    assert part.spec.clusters == (TargetCluster("a", 2), TargetCluster("b", 2))

    new = go(part)

    (task,) = new.spec.graceful_eviction_tasks
    assert (task.reason, task.replicas) == ("Drain", 3)


@pytest.mark.parametrize(("others", "cluster"), [(("b", "c"), "a"), (("a", "c"), "b"), (("a", "b"), "c")])
def test_a_part_that_is_going_back_leaves_the_tasks_of_other_clusters(others: tuple[str, str], cluster: str) -> None:
    one = WEB.with_spec(
        clusters=(TargetCluster(cluster, 3),),
        graceful_eviction_tasks=tuple(GracefulEvictionTask(name, creation_timestamp=START) for name in others),
    )
    words = {"reason": PARTLY_FAILED_BACK, "producer": "Failback/f", "message": "home"}

    new = go(with_partial_task(one, cluster, 1, now=START, **words), cluster)

    assert [task.from_cluster for task in new.spec.graceful_eviction_tasks] == [*others, cluster]


def test_what_has_no_replicas_says_no_number() -> None:
    config = WEB.with_spec(clusters=(TargetCluster("a"),), replicas=0)

    (task,) = go(config).spec.graceful_eviction_tasks

    assert task.replicas is None
    assert task.preserved_label_state == {}


@pytest.mark.parametrize("shrink", [False, True])
def test_a_long_message_is_cut(shrink: bool) -> None:
    words = {"reason": PARTLY_FAILED_BACK, "producer": "x", "message": "m" * 2000}
    new = with_partial_task(WEB, "a", 1, now=NOW, **words) if shrink else go(WEB, mode=GRACEFULLY, **words)

    (task,) = new.spec.graceful_eviction_tasks
    assert task.message == "m" * MAX_MESSAGE
    assert MAX_MESSAGE == 1024


def test_a_part_leaves_and_its_target_stays_with_the_others() -> None:
    other = GracefulEvictionTask("z", creation_timestamp=START)
    one = WEB.with_spec(graceful_eviction_tasks=(other,))

    new = with_partial_task(one, "a", 1, reason=PARTLY_FAILED_BACK, producer="Failback/f", message="home", now=NOW)

    assert new.spec.clusters == (TargetCluster("a", 2), TargetCluster("b", 2))
    assert new.spec.graceful_eviction_tasks == (
        other,
        GracefulEvictionTask(
            from_cluster="a",
            purge_mode=GRACEFULLY,
            replicas=1,
            reason=PARTLY_FAILED_BACK,
            message="home",
            producer="Failback/f",
            creation_timestamp=NOW,
        ),
    )


@pytest.mark.parametrize("replicas", [3, 4])
def test_a_part_is_less_than_the_whole(replicas: int) -> None:
    with pytest.raises(AssertionError, match="would leave a altogether"):
        with_partial_task(WEB, "a", replicas, reason="r", producer="p", message="m", now=NOW)


def test_a_part_cannot_leave_a_cluster_that_is_being_left_or_has_no_target() -> None:
    busy = WEB.with_spec(graceful_eviction_tasks=(GracefulEvictionTask("a", creation_timestamp=START),))
    with pytest.raises(AssertionError, match="is leaving a already"):
        with_partial_task(busy, "a", 1, reason="r", producer="p", message="m", now=NOW)
    with pytest.raises(AssertionError, match="has no target on c"):
        with_partial_task(WEB, "c", 1, reason="r", producer="p", message="m", now=NOW)
    with pytest.raises(AssertionError, match="has no target on c"):
        go(WEB, "c")


def test_the_policy_decides_how_a_copy_leaves_else_the_setting() -> None:
    strict = Settings(no_execute_taint_eviction_purge_mode=DIRECTLY)
    mine = binding("web", by_room("a"), on={"a": 1}, failover=ClusterFailoverBehavior(purge_mode=GRACEFULLY))

    assert (purge_mode(WEB, SETTINGS), purge_mode(WEB, strict)) == (GRACEFULLY, DIRECTLY)
    assert purge_mode(mine, strict) == GRACEFULLY


@pytest.mark.parametrize(("stored", "mode"), [("Immediately", DIRECTLY), ("Graciously", GRACEFULLY)])
def test_a_mode_that_a_release_before_stored_under_its_older_name_counts(stored: str, mode: str) -> None:
    mine = binding("web", by_room("a"), on={"a": 1}, failover=ClusterFailoverBehavior(purge_mode=stored))

    assert purge_mode(mine, SETTINGS) == mode


def test_an_eviction_by_a_taint_says_so() -> None:
    new = with_taint_task(
        WEB, "a", Judgement("gone", "NoExecute", START, START, 0.0), SETTINGS, preserved={"k": "v"}, now=NOW
    )

    (task,) = new.spec.graceful_eviction_tasks
    assert task.message == "taint gone:NoExecute of 2026-01-01T00:00:00Z"
    assert task.taint == "gone:NoExecute"
    assert task.waited_for == ("its turn in the queue, which came 100 s after it was due at 2026-01-01T00:00:00Z",)
    assert (task.reason, task.producer, task.purge_mode) == ("TaintUntolerated", "TaintManager", GRACEFULLY)
    assert task.preserved_label_state == {"k": "v"}
