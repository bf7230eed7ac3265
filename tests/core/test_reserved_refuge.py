"""The Event about a reserved refuge that the scheduler does not use names the reason."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from controlplane.kinds.binding import ResourceBindingStatus
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.rows import CapacityReservation, PlacementHint
from controlplane.scheduling.reserved_refuge import Reserved
from controlplane.scheduling.schedule import Placed
from tests.builders.objects import START, binding, cluster
from tests.builders.placements import DYNAMIC, by_room, placement
from tests.builders.scheduling import ask, spec

FULL = [Taint("full", "NoSchedule")]
LATER = START + timedelta(hours=1)


@pytest.mark.parametrize(
    ("refuge", "rescheduled_at", "why"),
    [
        ([], None, "the cluster no longer exists"),
        ([cluster("refuge", taints=FULL)], None, "taint full:NoSchedule is not tolerated"),
        ([cluster("refuge", room=2)], None, "it has room for 2 more replicas only"),
        ([cluster("refuge", room=9)], LATER, "a reschedule was requested, so all replicas were placed again"),
        (
            [cluster("refuge", room=9)],
            None,
            "the binding, its placement or the clusters have changed since then, and other clusters are preferred",
        ),
    ],
)
def test_an_unused_refuge_is_reported_with_the_reason(
    refuge: list[Cluster], rescheduled_at: datetime | None, why: str
) -> None:
    old = binding("web", by_room("refuge"), on={"failed": 3}, replicas=3)
    row = CapacityReservation("key", str(old.ref), "refuge", 3, made_at=START, reserved=True)
    reserved = Reserved(old, PlacementHint(str(old.ref), clusters={"refuge": 3}), [row])
    wanted = spec(placement(how=DYNAMIC), replicas=3, reschedule_triggered_at=rescheduled_at)
    status = ResourceBindingStatus(last_scheduled_time=START)

    verdict = ask([*refuge, cluster("other", room=30)], wanted, status=status)

    assert isinstance(verdict.outcome, Placed)
    message = reserved.replaced(verdict.outcome.clusters, verdict.explanation)
    assert message.startswith("the eviction had reserved refuge:3, but the scheduler placed the binding on ")
    assert message.endswith(f". refuge: {why}")
