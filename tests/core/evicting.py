"""A store in memory with bindings in the eviction queue of member1, and what one look at the queue leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from msgspec.structs import replace

from controlplane.controllers.eviction_queue import EvictionQueue
from controlplane.controllers.evictions import Evictions
from controlplane.controllers.scheduler import Scheduler
from controlplane.engine import run
from controlplane.engine.cascade import followers
from controlplane.engine.decision import Decision, Save
from controlplane.engine.memory import MemoryStore
from controlplane.engine.run import Report, World, run_batch
from controlplane.engine.state import Actor
from controlplane.eviction.rate import Tokens
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.binding import Binding
from controlplane.kinds.rows import EVICTED, CapacityReservation, Eviction, FleetState, PlacementHint
from controlplane.settings import Settings
from tests.builders.objects import START, cluster, no_execute
from tests.core.eviction_fleet import FAST

BY = Actor("test")
WORLD = World(answer=lambda question: Tokens(dict(question.wanted), 0.0))
CONTROLLERS = (EvictionQueue(), Evictions(), Scheduler())


def queued(*bindings: Binding, store: Callable[..., MemoryStore] = MemoryStore) -> MemoryStore:
    """Return a store in which these bindings are in the eviction queue of member1, and the token bucket is full."""
    made = store(controllers=CONTROLLERS, clock=lambda: START)
    made.create(cluster("member1").with_spec(taints=(no_execute(),)), cluster("member2"), cluster("member3"), *bindings)
    made.apply([(None, Decision(changes=(Save(FleetState("default", failover_on_since=START)),)))], by=BY)
    run.run_until_idle([EvictionQueue()], made, FAST, world=WORLD)
    made.due["scheduler"].clear()
    made.log.clear()
    return made


def evict(
    store: MemoryStore, *, settings: Settings = FAST, alone: bool = False, scheduler: Scheduler = CONTROLLERS[2]
) -> Report:
    """Run one batch of evictions. `alone`: no controller follows."""
    evictions = CONTROLLERS[1]
    following = () if alone else followers(evictions, (*CONTROLLERS[:2], scheduler), settings)
    return run_batch(evictions, store, settings, world=WORLD, following=following)


def evicted(store: MemoryStore) -> list[str]:
    return [row.binding for row in store.rows(Eviction, "state", [EVICTED]).get(EVICTED, ())]


def placed(store: MemoryStore) -> dict[str, list[str]]:
    """Return the target clusters of each binding, by its name."""
    found = cast(Sequence[Binding], store.list(RESOURCE_BINDING))
    return {one.metadata.name: [target.name for target in one.spec.clusters] for one in found}


def content(store: MemoryStore) -> dict[str, Any]:
    """Return bindings and rows, without versions of objects and without the writers of rows."""
    objects = {one.ref: one.with_meta(resource_version="") for one in store.list(RESOURCE_BINDING)}
    reserved = (cast(CapacityReservation, row) for row in store._rows.get(CapacityReservation, {}).values())
    return {
        "objects": objects,
        "reserved": {row.key: replace(row, writer="") for row in reserved},
        "hints": store._rows.get(PlacementHint, {}),
    }
