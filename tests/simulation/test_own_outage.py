"""The control plane itself is away, and evictions wait in its queue: what has recovered meanwhile is not evicted
[outage-of-our-own]."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from controlplane import kinds
from controlplane.clusters import eviction_tier
from controlplane.controllers.reads.fleet_state import QUEUE_ROW, fleet_states
from controlplane.settings import GATES, Settings
from tests.simulation.manifests import NGINX
from tests.simulation.outages import taint, wait, wait_until_leaving, without, without_workers
from tests.simulation.stories import NGINX_BINDING, apply, binding, copies_on, joined, placed, running
from tests.simulation.test_last_copy import cordon
from tests.simulation.world import Simulation

# The times of production, apart from the rate.
LIVE = replace(Settings(), feature_gates={**GATES, "Failover": True}, resource_eviction_rate=0.2)
OUTAGE = 600.0
POLICY = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: everything}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  failover: {cluster: {purgeMode: %s}}
  placement:
    clusterAffinity: {clusterNames: [member1, member2, member3]}
    spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]
"""


def half_evicted(seed: int, mode: str) -> Simulation:
    """Return a simulation in which some of twelve workloads have left member1, and others are queued."""
    world = joined("member1", "member2", "member3", "member4", seed=seed, settings=LIVE)
    world.run(60)
    webs = ((NGINX % 1).replace("name: nginx\n  labels", f"name: web{number}\n  labels") for number in range(12))
    apply(world, POLICY % mode, *webs)
    wait(world, 60)
    assert copies_on(world, "member1") == 12
    world.fault("member1", "down")
    while copies_on(world, "member1") > 8:
        wait(world, 1)
    return world


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mode", ["Gracefully", "Directly"])
def test_no_copy_is_evicted_from_a_cluster_that_recovered_during_our_outage(seed: int, mode: str) -> None:
    world = half_evicted(seed, mode)
    before = copies_on(world, "member1")

    world.stall(OUTAGE)
    world.after(60, lambda: world.fault("member1", "none"))
    wait(world, OUTAGE + 300)

    assert copies_on(world, "member1") == before
    assert world.failures == []


@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_that_is_still_down_after_our_outage_is_left(seed: int) -> None:
    world = half_evicted(seed, "Gracefully")

    world.stall(OUTAGE)
    wait(world, OUTAGE + 300)

    assert copies_on(world, "member1") == 0


def test_while_the_members_process_is_away_evictions_wait_and_the_reason_is_stored() -> None:
    world = half_evicted(0, "Gracefully")
    with without(world, "probes"):
        wait(world, 30)
        before = copies_on(world, "member1")
        wait(world, 300)

        assert copies_on(world, "member1") == before > 0
        (queue,) = fleet_states(world.store, QUEUE_ROW)
        assert queue.stops[-1].until is None
        assert queue.stops[-1].why.startswith(f"{eviction_tier.NOT_OBSERVED}: member1 may have recovered")
    wait(world, 120)

    assert copies_on(world, "member1") == 0
    (queue,) = fleet_states(world.store, QUEUE_ROW)
    assert queue.stops[-1].until is not None


def test_purge_removes_no_old_copy_because_of_our_outage() -> None:
    world = joined("member1", "member2", "member3", settings=replace(LIVE, on_graceful_timeout="Purge"))
    world.run(60)
    apply(world, POLICY % "Gracefully", NGINX % 1)
    wait(world, 60)
    (home,) = placed(world)
    for name in {"member1", "member2", "member3"} - {home}:
        world.fault(name, "notready")  # the new copy starts, and is not healthy yet
    world.fault(home, "down")
    while not binding(world).spec.graceful_eviction_tasks:
        wait(world, 1)
    wait(world, 30)

    world.stall(2 * LIVE.graceful_eviction_timeout)
    wait(world, 2 * LIVE.graceful_eviction_timeout + 60)
    assert [task.from_cluster for task in binding(world).spec.graceful_eviction_tasks] == [home]
    wait(world, LIVE.graceful_eviction_timeout)

    assert binding(world).spec.graceful_eviction_tasks == ()
    assert world.failures == []


def test_purge_removes_no_copy_that_has_no_other_place_because_of_our_outage() -> None:
    world = joined("member1", "member2", "member3", settings=replace(LIVE, on_graceful_timeout="Purge"))
    world.run(60)
    apply(world, POLICY % "Gracefully", NGINX % 1)
    wait(world, 60)
    (home,) = placed(world)
    with without(world, "scheduler"):
        taint(world, home)
        wait_until_leaving(world)
        cordon(world, *{"member1", "member2", "member3"} - {home})
        wait(world, 3)
    wait(world, 20)
    assert placed(world) == {}

    world.stall(2 * LIVE.graceful_eviction_timeout)
    wait(world, 2 * LIVE.graceful_eviction_timeout + 60)
    assert running(world) == {home: 1}
    wait(world, LIVE.graceful_eviction_timeout)

    assert binding(world).spec.graceful_eviction_tasks == ()
    assert world.failures == []


@pytest.mark.parametrize("seed", range(3))
def test_purge_removes_no_old_copy_because_only_the_workers_were_away(seed: int) -> None:
    """Members were probed all the time, so each cluster was observed. The new copy was not made meanwhile."""
    world = joined("member1", "member2", seed=seed, settings=replace(LIVE, on_graceful_timeout="Purge"))
    world.run(60)
    apply(world, POLICY % "Gracefully", NGINX % 1)
    wait(world, 60)
    (home,) = placed(world)
    taint(world, home)
    with without(world, "works"):
        wait_until_leaving(world)
        wait(world, 1)
        with without_workers(world):
            wait(world, 2 * LIVE.graceful_eviction_timeout)
    wait(world, 3)
    assert [task.from_cluster for task in binding(world).spec.graceful_eviction_tasks] == [home]
    assert running(world)[home] == 1
    wait(world, 60)

    assert home not in running(world)
    assert list(running(world).values()) == [1]
    assert world.failures == []


def test_after_an_outage_of_the_workers_purge_removes_an_old_copy_all_the_same() -> None:
    world = joined("member1", "member2", settings=replace(LIVE, on_graceful_timeout="Purge"))
    world.run(60)
    apply(world, POLICY % "Gracefully", NGINX % 1)
    wait(world, 60)
    (home,) = placed(world)
    (other,) = {"member1", "member2"} - {home}
    world.fault(other, "notready")
    taint(world, home)
    wait_until_leaving(world)
    wait(world, 100)

    with without_workers(world):
        wait(world, 2 * LIVE.graceful_eviction_timeout)
    wait(world, LIVE.graceful_eviction_timeout - 150)
    assert running(world) == {home: 1, other: 0}
    world.excused["nginx"] = world.now + timedelta(hours=1)
    wait(world, 100)

    assert running(world) == {other: 0}
    assert world.failures == []


IN_TIME = POLICY.replace(
    "{name: everything}",
    '{name: everything, annotations: {failover.lifeboat.io/directly-unreachable: "After=%d"}}',
)


def left_directly(seed: int, *, limit: int) -> tuple[Simulation, str]:
    """Return a simulation in which a workload leaves its lost cluster Directly, and the name of that cluster.

    `limit`: seconds that its policy lets new copies wait.
    """
    world = joined("member1", "member2", "member3", seed=seed, settings=LIVE)
    world.run(60)
    apply(world, IN_TIME % (limit, "Directly"), NGINX % 1)
    wait(world, 60)
    (home,) = placed(world)
    world.fault(home, "down")
    wait_until_leaving(world)
    return world, home


@pytest.mark.parametrize("seed", range(2))
def test_no_second_copy_starts_because_the_time_of_a_wait_passed_in_our_outage(seed: int) -> None:
    """The cluster of the old copy is back, and its copy runs. That is not known yet."""
    world, home = left_directly(seed, limit=300)
    wait(world, 30)
    assert home not in placed(world)

    world.stall(OUTAGE)
    world.after(60, lambda: world.fault(home, "none"))
    wait(world, OUTAGE)
    for _ in range(60):
        wait(world, 2)
        assert sum(running(world).values()) <= 1, f"{running(world)} at {world.now}"
    assert running(world) == placed(world)
    assert world.failures == []


@pytest.mark.parametrize("seed", range(2))
def test_no_second_copy_starts_while_the_cluster_of_the_old_one_answers_and_is_not_ready_yet(seed: int) -> None:
    world, home = left_directly(seed, limit=60)
    wait(world, 40)
    world.fault(home, "none")

    for _ in range(60):
        wait(world, 2)
        assert sum(running(world).values()) <= 1, f"{running(world)} at {world.now}"
    assert running(world) == placed(world)
    assert world.failures == []


@pytest.mark.parametrize("seed", range(2))
def test_a_wait_ends_some_time_after_our_outage_if_the_cluster_is_still_down(seed: int) -> None:
    world, home = left_directly(seed, limit=300)

    world.stall(OUTAGE)
    wait(world, OUTAGE + 330)

    assert set(running(world)) == {home, *placed(world)}
    assert world.failures == []


@pytest.mark.parametrize("seed", range(3))
def test_a_removal_from_before_our_outage_waits_until_the_cluster_of_the_new_copy_is_observed(seed: int) -> None:
    world = joined("member1", "member2", "member3", seed=seed, settings=LIVE)
    world.run(60)
    apply(world, POLICY % "Gracefully", NGINX % 1)
    wait(world, 60)
    (home,) = placed(world)
    taint(world, home)
    while len(running(world)) < 2:
        wait(world, 1)
    with without(world, "execution"):
        wait(world, 30)
        (refuge,) = placed(world)
        assert removed_from(world, home)
        assert running(world) == {home: 1, refuge: 1}

    world.stall(OUTAGE)
    world.after(60, lambda: world.fault(refuge, "down"))
    for _ in range(int(OUTAGE) + 120):
        wait(world, 1)
        assert sum(running(world).values()) >= 1


def removed_from(world: Simulation, member: str) -> bool:
    """Test whether the removal of the copy on a member is decided, and not carried out."""
    works = world.store.by_index(kinds.WORK, "binding", [str(NGINX_BINDING)])[str(NGINX_BINDING)]
    return any(work.cluster == member and work.metadata.deletion_timestamp is not None for work in works)
