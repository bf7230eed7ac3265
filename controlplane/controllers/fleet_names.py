"""FleetNames: drops lists of cluster names that no stored explanation of a placement refers to any more.

Explanations (`scheduling.note`) refer to clusters by their position in such a list, so that each list is stored once.
"""

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
"""How often unused lists are looked for. A binding that is scheduled again refers to a newer list."""
AT_ONCE: Final = 500


class FleetNamesSnapshot(Struct, frozen=True):
    """The keys of the stored lists, and of those that an explanation refers to."""

    stored: frozenset[str]
    used: frozenset[str]


class FleetNamesCleanup(Controller):
    """Key: the fleet. Drops FleetNames rows.

    This controller runs in the group of the scheduler, so that the scheduler writes no explanation between load and
    decision. A placement that is written with an eviction may, in these milliseconds, if the fleet has become what it
    was before. Its explanation then has no names until the binding is placed again. No change makes this controller
    due: there is one list for each cluster that joined or left, and the lists are small.
    """

    name: ClassVar[str] = "fleet_names"
    group: ClassVar[str] = "scheduling"
    keys: ClassVar[tuple[str, ...]] = (FLEET.kind,)
    watches: ClassVar[tuple[Watch, ...]] = ()
    owns: ClassVar[Ownership] = Ownership({}, rows=(FleetNames,))
    due_at_start: ClassVar[tuple[Ref, ...]] = (FLEET,)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[FleetNamesSnapshot | None]:
        snapshot = FleetNamesSnapshot(
            frozenset(state.values(FleetNames, "key")), frozenset(state.values(PlacementNote, "fleet"))
        )
        return [snapshot for _ in refs]

    def decide(
        self, snapshot: FleetNamesSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        unused = sorted(snapshot.stored - snapshot.used)
        dropped = tuple(Drop(FleetNames(key)) for key in unused[:AT_ONCE])
        return Decision(changes=dropped, wake_at=now if len(unused) > AT_ONCE else now + LOOK, reason="NotNoted")
