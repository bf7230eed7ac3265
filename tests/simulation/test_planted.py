"""Ten bugs, planted one at a time: the invariants catch each of them, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane import health, kinds
from controlplane.controllers import evictions
from controlplane.decision import Save
from controlplane.eviction import graceful, judge, plan, queue, rate
from controlplane.eviction.holds import Holds
from controlplane.eviction.refuge import Refuge
from controlplane.kinds.cluster import Taint
from controlplane.kinds.eviction_hold import EvictionHold, EvictionHoldSpec
from controlplane.kinds.policy import Toleration
from controlplane.meta import ObjectMeta, Ref
from tests.simulation import world as simulated
from tests.simulation.eviction_watch import EvictionWatch
from tests.simulation.manifests import DIVIDED, NGINX
from tests.simulation.stories import apply, joined
from tests.simulation.world import Simulation

SEEDS = range(6)
EXISTS = Toleration(operator="Exists")


def taint(world: Simulation, name: str, *, on: bool = True) -> None:
    ref = Ref(kinds.CLUSTER, "", name)
    old = world.store.get([ref])[ref]
    taints = (Taint("gone", "NoExecute", time_added=world.now),) if on else ()
    assert not world.store.put(old.with_spec(taints=taints), old).lost


def tolerate(world: Simulation, *tolerations: Toleration) -> None:
    policy = world.store.list(kinds.PROPAGATION_POLICY)[0]
    placement = replace(policy.spec.placement, cluster_tolerations=tolerations)
    assert not world.store.put(policy.with_spec(placement=placement), policy).lost


def started(seed: int, *names: str) -> Simulation:
    world = joined(*names, seed=seed)
    world.checks.append(EvictionWatch())
    apply(world, DIVIDED, NGINX % 3)
    world.run(25)
    return world


# Stories: a little trouble each


def moves(seed: int) -> None:
    """A person taints a healthy cluster: the copy moves, and the old one serves until the new one does."""
    world = started(seed, "member1", "member2")
    taint(world, "member1")
    world.run(45)


def bears(seed: int) -> None:
    """What tolerates a taint when it appears stays, also when its policy is edited later."""
    world = started(seed, "member1", "member2")
    tolerate(world, EXISTS)
    world.run(30)
    taint(world, "member1")
    world.run(33)
    tolerate(world)
    world.run(45)


def recovers(seed: int) -> None:
    """The taint goes before the first token comes."""
    world = started(seed, "member1", "member2")
    world.settings = replace(world.settings, resource_eviction_rate=0.1)
    taint(world, "member1")
    world.run(30)
    taint(world, "member1", on=False)
    world.run(50)


def blind(seed: int) -> None:
    """All clusters are lost at once."""
    world = started(seed, "member1", "member2")
    for name in ("member1", "member2"):
        taint(world, name)
    world.run(45)


def held(seed: int) -> None:
    """Somebody holds the fleet."""
    world = started(seed, "member1", "member2")
    meta = ObjectMeta(name="stop", uid="uid-stop", generation=1)
    world.create(EvictionHold("failover.lifeboat.io/v1alpha1", "EvictionHold", meta, EvictionHoldSpec("wait")))
    taint(world, "member1")
    world.run(45)


def faster(seed: int) -> None:
    """The rate rises from next to nothing while an eviction waits."""
    world = started(seed, "member1", "member2")
    world.settings = replace(world.settings, resource_eviction_rate=0.001, secondary_resource_eviction_rate=0.0)
    world.buckets["fleet"] = rate.Bucket(0.0, 0.001, world.now.timestamp())
    watch = world.checks[-1]
    assert isinstance(watch, EvictionWatch)
    watch.begins(world)
    taint(world, "member1")
    world.run(60)
    world.settings = replace(world.settings, resource_eviction_rate=0.5)
    world.run(61.5)


def flushed(seed: int) -> None:
    """Redis comes back empty while an eviction waits."""
    world = started(seed, "member1", "member2")
    watch = world.checks[-1]
    assert isinstance(watch, EvictionWatch)
    world.buckets.clear()
    watch.flushed = world.now
    taint(world, "member1")
    world.run(35)


Plant = Callable[[pytest.MonkeyPatch], None]


def evicts_without_token(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(evictions, "_granted", lambda moves, answer, settings: (list(moves), False))


def purges_on_empty_targets(patch: pytest.MonkeyPatch) -> None:
    def healthy(binding: Any, task: Any, places: Any) -> bool:
        return all(not graceful.ailing(binding, one, task, places) for one in binding.spec.clusters)

    patch.setitem(graceful.CHECKS, graceful.RESOURCE_HEALTH, healthy)


def takes_any_copy_for_healthy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(graceful, "ailing", lambda binding, target, task, places: "")


def creates_tokens_at_a_tier_change(patch: pytest.MonkeyPatch) -> None:
    def take(bucket: Any, wanted: int, *, rate: float, at: float) -> Any:
        changed = bucket is not None and bucket.rate != rate
        return real(Bucket(1.0, rate, at) if changed else bucket, wanted, rate=rate, at=at)

    real, Bucket = simulated.take, rate.Bucket
    patch.setattr(simulated, "take", take)


def starts_a_bucket_full(patch: pytest.MonkeyPatch) -> None:
    def take(bucket: Any, wanted: int, *, rate: float, at: float) -> Any:
        return real(bucket or Bucket(1.0, rate, at), wanted, rate=rate, at=at)

    real, Bucket = simulated.take, rate.Bucket
    patch.setattr(simulated, "take", take)


def goes_on_when_blind(patch: pytest.MonkeyPatch) -> None:
    def in_force(fleet: Any, known: Any, settings: Any) -> health.Tier:
        return health.Tier(health.NORMAL, settings.resource_eviction_rate)

    patch.setattr(health, "in_force", in_force)
    patch.setattr(plan, "refuge", lambda *args, **kwargs: Refuge(True, "anywhere"))


def ignores_tolerations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(judge, "waits", lambda spec, taint, taints: 0.0)


def judges_again_after_an_edit(patch: pytest.MonkeyPatch) -> None:
    real = judge.judged
    patch.setattr(queue, "judged", lambda *args, anew, **kwargs: real(*args, anew=True, **kwargs))


def forgets_that_a_cluster_recovered(patch: pytest.MonkeyPatch) -> None:
    def recheck(row: Any, binding: Any, cluster: Any, *, clocks_from: Any, now: Any) -> Any:
        return judge.earliest(row.judged) if binding is not None else None

    patch.setattr(queue, "difference", lambda stored, wants, clusters, *, now: tuple(Save(row) for row in wants))
    patch.setattr(plan, "recheck", recheck)


def ignores_holds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Holds, "why", lambda self, row, binding, cluster, *, now: ("", ""))


PLANTED: tuple[tuple[Plant, Callable[[int], None]], ...] = (
    (evicts_without_token, moves),
    (purges_on_empty_targets, moves),
    (takes_any_copy_for_healthy, moves),
    (creates_tokens_at_a_tier_change, faster),
    (starts_a_bucket_full, flushed),
    (goes_on_when_blind, blind),
    (ignores_tolerations, bears),
    (judges_again_after_an_edit, bears),
    (forgets_that_a_cluster_recovered, recovers),
    (ignores_holds, held),
)


@pytest.mark.parametrize("story", [moves, bears, recovers, blind, held, faster, flushed])
def test_without_a_bug_every_story_holds(story: Callable[[int], None]) -> None:
    story(0)


@pytest.mark.parametrize(("plant", "story"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_a_planted_bug_is_caught(plant: Plant, story: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    caught = 0
    for seed in SEEDS:
        try:
            story(seed)
        except AssertionError:
            caught = seed + 1
            break

    assert caught, f"{plant.__name__} went unseen in {len(SEEDS)} seeds"
