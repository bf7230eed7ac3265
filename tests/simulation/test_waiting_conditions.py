"""What a binding says while its eviction waits, and that this ends with the outage."""

from __future__ import annotations

import pytest

from controlplane.apimachinery.meta import Condition, condition
from controlplane.eviction.pending import EVICTION_PENDING
from tests.simulation.manifests import ANYWHERE, DIVIDED, admitted
from tests.simulation.member import DOWN, UP
from tests.simulation.outages import serving, wait
from tests.simulation.stories import binding, placed
from tests.simulation.world import Simulation

SEEDS = range(2)


def said(world: Simulation) -> Condition:
    found = condition(binding(world).status.conditions, EVICTION_PENDING)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_while_the_tier_stops_evictions_the_condition_says_so_and_no_longer_once_they_go_on(seed: int) -> None:
    world = serving("member1", "member2", "member3", "member4", seed=seed, policy=ANYWHERE, replicas=4)
    for name in ("member1", "member2", "member3"):
        world.fault(name, DOWN)
    wait(world, 60)

    assert (said(world).status, said(world).reason) == ("True", "Queued")
    assert "taint cluster.karmada.io/not-ready:NoExecute, not tolerated" in said(world).message
    assert "no evictions take place at present: 3 of 4 clusters are faulty" in said(world).message

    world.fault("member3", UP)
    world.fault("member2", UP)
    wait(world, 60)

    assert "member1" not in placed(world)
    assert "no evictions take place" not in said(world).message


@pytest.mark.parametrize("seed", SEEDS)
def test_after_the_recovery_the_condition_says_that_it_is_over(seed: int) -> None:
    world = serving("member1", "member2", "member3", seed=seed, policy=ANYWHERE)
    world.fault("member1", DOWN)
    wait(world, 60)
    assert said(world).reason == "Evicted"

    world.fault("member1", UP)
    wait(world, 60)

    assert (said(world).status, said(world).reason) == ("False", "Recovered")
    assert world.failures == []


@pytest.mark.parametrize("seed", SEEDS)
def test_the_example_of_the_proposal_is_held_until_its_policy_allows_another_cluster(seed: int) -> None:
    world = serving("member1", "member2", "member3", seed=seed, policy=_printed("member1, member2"))
    world.fault("member1", DOWN)
    wait(world, 60)
    assert set(placed(world)) == {"member1", "member2"}
    assert (said(world).status, said(world).reason) == ("True", "Held")
    assert "NoRefuge" in said(world).message

    two_of_three = "    spreadConstraints: [{spreadByField: cluster, minGroups: 2, maxGroups: 2}]\n"
    wider = admitted(_printed("member1, member2, member3", two_of_three), world.settings, now=world.now)
    old = world.store.objects[wider.ref]
    assert not world.store.put(old.with_spec(placement=wider.spec.placement), old).lost
    wait(world, 60)

    assert set(placed(world)) == {"member2", "member3"}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_example_of_the_proposal_leaves_where_its_policy_says_that_fewer_copies_are_enough(seed: int) -> None:
    fewer = "    spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 2}]\n"
    world = serving("member1", "member2", "member3", seed=seed, policy=_printed("member1, member2", fewer))

    world.fault("member1", DOWN)
    wait(world, 60)

    assert set(placed(world)) == {"member2"}


def _printed(names: str, spread: str = "") -> str:
    """The policy of the proposal: a copy on each of two clusters, purgeMode Directly."""
    head = DIVIDED.partition("  placement:")[0]
    return (
        f"{head}  placement:\n    clusterAffinity:\n      clusterNames: [{names}]\n{spread}"
        "  failover:\n    cluster:\n      purgeMode: Directly\n      tolerationSeconds: 4\n"
    )
