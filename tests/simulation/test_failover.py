"""The overview's two failovers, under a virtual clock, with interleaving workers that may die at any write."""

from __future__ import annotations

import pytest

from tests.simulation.manifests import DIVIDED, DUPLICATED, NGINX
from tests.simulation.outages import left, serving
from tests.simulation.stories import apply, binding, joined, placed, running

SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
def test_divided_replicas_of_a_failed_cluster_move_to_the_other(seed: int) -> None:
    world = serving("member1", "member2", seed=seed)
    assert placed(world) == {"member1": 1, "member2": 2}
    assert running(world) == {"member1": 1, "member2": 2}

    world.fault("member1", "down")
    world.run(90)

    assert placed(world) == {"member2": 3}
    assert binding(world).spec.graceful_eviction_tasks == ()
    assert running(world)["member2"] == 3
    assert world.failures == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_duplicated_copy_moves_and_the_healthy_one_stays(seed: int) -> None:
    names = ("member1", "member2", "member3", "member4", "member5")
    world = serving(*names, seed=seed, policy=DUPLICATED, replicas=2)
    assert placed(world) == {"member1": 2, "member2": 2}

    world.fault("member2", "down")
    world.run(90)

    assert set(placed(world)) in ({"member1", "member3"}, {"member1", "member5"})
    assert all(replicas == 2 for replicas in placed(world).values())
    assert world.failures == []


@pytest.mark.parametrize("seed", SEEDS)
def test_the_old_copy_stays_until_the_new_ones_are_healthy(seed: int) -> None:
    world = serving("member1", "member2", seed=seed)
    world.members["member2"].fault = "notready"

    world.fault("member1", "down")
    world.run(120)

    assert placed(world) == {"member2": 3}
    assert [task.from_cluster for task in binding(world).spec.graceful_eviction_tasks] == ["member1"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_that_recovers_in_time_loses_nothing(seed: int) -> None:
    world = serving("member1", "member2", seed=seed)

    world.fault("member1", "down")
    world.run(32)
    world.fault("member1", "none")
    world.run(90)

    assert placed(world) == {"member1": 1, "member2": 2}
    assert world.tokens == []


@pytest.mark.parametrize("seed", SEEDS)
def test_workers_that_die_at_any_write_end_in_the_same_state(seed: int) -> None:
    world = joined("member1", "member2", seed=seed, kill_rate=0.05)
    world.run(120)  # a dead worker's claims come back after 30 s
    apply(world, DIVIDED, NGINX % 3)
    world.run(240)
    assert placed(world) == {"member1": 1, "member2": 2}

    world.fault("member1", "down")
    world.run(480)

    assert world.kills > 0
    assert placed(world) == {"member2": 3}
    assert binding(world).spec.graceful_eviction_tasks == ()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_left_behind_stays_while_its_replacement_is_down(seed: int) -> None:
    """[returning-copies] member1 failed and was left; then it returns at the moment member2 fails."""
    world = left("member1", "member2", seed=seed)

    world.fault("member2", "down")
    world.fault("member1", "none")
    world.run(91)
    assert running(world)["member1"] == 1
    world.run(200)

    assert placed(world) == {"member1": 3}
    assert running(world)["member1"] == 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_left_behind_goes_once_its_cluster_is_back_and_the_new_copies_are_healthy(seed: int) -> None:
    world = left("member1", "member2", seed=seed)

    world.fault("member1", "none")
    world.run(200)

    assert running(world) == {"member2": 3}
