"""When a task that waits for other objects is assessed again, and which state it shows."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.eviction.graceful import ClusterState, assess_tasks
from controlplane.settings import Settings
from tests.builders.objects import START
from tests.core.test_graceful import HOLD, LATE, PLACES, moving, task

PATIENT = Settings(graceful_eviction_timeout=10_000)
NEEDED_BY = {"member1": ("shop/web",)}
AT_HOME = ClusterState(ready=True, evicting=True)


@pytest.mark.parametrize(
    ("waited", "pause"), [(10, 5.0), (50, 5.0), (100, 10.0), (105, 10.5), (600, 60.0), (6_000, 60.0)]
)
def test_the_time_between_two_checks_is_a_tenth_of_the_time_waited_within_limits(waited: float, pause: float) -> None:
    one = moving(task(), on={"member2": 2}, member2="Healthy")
    now = START + timedelta(seconds=waited)

    found = assess_tasks(one, PATIENT, clusters=PLACES, dependents=NEEDED_BY, now=now)

    assert PATIENT.cluster_monitor_period == 5.0
    assert found.wake_at == now + timedelta(seconds=pause)


@pytest.mark.parametrize(
    ("health", "needed", "source", "state"),
    [
        ("Healthy", True, AT_HOME, "WaitingForWorkload"),
        ("Unhealthy", True, AT_HOME, "Stuck"),  # the new copy is missing as well
        ("Unhealthy", False, AT_HOME, "Stuck"),
        ("Healthy", True, ClusterState(ready=False, evicting=True), "WaitingSource"),
    ],
)
def test_an_overdue_task_waits_for_workloads_only_if_nothing_else_is_missing(
    health: str, needed: bool, source: ClusterState, state: str
) -> None:
    one = moving(task(), on={"member2": 2}, member2=health)
    dependents = NEEDED_BY if needed else {}

    (found,) = assess_tasks(one, HOLD, clusters={**PLACES, "member1": source}, dependents=dependents, now=LATE).overdue

    assert found.state == state


@pytest.mark.parametrize(("health", "waiting"), [("Healthy", 1), ("Unhealthy", 0)])
def test_a_task_in_time_waits_for_workloads_once_its_new_copy_is_healthy(health: str, waiting: int) -> None:
    one = moving(task(), on={"member2": 2}, member2=health)
    now = START + timedelta(seconds=10)

    assert len(assess_tasks(one, HOLD, clusters=PLACES, dependents=NEEDED_BY, now=now).waiting) == waiting
    assert not assess_tasks(one, HOLD, clusters=PLACES, now=now).waiting
