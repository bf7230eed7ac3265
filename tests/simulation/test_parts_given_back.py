"""A part of a copy that goes back runs on its present cluster until the returned replicas are healthy, whatever the
purge mode is [recovered-clusters] [no-healthy-copy-lost]."""

from __future__ import annotations

import pytest

from controlplane.kinds.failback import FINISHED
from tests.simulation.manifests import DIVIDED, NGINX
from tests.simulation.stories import apply, placed, running
from tests.simulation.test_failback import HOME, SEASONED, failback, failed_over

AFTER = "metadata:\n  annotations: {failover.lifeboat.io/directly-unreachable: After=5}\n"
DIRECTLY = DIVIDED.replace("metadata:\n", AFTER, 1).replace(
    "  placement:", "  failover: {cluster: {purgeMode: Directly}}\n  placement:"
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("policy", [DIVIDED, DIRECTLY], ids=["Gracefully", "Directly"])
def test_no_replica_goes_before_the_returned_ones_are_healthy(policy: str, seed: int) -> None:
    world = failed_over(policy, NGINX % 3, seed=seed)
    world.run(SEASONED)
    assert running(world) == {"member2": 3}
    world.fault("member1", "notready")  # what returns starts, and is not healthy

    apply(world, HOME % "cluster: member1")
    world.run(SEASONED + 60)
    assert placed(world) == {"member1": 1, "member2": 2}
    assert running(world)["member2"] == 3

    world.fault("member1", "none")
    world.run(SEASONED + 120)
    assert running(world) == {"member1": 1, "member2": 2}
    assert failback(world).status.phase == FINISHED
    assert world.failures == []
