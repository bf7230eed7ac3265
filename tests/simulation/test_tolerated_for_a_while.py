"""A copy that tolerates a taint for some seconds leaves once, and stays away while the taint is there [judged-once]."""

from __future__ import annotations

import pytest

from tests.simulation.manifests import DUPLICATED
from tests.simulation.outages import serving, taint, wait
from tests.simulation.stories import placed

FOR_A_WHILE = DUPLICATED.replace("        - member5\n", "").replace(
    "    spreadConstraints:\n      - maxGroups: 2\n",
    "    clusterTolerations:\n      - operator: Exists\n        effect: NoExecute\n        tolerationSeconds: 4\n"
    "    spreadConstraints:\n      - maxGroups: 3\n",
)


@pytest.mark.parametrize("seed", range(2))
def test_a_copy_whose_toleration_has_ended_returns_only_when_the_taint_is_gone(seed: int) -> None:
    """Its eviction is over at once, because the two other copies suffice. The scheduler's filter for taints tolerates
    the taint."""
    world = serving("member1", "member2", "member3", seed=seed, policy=FOR_A_WHILE)
    assert set(placed(world)) == {"member1", "member2", "member3"}

    taint(world, "member1")
    wait(world, 60)

    assert set(placed(world)) == {"member2", "member3"}
    assert len(world.tokens) == 1

    taint(world, "member1", on=False)
    wait(world, 30)
    assert set(placed(world)) == {"member1", "member2", "member3"}
