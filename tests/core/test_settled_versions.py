"""What application failover forgets about a version of a workload that has settled [broken-release]."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from controlplane.eviction.application_failover import decide_application_failover
from controlplane.kinds.binding import (
    APPLICATION_FAILURE,
    TAINT_UNTOLERATED,
    AggregatedStatusItem,
    GracefulEvictionTask,
    TargetCluster,
)
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY, NEVER
from tests.builders.objects import START
from tests.core.test_application_failover import GATE_OFF, app

LEFT_AS_UNHEALTHY = GracefulEvictionTask("member1", GRACEFULLY, reason=APPLICATION_FAILURE)


@pytest.mark.parametrize(
    ("task", "stays_known"),
    [
        (LEFT_AS_UNHEALTHY, True),
        (replace(LEFT_AS_UNHEALTHY, purge_mode=DIRECTLY), True),
        (replace(LEFT_AS_UNHEALTHY, reason=TAINT_UNTOLERATED), False),  # it goes back when its cluster recovers
        (replace(LEFT_AS_UNHEALTHY, purge_mode=NEVER, suppress_deletion=True), False),  # a person clears it
        (replace(LEFT_AS_UNHEALTHY, suppress_deletion=False), False),  # it is cleared now
        (replace(LEFT_AS_UNHEALTHY, from_cluster="member3"), False),
        (None, False),
    ],
)
def test_a_cluster_that_a_settled_version_has_left_stays_known_only_while_its_copy_may_go_back(
    task: GracefulEvictionTask | None, *, stays_known: bool
) -> None:
    """Otherwise it would count against the version when it moves again, months later."""
    healthy = (AggregatedStatusItem("member2", applied=True, health="Healthy"),)
    one = app().with_spec(
        clusters=(TargetCluster("member2", 2),), graceful_eviction_tasks=() if task is None else (task,)
    )
    one = one.with_status(aggregated_status=healthy)

    found = decide_application_failover(one, {}, GATE_OFF, moves={"member1": START}, now=START + timedelta(seconds=61))

    assert found.left == ({"member1": START} if stays_known else {})
