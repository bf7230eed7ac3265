"""What failed over goes back when a user asks for it: gracefully, at a rate, until the first failure
[recovered-clusters] [edits-by-hand]."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Decision, deleting
from controlplane.engine.state import Actor
from controlplane.insight import record
from controlplane.kinds.binding import GracefulEvictionTask
from controlplane.kinds.failback import FAILBACK, Failback
from tests.simulation.manifests import DIVIDED, DUPLICATED, HELD, NGINX
from tests.simulation.outages import without, without_workers
from tests.simulation.stories import NGINX_BINDING, QUICK, apply, binding, copies_on, joined, placed, running
from tests.simulation.world import Simulation

SEEDS = range(3)
SELDOM = replace(QUICK, cluster_status_update_frequency=10)  # seconds; half the work for stories of half an hour
HOME = """
apiVersion: failover.lifeboat.io/v1alpha1
kind: Failback
metadata:
  name: home
spec:
  %s
"""
READY_AGAIN = 120  # when the origin has recovered in these stories
SEASONED = READY_AGAIN + 600 + 10  # when it has been Ready for ten minutes


def failback(world: Simulation) -> Failback:
    ref = Ref(FAILBACK, "", "home")
    found: Failback = world.store.get([ref])[ref]
    return found


def edit(world: Simulation, **spec: object) -> None:
    old = failback(world)
    world.store.put(old.with_spec(**spec), old)


def failed_over(*manifests: str, members: int = 2, down: str = "member1", seed: int = 0) -> Simulation:
    """A world in which a member failed, was left, and is back for a while."""
    world = joined(*(f"member{number}" for number in range(1, members + 1)), seed=seed, settings=SELDOM)
    apply(world, *manifests)
    world.run(40)
    assert away(world, down) == 0
    world.fault(down, "down")
    world.run(READY_AGAIN - 10)
    world.fault(down, "none")
    return world


def away(world: Simulation, cluster: str) -> int:
    """How many bindings have left a cluster and are not back."""
    return len(world.store.refs_by_index(kinds.RESOURCE_BINDING, "left", cluster))


def apps(number: int) -> list[str]:
    """As many Deployments of two replicas, each with a policy of its own."""
    return [text.replace("nginx", f"app{one}") for one in range(number) for text in (DIVIDED, NGINX % 2)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("subject", ["cluster: member1", "binding: default/nginx-deployment", "selector: {}"])
def test_replicas_go_back_where_they_were_and_nothing_stops_serving(seed: int, subject: str) -> None:
    world = failed_over(DIVIDED, NGINX % 3, seed=seed)
    world.run(SEASONED)
    assert placed(world) == {"member2": 3}

    apply(world, HOME % subject)
    world.run(SEASONED + 60)

    assert placed(world) == running(world) == {"member1": 1, "member2": 2}
    assert binding(world).spec.graceful_eviction_tasks == ()
    assert (failback(world).status.phase, failback(world).status.returned) == ("Finished", 1)
    assert away(world, "member1") == 0
    assert world.failures == []
    reported = {one.message for one in world.store.list(kinds.EVENT) if one.reason == "WorkloadFailback"}
    assert reported == {"goes back to cluster member1 from member2: Failback home: cluster member1 has recovered"}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_copy_gives_back_runs_until_it_runs_at_home(seed: int) -> None:
    world = failed_over(DIVIDED, NGINX % 3, seed=seed)
    world.run(SEASONED)
    world.fault("member1", "notready")  # it takes copies and none of them gets ready

    apply(world, HOME % "cluster: member1")
    world.run(SEASONED + 60)

    assert placed(world) == {"member1": 1, "member2": 2}
    assert running(world) == {"member1": 0, "member2": 3}
    (task,) = binding(world).spec.graceful_eviction_tasks
    assert (task.from_cluster, task.replicas, task.reason) == ("member2", 1, "FailbackInPart")

    world.fault("member1", "none")
    world.run(SEASONED + 120)
    assert running(world) == {"member1": 1, "member2": 2}
    assert failback(world).status.phase == "Finished"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_goes_back_in_place_of_the_one_that_stood_in_for_it(seed: int) -> None:
    world = failed_over(DUPLICATED, NGINX % 2, members=5, down="member2", seed=seed)
    world.run(SEASONED)
    (stand_in,) = set(placed(world)) - {"member1"}

    apply(world, HOME % "cluster: member2")
    world.run(SEASONED + 60)

    assert placed(world) == running(world) == {"member1": 2, "member2": 2}
    assert stand_in not in running(world)
    assert failback(world).status.phase == "Finished"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_that_flaps_is_left_alone_for_ten_minutes(seed: int) -> None:
    world = failed_over(DIVIDED, NGINX % 3, seed=seed)
    world.run(READY_AGAIN + 30)

    apply(world, HOME % "cluster: member1")
    world.run(SEASONED - 60)
    status = failback(world).status
    assert placed(world) == {"member2": 3}
    assert (status.phase, status.conditions[0].status) == ("Paused", "False")
    assert "Ready for less than 10 minutes" in status.message

    world.run(SEASONED + 60)
    assert placed(world) == {"member1": 1, "member2": 2}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_dry_run_says_what_would_happen_and_moves_nothing(seed: int) -> None:
    world = failed_over(DIVIDED, NGINX % 3, seed=seed)
    world.run(SEASONED)
    before = binding(world)

    apply(world, HOME % "cluster: member1\n  dryRun: true")
    world.run(SEASONED + 60)

    status = failback(world).status
    assert binding(world) == before
    (plan,) = status.planned
    assert (status.phase, plan.cluster, plan.replicas, plan.leaves) == ("Planned", "member1", 1, ("member2",))

    edit(world, dry_run=False)
    world.run(SEASONED + 120)
    assert placed(world) == {"member1": 1, "member2": 2}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_dry_run_plans_before_the_ten_minutes_are_over_and_says_when_it_may_begin(seed: int) -> None:
    world = failed_over(DIVIDED, NGINX % 3, seed=seed)
    world.run(READY_AGAIN + 60)
    before = binding(world)

    apply(world, HOME % "cluster: member1\n  dryRun: true")
    world.run(READY_AGAIN + 90)

    status = failback(world).status
    assert binding(world) == before
    assert [(plan.cluster, plan.replicas) for plan in status.planned] == [("member1", 1)]
    assert "has to be Ready for 10 minutes" in status.message
    assert "member1 from" in status.message


@pytest.mark.parametrize("seed", SEEDS)
def test_it_keeps_to_its_rate_and_can_be_stopped_and_resumed(seed: int) -> None:
    world = failed_over(*apps(6), seed=seed)
    world.run(SEASONED)
    assert (copies_on(world, "member1"), away(world, "member1")) == (0, 6)

    apply(world, HOME % "cluster: member1\n  rate: 0.1")
    world.run(SEASONED + 35)
    edit(world, stop=True)
    world.run(SEASONED + 50)
    stopped = copies_on(world, "member1")
    world.run(SEASONED + 150)
    assert 2 <= stopped <= 4
    assert copies_on(world, "member1") == stopped
    assert failback(world).status.phase == "Stopped"

    edit(world, stop=False)
    world.run(SEASONED + 300)
    assert (copies_on(world, "member1"), failback(world).status.returned) == (6, 6)


@pytest.mark.parametrize("seed", SEEDS)
def test_stopped_it_still_counts_what_is_on_its_way(seed: int) -> None:
    world = failed_over(*apps(2), seed=seed)
    world.run(SEASONED)
    world.members["member1"].ready_after = timedelta(seconds=20)

    apply(world, HOME % "cluster: member1\n  atOnce: 1")
    world.run(SEASONED + 10)
    edit(world, stop=True)
    world.run(SEASONED + 15)
    amid = failback(world).status
    world.run(SEASONED + 80)

    after = failback(world).status
    counts = [(one.phase, one.returned, len(one.returning)) for one in (amid, after)]
    assert counts == [("Stopped", 0, 1), ("Stopped", 1, 0)]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_more_are_on_their_way_at_once_than_asked(seed: int) -> None:
    world = failed_over(*apps(6), seed=seed)
    world.run(SEASONED)
    world.fault("member1", "notready")

    apply(world, HOME % "cluster: member1\n  rate: 10\n  atOnce: 2")
    world.run(SEASONED + 60)

    assert len(failback(world).status.returning) == copies_on(world, "member1") == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_it_stops_at_the_first_copy_that_does_not_get_healthy(seed: int) -> None:
    world = failed_over(*apps(4), seed=seed)
    world.run(SEASONED)
    world.fault("member1", "notready")

    apply(world, HOME % "cluster: member1\n  rate: 10\n  atOnce: 1")
    world.run(SEASONED + 700)

    status = failback(world).status
    assert status.phase == "Failed"
    assert status.failed is not None
    assert "not healthy" in status.failed.message
    assert (copies_on(world, "member1"), status.returned) == (1, 0)
    assert all(count >= 2 for count in served(world))

    world.fault("member1", "none")
    edit(world, stop=True)
    world.run(SEASONED + 1310)
    edit(world, stop=False)
    world.run(SEASONED + 1500)
    assert (failback(world).status.phase, failback(world).status.returned) == ("Finished", 4)
    assert failback(world).status.failed is None


@pytest.mark.parametrize("seed", SEEDS)
def test_an_outage_of_the_control_plane_itself_does_not_fail_it(seed: int) -> None:
    world = failed_over(DIVIDED, NGINX % 3, seed=seed)
    world.run(SEASONED)
    world.fault("member1", "notready")  # the copy is on its way, and not healthy yet
    apply(world, HOME % "cluster: member1")
    world.run(SEASONED + 10)
    assert failback(world).status.returning

    world.stall(2 * SELDOM.graceful_eviction_timeout)
    world.run(SEASONED + 11 + 2 * SELDOM.graceful_eviction_timeout)
    assert failback(world).status.phase == "Running"
    world.fault("member1", "none")
    world.run(SEASONED + 60 + 2 * SELDOM.graceful_eviction_timeout)

    assert (failback(world).status.phase, failback(world).status.returned) == ("Finished", 1)
    assert running(world) == {"member1": 1, "member2": 2}


@pytest.mark.parametrize("seed", SEEDS)
def test_an_outage_of_the_workers_alone_does_not_fail_it(seed: int) -> None:
    world = failed_over(DIVIDED, NGINX % 3, seed=seed)
    world.run(SEASONED)
    with without(world, "works"):
        apply(world, HOME % "cluster: member1")
        world.run(SEASONED + 10)
        assert failback(world).status.returning
        with without_workers(world):
            world.run(SEASONED + 10 + 2 * SELDOM.graceful_eviction_timeout)
    world.run(SEASONED + 11 + 2 * SELDOM.graceful_eviction_timeout)
    assert failback(world).status.phase == "Running"
    world.run(SEASONED + 60 + 2 * SELDOM.graceful_eviction_timeout)

    assert (failback(world).status.phase, failback(world).status.returned) == ("Finished", 1)
    assert running(world) == {"member1": 1, "member2": 2}


@pytest.mark.parametrize("seed", SEEDS)
def test_it_stops_when_the_origin_fails_again(seed: int) -> None:
    world = failed_over(*apps(6), seed=seed)
    world.run(SEASONED)

    apply(world, HOME % "cluster: member1\n  rate: 0.1")
    world.run(SEASONED + 25)
    begun = copies_on(world, "member1")
    world.fault("member1", "down")
    world.run(SEASONED + 200)

    assert 1 <= begun <= 3
    assert failback(world).status.phase == "Failed"
    assert copies_on(world, "member1") == 0
    world.fault("member1", "none")
    world.run(SEASONED + 1000)
    assert copies_on(world, "member1") == 0


def served(world: Simulation) -> list[int]:
    return [sum(running(world, f"app{number}").values()) for number in range(4)]


@pytest.mark.parametrize("seed", SEEDS)
def test_it_gives_way_while_another_cluster_is_being_left(seed: int) -> None:
    world = failed_over(*apps(2), members=3, seed=seed)
    world.run(SEASONED)
    world.fault("member3", "down")
    world.fault("member2", "down")
    world.run(SEASONED + 20)

    apply(world, HOME % "selector: {}")
    world.run(SEASONED + 100)

    assert failback(world).status.phase == "Paused"


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_policy_wants_elsewhere_by_now_is_not_brought_back(seed: int) -> None:
    world = failed_over(DIVIDED, NGINX % 3, seed=seed)
    world.run(SEASONED)
    old = world.store.get([Ref(kinds.PROPAGATION_POLICY, "default", "nginx-propagation")])
    (policy,) = old.values()
    affinity = policy.spec.placement.cluster_affinity
    only = type(affinity)(cluster_names=("member2",))
    placement = type(policy.spec.placement)(cluster_affinity=only)
    world.store.put(policy.with_spec(placement=placement), policy)
    world.run(SEASONED + 20)

    apply(world, HOME % "cluster: member1")
    world.run(SEASONED + 60)

    assert placed(world) == {"member2": 3}
    assert failback(world).status.phase == "Finished"
    assert failback(world).status.returned == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_held_stays_and_is_named_until_it_is_released(seed: int) -> None:
    world = failed_over(DIVIDED, NGINX % 3, *apps(1), seed=seed)
    world.run(SEASONED)
    apply(world, HELD, HOME % "cluster: member1\n  rate: 10")
    world.run(SEASONED + 60)

    status = failback(world).status
    assert placed(world) == {"member2": 3}
    assert (status.phase, status.returned, status.remaining) == ("Running", 1, 1)
    assert [one.message for one in status.cannot_return] == ["EvictionHold release: we are releasing"]

    (hold,) = world.store.list(kinds.EVICTION_HOLD)
    world.store.apply([(None, Decision(changes=(deleting(hold, now=world.now),)))], by=Actor("jane"))
    world.run(SEASONED + 120)
    assert placed(world) == {"member1": 1, "member2": 2}
    assert failback(world).status.phase == "Finished"


UPGRADE = """
apiVersion: failover.lifeboat.io/v1alpha1
kind: Drain
metadata:
  name: upgrade
spec:
  cluster: member1
  rate: 1
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_drain_let_leave_comes_back_after_the_maintenance(seed: int) -> None:
    world = joined("member1", "member2", seed=seed)
    apply(world, *apps(3))
    world.run(40)
    apply(world, UPGRADE)
    world.run(700)
    assert (copies_on(world, "member1"), away(world, "member1")) == (0, 3)
    (upgraded,) = world.store.get([Ref(kinds.CLUSTER, "", "member1")]).values()
    world.store.put(upgraded.with_spec(taints=()), upgraded)

    apply(world, HOME % "cluster: member1\n  rate: 1")
    world.run(800)

    assert (copies_on(world, "member1"), away(world, "member1")) == (3, 0)
    assert failback(world).status.phase == "Finished"


@pytest.mark.parametrize("seed", range(12))
def test_workers_that_die_at_any_write_bring_everything_back_all_the_same(seed: int) -> None:
    world = joined("member1", "member2", seed=seed, kill_rate=0.05)
    world.run(120)
    apply(world, *apps(3))
    world.run(300)
    world.fault("member1", "down")
    world.run(600)
    world.fault("member1", "none")
    world.run(1400)
    assert away(world, "member1") == 3

    apply(world, HOME % "cluster: member1\n  rate: 1")
    world.run(2000)

    assert world.kills > 0
    assert (copies_on(world, "member1"), away(world, "member1")) == (3, 0)
    assert (failback(world).status.phase, failback(world).status.returned) == ("Finished", 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_that_fails_while_it_gives_a_part_back_is_left_with_all_it_has(seed: int) -> None:
    world = failed_over(DIVIDED, NGINX % 3, members=3, seed=seed)
    world.run(SEASONED)
    world.fault("member1", "notready")
    apply(world, HOME % "cluster: member1")
    world.run(SEASONED + 20)
    assert binding(world).spec.replicas_returning("member2") == 1

    world.fault("member2", "down")
    world.run(SEASONED + 60)

    (task,) = binding(world).spec.graceful_eviction_tasks
    assert (task.from_cluster, task.reason, task.replicas) == ("member2", "TaintUntolerated", 3)
    world.fault("member1", "none")
    world.run(SEASONED + 120)
    assert placed(world) == {"member1": 3}
    assert running(world)["member1"] == 3


def test_a_failback_is_reported_as_a_record() -> None:
    world = failed_over(DIVIDED, NGINX % 3)
    world.run(SEASONED)
    apply(world, HOME % "cluster: member1")
    world.run(SEASONED + 60)

    own = record.decode_changes(change for change in world.store.log if change.ref == NGINX_BINDING)
    *_, last = record.records(record.failovers(own))

    assert (last.status.reason, last.status.state) == ("FailbackInPart", "Finished")
    assert [(one.name, one.replicas) for one in last.status.left] == [("member2", 1)]
    assert [(one.name, one.replicas) for one in last.status.after] == [("member1", 1), ("member2", 2)]


def test_a_task_of_a_whole_copy_is_no_part_of_one() -> None:
    world = failed_over(DIVIDED, NGINX % 3)
    one = binding(world)
    task = GracefulEvictionTask("member2", replicas=1, reason="Failback")

    assert one.with_spec(graceful_eviction_tasks=(task,)).spec.replicas_returning("member2") == 0


APPLICATION = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: application
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment, name: nginx}
  - {apiVersion: v1, kind: Service, name: front}
  placement:
    spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]
"""
FRONT = """
apiVersion: v1
kind: Service
metadata: {name: front}
spec: {selector: {app: nginx}, ports: [{port: 80}]}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_what_waits_for_its_pods_to_follow_does_not_keep_them_from_their_turn(seed: int) -> None:
    """The Service is the first by name, and one is on its way at a time."""
    service = ("v1", "Service", "default", "front")
    world = failed_over(APPLICATION, NGINX % 2, FRONT, seed=seed)
    world.run(SEASONED)
    assert (placed(world), holding(world, service)) == ({"member2": 2}, {"member2"})

    world.checks.append(lambda world: serves(world, service))
    apply(world, HOME % "{cluster: member1, atOnce: 1}")
    world.run(SEASONED + 120)

    assert failback(world).status.phase == "Finished"
    assert (running(world), holding(world, service)) == ({"member1": 2}, {"member1"})


def holding(world: Simulation, place: tuple[str, str, str, str]) -> set[str]:
    """Return the members that have an object."""
    return {member.name for member in world.members.values() if place in member.objects}


def serves(world: Simulation, service: tuple[str, str, str, str]) -> None:
    """Ready pods are there where the Service is."""
    there = holding(world, service)
    assert sum(count for name, count in running(world).items() if name in there) > 0, f"nothing serves at {world.now}"
