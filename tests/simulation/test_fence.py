"""A fence counts for one outage: it ends for good once its cluster has answered, and the next outage needs another."""

from __future__ import annotations

import pytest

from controlplane import kinds
from controlplane.apimachinery.meta import Condition, Ref, condition
from controlplane.clusters import fence
from controlplane.kinds.cluster import FENCED, Cluster
from tests.simulation.manifests import ANYWHERE, NGINX
from tests.simulation.member import DOWN, UP
from tests.simulation.outages import wait, wait_until_not_ready
from tests.simulation.stories import OFTEN, apply, joined, placed, running
from tests.simulation.world import Simulation

SEEDS = range(2)
MEMBER1 = Ref(kinds.CLUSTER, "", "member1")
DIRECTLY = ANYWHERE.replace("Gracefully", "Directly")


def live(world: Simulation) -> Cluster:
    found = world.store.objects[MEMBER1]
    assert isinstance(found, Cluster)
    return found


def confirm_down(world: Simulation) -> None:
    old = live(world)
    word = fence.fenced(old, fence.FenceRequest("I pulled the plug", 600), by="ana", now=world.now)
    assert not world.store.put(word, old).lost


def said(world: Simulation) -> Condition:
    found = condition(live(world).status.conditions, FENCED)
    assert found is not None
    return found


def reported(world: Simulation, reason: str) -> list[str]:
    return [one.message for one in world.store.list(kinds.EVENT) if one.reason == reason]


def fenced_and_back(seed: int) -> Simulation:
    """member1 was lost and fenced, and answers again."""
    world = joined("member1", "member2", seed=seed)
    world.fault("member1", DOWN)
    wait_until_not_ready(world, "member1")
    confirm_down(world)
    wait(world, 2)
    assert said(world).status == "True"
    world.fault("member1", UP)
    wait(world, 30)
    return world


def lost_again_with_a_copy_on_it(world: Simulation) -> int:
    """A workload that leaves Directly is placed on member1 too, which is lost a second time and left. Return how many
    replicas member2 ran before."""
    apply(world, DIRECTLY, NGINX % 4)
    wait(world, 30)
    before = running(world)
    assert before == placed(world)
    assert set(before) == {"member1", "member2"}
    world.fault("member1", DOWN)
    wait(world, 60)
    assert placed(world) == {"member2": 4}
    return before["member2"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fence_of_the_last_outage_starts_no_second_copy_in_the_next_one(seed: int) -> None:
    world = fenced_and_back(seed)

    share = lost_again_with_a_copy_on_it(world)

    assert running(world)["member2"] == share, "what member1 ran may still run there"
    assert world.failures == []
    assert fence.fence_of(live(world)) is None
    assert (said(world).status, said(world).reason) == ("False", "ClusterAnswered")
    assert "by ana until" in reported(world, "ClusterFenced")[0]
    assert "the cluster answered" in reported(world, "ClusterFenceEnded")[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_second_fence_counts_in_the_second_outage(seed: int) -> None:
    world = fenced_and_back(seed)
    lost_again_with_a_copy_on_it(world)

    confirm_down(world)
    wait(world, 40)

    assert said(world).status == "True"
    assert running(world)["member2"] == 4


@pytest.mark.parametrize("seed", SEEDS)
def test_one_answer_that_was_never_published_as_ready_ends_a_fence_all_the_same(seed: int) -> None:
    world = joined("member1", "member2", seed=seed, settings=OFTEN)
    world.fault("member1", DOWN)
    wait_until_not_ready(world, "member1")
    confirm_down(world)
    world.fault("member1", UP)
    wait(world, 1.5)
    world.fault("member1", DOWN)
    wait(world, 5)

    assert live(world).ready != "True"
    assert said(world).reason == "ClusterAnswered"


ALONE = (
    DIRECTLY[: DIRECTLY.index("  placement:")]
    + """  placement:
    spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]
"""
)
HALVES = """
    clusterAffinity: {clusterNames: [member1, member2]}
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
"""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", [ALONE, ALONE[: ALONE.index("    spread")] + HALVES], ids=["starts", "grows"])
def test_what_a_fence_has_let_start_waits_if_the_cluster_answered_before_it_did(seed: int, policy: str) -> None:
    """member2 cannot be reached either when member1 is fenced. Then member1 answers once, and member2 is back."""
    world = joined("member1", "member2", seed=seed, settings=OFTEN)
    apply(world, policy, NGINX % 2)
    wait(world, 30)
    before = running(world)
    world.fault("member1", DOWN)
    wait(world, 40)
    assert placed(world) == {"member2": 2}
    assert running(world).get("member2", 0) == before.get("member2", 0)
    world.fault("member2", DOWN)
    wait_until_not_ready(world, "member2")
    confirm_down(world)
    wait(world, 2)
    world.fault("member1", UP)
    wait(world, 1.5)
    world.fault("member1", DOWN)
    wait(world, 4)
    world.fault("member2", UP)
    wait(world, 40)

    assert running(world).get("member2", 0) == before.get("member2", 0), "what member1 ran may still run there"

    confirm_down(world)
    wait(world, 40)
    assert running(world)["member2"] == 2
    assert world.failures == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fence_that_expires_says_so(seed: int) -> None:
    world = joined("member1", "member2", seed=seed)
    world.fault("member1", DOWN)
    wait_until_not_ready(world, "member1")
    confirm_down(world)

    wait(world, 610)

    assert (said(world).status, said(world).reason) == ("False", "Expired")
    assert "expired" in reported(world, "ClusterFenceEnded")[0]
    assert fence.fence_of(live(world)) is None
