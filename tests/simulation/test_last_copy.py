"""The last copy that works is not removed Directly while no other copy can start, and does not shrink before others run
[refuge-first] [no-healthy-copy-lost]."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.apimachinery.meta import Ref, condition
from controlplane.clusters import fence
from controlplane.engine import lifecycle
from controlplane.engine.decision import Decision
from controlplane.kinds import CLUSTER
from controlplane.kinds.binding import OVERRIDES_APPLIED
from controlplane.kinds.cluster import Taint
from tests.simulation.edits import PERSON
from tests.simulation.manifests import NGINX, admitted
from tests.simulation.outages import scale, serving, taint, wait, wait_until_leaving, wait_until_not_ready, without
from tests.simulation.stories import apply, binding, joined, placed, running
from tests.simulation.world import Simulation

POLICY = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: nginx-propagation}
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment, name: nginx}
  failover: {cluster: {purgeMode: Directly}}
  suspension: %s
  placement: %s
"""
POLICY_REF = Ref("policy.karmada.io/PropagationPolicy", "default", "nginx-propagation")
ONE = """
    clusterAffinity: {clusterNames: [member1, member2, member3]}
    spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]
"""
ONE_OR_TWO = """
    clusterAffinity: {clusterNames: [member1, member2]}
    spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 2}]
"""
IN_HALVES = """
    clusterAffinity: {clusterNames: [member1, member2]}
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference:
        staticWeightList:
        - {targetCluster: {clusterNames: [member1]}, weight: 1}
        - {targetCluster: {clusterNames: [member2]}, weight: 1}
"""
FOUR = ("member1", "member2", "member3", "member4")


def why_held(world: Simulation) -> str:
    """Return what the evictions of nginx wait for."""
    return " ".join(pending.message for pending in binding(world).status.pending_evictions)


def edit(world: Simulation, suspension: str, placement: str) -> None:
    """Apply the policy again with another suspension."""
    old = world.store.objects[POLICY_REF]
    new = admitted(POLICY % (suspension, placement), world.settings, now=world.now)
    assert not world.store.put(old.with_spec(suspension=new.spec.suspension), old).lost  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("suspension", ["{dispatching: true}", "{dispatchingOnClusters: {clusterNames: [%s]}}"])
def test_a_copy_stays_while_no_new_copy_would_be_sent(seed: int, suspension: str) -> None:
    world = serving(*FOUR, seed=seed, policy=POLICY % ("null", ONE), replicas=2)
    (home,) = placed(world)
    others = ", ".join(name for name in FOUR if name != home)
    edit(world, suspension % others if "%s" in suspension else suspension, ONE)
    wait(world, 5)

    taint(world, home)
    wait(world, 60)
    assert running(world) == {home: 2}
    assert "suspended" in why_held(world)

    edit(world, "null", ONE)
    wait(world, 60)
    assert list(running(world).values()) == [2]
    assert home not in running(world)
    assert world.failures == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("placement", [ONE_OR_TWO, IN_HALVES])
def test_a_copy_stays_while_all_that_would_be_left_is_a_cluster_that_cannot_be_reached(
    seed: int, placement: str
) -> None:
    world = serving(*FOUR, seed=seed, policy=POLICY % ("null", placement), replicas=2)
    assert set(placed(world)) == {"member1", "member2"}
    served = running(world)["member1"]

    world.fault("member2", "down")
    wait_until_not_ready(world, "member2")
    taint(world, "member1")
    wait(world, 60)

    assert running(world)["member1"] == served
    assert "member2" in why_held(world)
    assert world.failures == []


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_stays_while_all_that_would_be_left_is_one_that_was_never_sent(seed: int) -> None:
    """Dispatching to member2 is suspended from the beginning, so that only member1 runs the workload."""
    withheld = POLICY % (SUSPENDED_ON % "member2", ONE_OR_TWO)
    world = serving(*FOUR, seed=seed, policy=withheld, replicas=2)
    assert placed(world) == {"member1": 2, "member2": 2}
    assert running(world) == {"member1": 2}

    taint(world, "member1")
    wait(world, 60)
    assert running(world) == {"member1": 2}
    assert "dispatching to member2 is suspended" in why_held(world)

    edit(world, "null", ONE_OR_TWO)
    wait(world, 90)
    assert running(world) == {"member2": 2}
    assert world.failures == []


OVERRIDE = """
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: elsewhere, namespace: default}
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment, name: nginx}
  overrideRules:
  - targetCluster: {clusterNames: [%s]}
    overriders: {plaintext: [{path: %s, operator: replace, value: 600}]}
"""
OVERRIDE_REF = Ref("policy.karmada.io/OverridePolicy", "default", "elsewhere")
SUSPENDED_ON = "{dispatchingOnClusters: {clusterNames: [%s]}}"
WRONG, RIGHT = "/spec/strategy/missing/seconds", "/spec/progressDeadlineSeconds"


def correct(world: Simulation, clusters: str) -> None:
    """Apply the override policy again, with a path that exists."""
    old = world.store.objects[OVERRIDE_REF]
    new = admitted(OVERRIDE % (clusters, RIGHT), world.settings, now=world.now)
    assert not world.store.put(old.with_spec(override_rules=new.spec.override_rules), old).lost  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_stays_while_an_override_policy_prevents_the_new_one(seed: int) -> None:
    """The policy is for clusters on which the workload never was, so that it has not failed before."""
    world = serving(*FOUR, seed=seed, policy=POLICY % ("null", ONE), replicas=2)
    (home,) = placed(world)
    others = ", ".join(name for name in FOUR if name != home)
    apply(world, OVERRIDE % (others, WRONG))
    wait(world, 5)

    taint(world, home)
    wait(world, 60)
    assert running(world) == {home: 2}
    failed = condition(binding(world).status.conditions, OVERRIDES_APPLIED)
    assert failed is not None
    assert failed.status == "False"

    correct(world, others)
    wait(world, 60)
    assert list(running(world).values()) == [2]
    assert home not in running(world)
    assert world.failures == []


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_stays_until_the_scheduler_has_said_where_the_new_one_is_to_be(seed: int) -> None:
    """Which clusters the workload gets decides whether an override policy prevents it."""
    world = serving(*FOUR, seed=seed, policy=POLICY % ("null", ONE), replicas=2)
    (home,) = placed(world)
    apply(world, OVERRIDE % (", ".join(name for name in FOUR if name != home), WRONG))
    wait(world, 5)
    with without(world, "scheduler"):
        taint(world, home)
        wait_until_leaving(world)
        wait(world, 3)
    wait(world, 60)

    assert running(world) == {home: 2}


def cordon(world: Simulation, *names: str, on: bool = True) -> None:
    """Let a person keep new copies away from some clusters, or take that back."""
    for name in names:
        old = world.store.objects[Ref(CLUSTER, "", name)]
        taints = (Taint("maintenance", "NoSchedule", time_added=world.now.replace(microsecond=0)),) if on else ()
        assert not world.store.put(old.with_spec(taints=taints), old).lost  # type: ignore[attr-defined]


def unjoin(world: Simulation, name: str) -> None:
    """Let a person delete a Cluster."""
    change = lifecycle.request_deletion(world.store.objects[Ref(CLUSTER, "", name)], now=world.now)
    world.store.apply([(None, Decision(changes=(change,)))], by=PERSON)


def confirm_down(world: Simulation, name: str) -> None:
    """Let a person say that a cluster is down."""
    old = world.store.objects[Ref(CLUSTER, "", name)]
    word = fence.fenced(old, fence.FenceRequest("no power", 600), by="ana", now=world.now)  # type: ignore[arg-type]
    assert not world.store.put(word, old).lost


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("home_is", ["tainted", "away", "fenced"])
def test_a_copy_stays_while_the_scheduler_finds_no_cluster_for_the_new_one(seed: int, home_is: str) -> None:
    """The clusters that the dry run of the eviction found are closed before the scheduler decides."""
    world = serving(*FOUR, seed=seed, policy=POLICY % ("null", ONE), replicas=2)
    (home,) = placed(world)
    others = [name for name in FOUR if name != home]
    with without(world, "scheduler"):
        if home_is == "tainted":
            taint(world, home)
        else:
            world.fault(home, "down")
        wait_until_leaving(world)
        cordon(world, *others)
        wait(world, 3)
    if home_is == "fenced":
        confirm_down(world, home)
    wait(world, 20)
    assert placed(world) == {}
    world.fault(home, "none")
    for _ in range(20):
        wait(world, 2)
        assert running(world) == {home: 2}

    cordon(world, *others, on=False)
    wait(world, 90)
    assert list(running(world).values()) == [2]
    assert (home in running(world)) is (home_is != "tainted"), "only a cluster that has recovered keeps it"
    assert world.failures == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("is_away", [True, False], ids=["away", "there"])
def test_a_copy_stays_while_the_only_cluster_of_the_new_one_is_being_unjoined(seed: int, is_away: bool) -> None:
    """A person has emptied its own cluster, so that it does not go back there."""
    world = serving("member1", "member2", seed=seed, policy=POLICY % ("null", ONE), replicas=2)
    (home,) = placed(world)
    (other,) = {"member1", "member2"} - {home}
    with without(world, "works"):
        if is_away:
            world.fault(home, "down")
        taint(world, home)
        wait_until_leaving(world)
        wait(world, 3)
        assert placed(world) == {other: 2}
        unjoin(world, other)
    wait(world, 30)

    world.fault(home, "none")
    wait(world, 80)
    assert running(world) == {home: 2}
    assert world.failures == []


TOGETHER = """
    clusterAffinity: {clusterNames: [member1, member2%s]}
    replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}
"""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "policy",
    [POLICY % ("null", TOGETHER % ""), POLICY % (SUSPENDED_ON % "member3", TOGETHER % ", member3")],
    ids=["no-room", "not-sent"],
)
def test_a_copy_goes_when_its_cluster_is_back_if_a_part_of_its_replicas_runs_elsewhere(seed: int, policy: str) -> None:
    """The fence of member1 has let the part start for which member2 has room."""
    world = joined("member1", "member2", "member3", seed=seed)
    world.members["member2"].pods, world.members["member3"].pods = 2, 500
    wait(world, 60)
    apply(world, policy, NGINX % 4)
    wait(world, 30)
    assert running(world) == {"member1": 4}
    world.fault("member1", "down")
    wait_until_leaving(world)
    confirm_down(world, "member1")
    wait(world, 20)
    assert running(world)["member2"] == 2

    world.fault("member1", "none")
    wait(world, 8)

    assert "member1" not in running(world), "six would run, and four are wanted"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("late", ["none", "scheduler", "graceful_eviction"])
@pytest.mark.parametrize("room", [2, 3])
def test_a_copy_gets_its_replicas_back_if_its_cluster_returns_before_any_has_started_elsewhere(
    seed: int, late: str, room: int
) -> None:
    """member2 has room for a part, which waits for the old copy. member1 is not fenced."""
    world = joined("member1", "member2", "member3", seed=seed)
    world.members["member2"].pods = room
    wait(world, 60)
    apply(world, POLICY % ("null", TOGETHER % ""), NGINX % 4)
    wait(world, 30)
    world.fault("member1", "down")
    wait_until_leaving(world)
    wait(world, 20)
    assert placed(world) == {"member2": room}

    world.fault("member1", "none")
    with without(world, late):
        wait(world, 30)
    for _ in range(10):
        assert running(world) == {"member1": 4}
        wait(world, 3)
    assert placed(world) == {"member1": 4}
    assert binding(world).spec.graceful_eviction_tasks == ()
    assert world.failures == []


BY_ROOM = """
    clusterAffinity: {clusterNames: [member1, member2, member3]}
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference: {dynamicWeight: AvailableReplicas}
"""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("replicas", [6, 7])
def test_a_copy_gets_all_its_replicas_back_if_its_cluster_returns_before_they_have_another_place(
    seed: int, replicas: int
) -> None:
    """The room that the eviction has found is gone. member2 has room for one when member1 is back, as member1 has for
    one more. The workload may be scaled up meanwhile."""
    world = serving("member1", "member2", "member3", seed=seed, policy=POLICY % ("null", BY_ROOM), replicas=6)
    assert running(world) == {"member1": 2, "member2": 2, "member3": 2}
    world.members["member2"].ready_after = timedelta(seconds=60)
    with without(world, "scheduler"):
        taint(world, "member1")
        wait_until_leaving(world)
        world.members["member1"].pods, world.members["member2"].pods, world.members["member3"].pods = 3, 3, 2
        wait(world, 60)
        scale(world, replicas)
        taint(world, "member1", on=False)
        wait(world, 3)

    for _ in range(20):
        wait(world, 1)
        assert running(world).get("member1", 0) >= 2
    assert binding(world).spec.graceful_eviction_tasks == ()
    assert placed(world) == {"member1": 2, "member2": 2 + replicas - 6, "member3": 2}
    assert world.failures == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("late", ["none", "scheduler", "graceful_eviction"])
def test_replicas_that_a_returned_cluster_does_not_get_back_stay_until_the_others_are_ready(
    seed: int, late: str
) -> None:
    """The scheduler or graceful eviction is the first to give the cluster the part for which others have no room."""
    world = joined("member1", "member2", "member3", seed=seed)
    there = world.members["member2"]
    there.pods, there.reports_pods, there.ready_after = 2, True, timedelta(seconds=150)
    wait(world, 60)
    apply(world, (POLICY % ("null", TOGETHER % "")).replace("Directly", "Gracefully"), NGINX % 4)
    wait(world, 30)
    world.fault("member1", "down")
    wait_until_leaving(world)
    wait(world, 20)
    assert placed(world) == {"member2": 2}

    world.fault("member1", "none")
    with without(world, late):
        wait(world, 30)
    wait(world, 30)
    assert running(world) == {"member1": 4, "member2": 0}
    wait(world, 120)
    assert running(world) == placed(world) == {"member1": 2, "member2": 2}
    assert binding(world).spec.graceful_eviction_tasks == ()
    assert world.failures == []


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_stays_while_an_override_policy_keeps_another_one_from_taking_its_replicas(seed: int) -> None:
    """The policy fails on a cluster that runs a part of the replicas already, and is to run the others as well."""
    world = serving(*FOUR, seed=seed, policy=POLICY % ("null", IN_HALVES), replicas=2)
    apply(world, OVERRIDE % ("member2", WRONG))
    wait(world, 5)

    taint(world, "member1")
    wait(world, 60)
    assert placed(world) == {"member2": 2}
    assert running(world) == {"member1": 1, "member2": 1}

    correct(world, "member2")
    wait(world, 60)
    assert running(world) == {"member2": 2}
    assert world.failures == []


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_stays_if_dispatching_is_suspended_right_after_it_was_evicted(seed: int) -> None:
    world = serving(*FOUR, seed=seed, policy=POLICY % ("null", ONE), replicas=2)
    (home,) = placed(world)
    others = ", ".join(name for name in FOUR if name != home)
    with without(world, "works"):
        taint(world, home)
        wait_until_leaving(world)
        edit(world, SUSPENDED_ON % others, ONE)
        wait(world, 3)
    wait(world, 60)
    assert running(world) == {home: 2}

    edit(world, "null", ONE)
    wait(world, 90)
    assert list(running(world).values()) == [2]
    assert home not in running(world)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("suspends", [True, False], ids=["suspended", "overridden"])
def test_a_copy_on_a_cluster_that_comes_back_stays_while_the_new_one_cannot_start(seed: int, suspends: bool) -> None:
    """What prevents the new copy was written while the old cluster was away, and the new copy waited for it."""
    world = serving(*FOUR, seed=seed, policy=POLICY % ("null", ONE), replicas=2)
    (home,) = placed(world)
    others = ", ".join(name for name in FOUR if name != home)
    world.fault(home, "down")
    wait_until_leaving(world)
    wait(world, 10)
    if suspends:
        edit(world, SUSPENDED_ON % others, ONE)
    else:
        apply(world, OVERRIDE % (others, WRONG))
    wait(world, 40)

    world.fault(home, "none")
    wait(world, 90)
    assert running(world) == {home: 2}

    if suspends:
        edit(world, "null", ONE)
    else:
        correct(world, others)
    wait(world, 120)
    assert list(running(world).values()) == [2]
    assert home not in running(world)
    assert world.failures == []
