"""A workload is scaled while one of its clusters is lost: what runs elsewhere never goes below what is asked for
[replica-division] [no-healthy-copy-lost]."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controlplane.settings import Settings
from tests.simulation.manifests import ANYWHERE
from tests.simulation.outages import scale, serving, wait, wait_until_not_ready
from tests.simulation.stories import QUICK, running

WITHOUT_EVICTIONS = replace(QUICK, feature_gates={**QUICK.feature_gates, "Failover": False})


@pytest.mark.parametrize("settings", [QUICK, WITHOUT_EVICTIONS], ids=["evicts", "evicts-nothing"])
@pytest.mark.parametrize("replicas", [2, 3, 4, 5, 9, 12])
def test_what_runs_elsewhere_stays_and_grows(replicas: int, settings: Settings) -> None:
    world = serving("member1", "member2", "member3", policy=ANYWHERE, replicas=6, settings=settings)
    wait(world, 60)
    assert running(world) == {"member1": 2, "member2": 2, "member3": 2}
    world.fault("member1", "down")
    wait_until_not_ready(world, "member1")

    scale(world, replicas)
    wait(world, 120)

    evicted = settings is QUICK
    elsewhere = replicas if evicted or replicas <= 4 else 4 if replicas == 5 else replicas - 2
    assert sum(running(world).values()) == elsewhere
    world.fault("member1", "none")
    wait(world, 180)
    assert sum(running(world).values()) == replicas
    assert world.failures == []
