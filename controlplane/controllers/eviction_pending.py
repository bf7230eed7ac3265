"""EvictionPending: tells on every binding what the queue holds for it, and clears records of outages that are over.

The queue itself is rows, so that 100,000 of them are there in seconds; this follows behind, at its own pace. What has
been evicted is told by Evictions, with the eviction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from controlplane.apimachinery.meta import Condition, Ref, condition
from controlplane.controllers.reads.fleet_state import FLEET, TIER_ROW, clusters_with_evicting_taints, fleet_states
from controlplane.controllers.reads.placed import placed_on
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Event, Put
from controlplane.engine.state import State, Watch
from controlplane.eviction.pending import EVICTION_PENDING, with_eviction_pending
from controlplane.kinds import BINDINGS
from controlplane.kinds.binding import Binding
from controlplane.kinds.rows import ABANDONED, EVICTED, HELD, QUEUED, Eviction, FleetState
from controlplane.propagation.bindings import template_of
from controlplane.settings import Settings

LONG_AGO = datetime.min.replace(tzinfo=UTC)
PATIENCE = timedelta(seconds=3)  # what is queued or given up and something else again by then is told once
LEAVES_WITHIN = timedelta(seconds=10)  # what is due and has left by then is told as evicted only: Works come first


class PendingSnapshot(msgspec.Struct, frozen=True):
    """A binding with its rows. `stopped`: why the tier lets nothing be evicted now; "" evictions go on."""

    subject: Binding
    rows: tuple[Eviction, ...]
    stopped: str = ""


def _told_after(wanted: timedelta) -> Callable[[Eviction | None, Eviction | None], Iterable[Ref]]:
    """Return the watch on rows that are worth telling of `wanted` after they changed. What is held is told at once, and
    so is that a row is gone; what is queued or given up is told once it has stayed so for a while (`_patience`).
    An eviction itself is told by Evictions, in the same write."""

    def changed(old: Eviction | None, new: Eviction | None) -> Iterable[Ref]:
        present = new or old
        if present is None or (new is not None and new.state == EVICTED):
            return ()
        held = new is not None and new.reason != "" and new.ended_at is None
        after = timedelta(0) if new is None or held else _patience(new)
        return (Ref.parse(present.binding),) if after == wanted else ()

    return changed


def _tier_changed(old: FleetState | None, new: FleetState | None) -> Iterable[Ref]:
    """Every binding that waits is due when the tier stops evictions or lets them go on: the row is kept only then."""
    return (FLEET,) if new is not None and new.key == TIER_ROW else ()


class EvictionPending(Controller):
    """Key: a binding."""

    name = "eviction_pending"
    group = "failover"
    keys = BINDINGS
    watches = (
        *(Watch("row/Eviction", _told_after(after), after=after) for after in (timedelta(0), PATIENCE, LEAVES_WITHIN)),
        Watch("row/FleetState", _tier_changed, fan_out=True),
    )
    owns = Ownership(dict.fromkeys(BINDINGS, ("status.conditions", "status.pending_evictions")))

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return the bindings on clusters that carry a taint which moves workloads."""
        return placed_on(state, clusters_with_evicting_taints(state), index="placed", after=after, limit=limit)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[PendingSnapshot | None]:
        bindings = state.get(refs)
        rows = state.rows(Eviction, "binding", [str(ref) for ref in refs])
        stopped = _stopped(fleet_states(state, TIER_ROW)[0])
        return [
            PendingSnapshot(bindings[ref], tuple(rows.get(str(ref), ())), stopped) if ref in bindings else None
            for ref in refs
        ]

    def decide(self, snapshot: PendingSnapshot, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        old = snapshot.subject
        before = condition(old.status.conditions, EVICTION_PENDING)
        new = with_eviction_pending(old, snapshot.rows, stopped=snapshot.stopped, now=now)
        told = condition(new.status.conditions, EVICTION_PENDING)
        if new is old or told is None:
            return NOTHING
        settled_at = max(map(_settled_at, snapshot.rows), default=now)
        if told.reason != HELD and now < settled_at:
            return Decision(wake_at=settled_at)
        return Decision(changes=(Put(new, old),), events=_told(old, before, told), reason=EVICTION_PENDING)


def _stopped(row: FleetState) -> str:
    """Return why the tier lets nothing be evicted now; "" evictions go on."""
    last = row.stops[-1] if row.stops else None
    return last.why if last is not None and last.until is None else ""


def _settled_at(row: Eviction) -> datetime:
    """Return from when on a row is worth telling of."""
    return _last(row) + _patience(row)


def _last(row: Eviction) -> datetime:
    return max((moment for moment in (row.queued_at, row.ended_at) if moment is not None), default=LONG_AGO)


def _patience(row: Eviction) -> timedelta:
    """Return for how long after it was queued or given up a row is not worth telling of."""
    leaves = row.due_at is not None and row.due_at <= _last(row) + LEAVES_WITHIN
    return LEAVES_WITHIN if leaves else PATIENCE


def _told(binding: Binding, before: Condition | None, told: Condition) -> tuple[Event, ...]:
    """Say once that something was queued or given up; the eviction itself and what holds it are told by Evictions."""
    same = before is not None and (before.status, before.reason) == (told.status, told.reason)
    if same or told.reason not in (QUEUED, ABANDONED) or (before is not None and before.status == told.status):
        return ()
    abouts = (binding, template_of(binding))
    return tuple(Event(about, f"Eviction{told.reason}", told.message, warning=False) for about in abouts)
