"""The last copy that works is not removed Directly while no other copy can start [refuge-first].
[no-healthy-copy-lost]"""

from __future__ import annotations

import pytest

from controlplane.apimachinery.meta import Ref, condition
from controlplane.kinds.binding import OVERRIDES_APPLIED
from tests.simulation.manifests import admitted
from tests.simulation.outages import serving, taint, wait, wait_until_not_ready
from tests.simulation.stories import apply, binding, placed, running
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
WRONG, RIGHT = "/spec/strategy/missing/seconds", "/spec/progressDeadlineSeconds"


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

    old = world.store.objects[OVERRIDE_REF]
    corrected = admitted(OVERRIDE % (others, RIGHT), world.settings, now=world.now)
    assert not world.store.put(old.with_spec(override_rules=corrected.spec.override_rules), old).lost
    wait(world, 60)
    assert list(running(world).values()) == [2]
    assert home not in running(world)
    assert world.failures == []
