"""FleetNames: drops the names of fleets that no note of a placement speaks of any more (see scheduling.note)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from controlplane.apimachinery.meta import Ref, Struct
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import Decision, Drop
from controlplane.engine.state import State, Watch
from controlplane.kinds.rows import FleetNames, PlacementNote
from controlplane.settings import Settings

LOOK: Final = timedelta(hours=1)
"""Bindings are placed anew now and then, and their notes leave the fleet they spoke of."""
AT_ONCE: Final = 500


class Lists(Struct, frozen=True):
    """The fleets whose names are kept, and those some note speaks of; both as keys."""

    kept: frozenset[str]
    noted: frozenset[str]


class FleetLists(Controller):
    """Key: the fleet. Runs in the scheduler's group, so that no note is written between its look and its decision.

    Nothing makes it due but itself: there is a list for every cluster that came or went, and none is large.
    """

    name: ClassVar[str] = "fleet_names"
    group: ClassVar[str] = "scheduling"
    keys: ClassVar[tuple[str, ...]] = (FLEET.kind,)
    watches: ClassVar[tuple[Watch, ...]] = ()
    owns: ClassVar[Ownership] = Ownership({}, rows=(FleetNames,))
    due_at_start: ClassVar[tuple[Ref, ...]] = (FLEET,)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Lists | None]:
        lists = Lists(frozenset(state.values(FleetNames, "key")), frozenset(state.values(PlacementNote, "fleet")))
        return [lists for _ in refs]

    def decide(self, snapshot: Lists, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        unused = sorted(snapshot.kept - snapshot.noted)
        dropped = tuple(Drop(FleetNames(key)) for key in unused[:AT_ONCE])
        return Decision(changes=dropped, wake_at=now if len(unused) > AT_ONCE else now + LOOK, reason="NotNoted")
