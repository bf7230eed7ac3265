"""Trouble in what people ask for: a cluster is emptied, and what has left one is brought back (Drain, Failback)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from controlplane.apimachinery.meta import Ref
from controlplane.kinds.cluster import NO_EXECUTE
from controlplane.kinds.drain import Drain, DrainSpec
from controlplane.kinds.failback import FAILED, Failback, FailbackSpec, FailbackStatus
from tests.simulation import edits

if TYPE_CHECKING:
    from tests.simulation.chaos import Chaos

RATES = (0.5, 2.0, 8.0)  # per second
AMID = 0.5  # share of failbacks that begin while the copies they are about still leave


def drained(chaos: Chaos) -> None:
    """A user empties a cluster that is well, and is done with it after a while."""
    member, world = chaos.victim(), chaos.world
    spec = DrainSpec(member, rate=chaos.chance.choice(RATES), reason="new disks")
    drain = Drain(edits.API_VERSION, "Drain", edits.named(world, "drain"), spec)

    def moved() -> bool:
        stored = world.store.object(drain.ref)
        return isinstance(stored, Drain) and stored.status.moved > 0

    def done() -> None:
        if (stored := world.store.object(drain.ref)) is not None:
            edits.delete(world, stored)
        edits.uncordon(world, member)

    world.create(drain)
    world.after(chaos.chance.uniform(8, 30), done)
    chaos.when(moved, lambda: chaos.fires("drained"))


def failed_back(chaos: Chaos) -> None:
    """What a person drove off a cluster is brought back."""
    _brought_back(chaos, lambda member, failback: chaos.fires("failed_back"))


def failback_lost(chaos: Chaos) -> None:
    """A cluster is lost while things go back to it: the failback stops there."""

    def on_its_way(member: str, failback: Ref) -> None:
        chaos.breaks(member, seconds=chaos.chance.uniform(10, 25))
        chaos.when(lambda: _status(chaos, failback).phase == FAILED, lambda: chaos.fires("failback_lost"))

    _brought_back(chaos, on_its_way)


def _brought_back(chaos: Chaos, then: Callable[[str, Ref], None]) -> None:
    """Drive everything off a cluster that has been well for long, and bring it back when something has left."""
    member, world = chaos.victim(long=True), chaos.world

    def back() -> None:
        edits.untaint(world, member)
        spec = FailbackSpec(member, rate=chaos.chance.choice(RATES), at_once=chaos.chance.choice((1, 10)))
        failback = Failback(edits.API_VERSION, "Failback", edits.named(world, "back"), spec)
        world.create(failback)
        chaos.when(lambda: bool(_status(chaos, failback.ref).returning), lambda: then(member, failback.ref))

    def gone() -> bool:
        return chaos.evicted(member) and not chaos.queued(member) and (amid or not chaos.leaving(member))

    amid = chaos.chance.random() < AMID
    chaos.spared.add(member)
    edits.taint(world, member, NO_EXECUTE)
    chaos.when(gone, back)


def _status(chaos: Chaos, failback: Ref) -> FailbackStatus:
    found = chaos.world.store.object(failback)
    return found.status if isinstance(found, Failback) else FailbackStatus()
