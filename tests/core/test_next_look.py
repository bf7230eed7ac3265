"""When clusters and the fleet are looked at again: all at the same moment, never later than a period."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.controllers.cluster_status import ClusterStatus, ClusterStatusSnapshot
from controlplane.controllers.fleet_watch import FleetSnapshot, FleetWatch
from controlplane.controllers.reads.fleet_state import failover_configuration
from controlplane.engine.memory import MemoryStore
from controlplane.kinds.rows import FleetState
from controlplane.settings import Settings
from tests.builders.objects import START, cluster

SETTINGS = Settings()
SETTLED = failover_configuration(MemoryStore(controllers=[]))


@pytest.mark.parametrize(("seconds", "again"), [(0, 5), (0.001, 5), (4.999, 5), (5, 10), (7, 10)])
def test_clusters_that_were_looked_at_at_different_moments_are_looked_at_together(seconds: float, again: float) -> None:
    now = START + timedelta(seconds=seconds)

    of_cluster = ClusterStatus().decide(ClusterStatusSnapshot(cluster("member1"), None, None), SETTINGS, now=now)
    of_fleet = FleetWatch().decide(FleetSnapshot(FleetState("default"), (), SETTLED), SETTINGS, now=now)

    assert of_cluster.wake_at == of_fleet.wake_at == START + timedelta(seconds=again)
