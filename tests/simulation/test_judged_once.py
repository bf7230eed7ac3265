"""[judged-once] what a policy said when the taint appeared counts, also where it is edited before anybody has
looked."""

from __future__ import annotations

import msgspec
import pytest

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import Toleration
from controlplane.settings import EvictionSettings
from tests.simulation.manifests import DIVIDED, NGINX
from tests.simulation.outages import serving
from tests.simulation.stories import apply, joined, placed
from tests.simulation.world import Simulation


def taint(world: Simulation, name: str) -> None:
    ref = Ref(kinds.CLUSTER, "", name)
    old = world.store.get([ref])[ref]
    assert not world.store.put(old.with_spec(taints=(Taint("gone", "NoExecute", time_added=world.now),)), old).lost


def edit(world: Simulation, *tolerations: Toleration) -> None:
    policy = world.store.list(kinds.PROPAGATION_POLICY)[0]
    placement = msgspec.structs.replace(policy.spec.placement, cluster_tolerations=tolerations)
    assert not world.store.put(policy.with_spec(placement=placement), policy).lost


@pytest.mark.parametrize("seed", range(12))
def test_a_policy_edited_between_a_taint_and_its_judgement_keeps_no_copy(seed: int) -> None:
    world = serving("member1", "member2", seed=seed)

    taint(world, "member1")
    edit(world, Toleration(operator="Exists"))
    world.run(60)

    assert placed(world) == {"member2": 3}
    binding = world.store.list(kinds.RESOURCE_BINDING)[0]
    assert binding.spec.placement.cluster_tolerations == (Toleration(operator="Exists"),)


@pytest.mark.parametrize("seed", range(12))
def test_a_policy_edited_between_a_taint_and_its_judgement_moves_no_copy(seed: int) -> None:
    world = joined("member1", "member2", seed=seed)
    apply(world, DIVIDED, NGINX % 3)
    world.run(20)
    edit(world, Toleration(operator="Exists"))
    world.run(30)

    taint(world, "member1")
    edit(world)
    world.run(60)

    assert placed(world) == {"member1": 1, "member2": 2}
    assert world.tokens == []


def test_with_reevaluate_policies_an_edit_counts_at_once() -> None:
    world = joined("member1", "member2", seed=0)
    world.settings = msgspec.structs.replace(world.settings, eviction=EvictionSettings(reevaluate_policies=True))
    apply(world, DIVIDED, NGINX % 3)
    world.run(20)
    edit(world, Toleration(operator="Exists"))
    world.run(30)

    taint(world, "member1")
    edit(world)
    world.run(60)

    assert placed(world) == {"member2": 3}
