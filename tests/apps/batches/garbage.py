"""Cases of the controller that removes what no object refers to any more."""

from __future__ import annotations

from collections.abc import Callable

from controlplane import kinds
from controlplane.apimachinery.meta import ObjectMeta, Ref
from controlplane.controllers.garbage import EVERYTHING
from controlplane.kinds.event import Event
from controlplane.kinds.rows import Observation, Sweep
from tests.apps.batches.stored import Case, bound, many
from tests.builders.objects import START


def garbage(size: int) -> Case:
    rows = [Observation(name, "True") for name in many(size)]
    return Case(rows, [Ref(kinds.CLUSTER, "", name) for name in many(size)], size)


def garbage_of_events(size: int) -> Case:
    old = [
        Event("v1", "Event", ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}"), last_timestamp=START)
        for name in many(size)
    ]
    return Case([amid(kinds.EVENT), *old], [Ref(kinds.EVENT, "", EVERYTHING)], size)


def garbage_of_bindings(size: int) -> Case:
    rounds = [amid(kind) for kind in kinds.BINDINGS]
    return Case([*rounds, *bound(size)], [Ref(kind, "", EVERYTHING) for kind in kinds.BINDINGS], size)


def amid(kind: str) -> Sweep:
    """Return a round that has to write how far it is: onwards after a full page, to the start after the last one."""
    return Sweep(kind, "a", "a")


BATCHES: dict[str, Callable[[int], Case]] = {
    "garbage": garbage,
    "garbage of events": garbage_of_events,
    "garbage of bindings": garbage_of_bindings,
}

FAN_OUTS: dict[str, Callable[[int], Case]] = {}
