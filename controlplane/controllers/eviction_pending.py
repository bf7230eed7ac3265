"""EvictionPending: writes the condition EvictionPending of a binding, which reports its queued evictions.

The queue consists of rows, so that 100,000 of them are written within seconds. The conditions follow later, at a slower
pace. controllers.evictions writes the condition itself when it evicts a binding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec

from controlplane.apimachinery.meta import Condition, Ref, condition
from controlplane.controllers.reads.bindings_on_clusters import bindings_on_clusters
from controlplane.controllers.reads.fleet_state import FLEET, TIER_ROW, clusters_with_evicting_taints, fleet_states
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
SETTLES_AFTER = timedelta(seconds=3)  # a row that changes again within this time is reported once
EVICTED_WITHIN = timedelta(seconds=10)  # an eviction due within this time is reported only when it has happened

QUEUED_WITHIN: Final = "QueuedWithin"
"""Kind of a fan-out origin: the evictions that were queued within SETTLES_AFTER from the time in its name on.

Thousands of copies leave a lost cluster before they have to be reported, so each of them has no due row of its own.
"""


class PendingSnapshot(msgspec.Struct, frozen=True):
    """A binding with its rows. `stopped`: why the eviction tier stops all evictions now, "" if it does not."""

    subject: Binding
    rows: tuple[Eviction, ...]
    stopped: str = ""


def _row_changed(old: Eviction | None, new: Eviction | None) -> Iterable[Ref]:
    """The binding of a row is due, but not when it is evicted: controllers.evictions reports that in the same write.

    New rows are due together (`_row_queued`).
    """
    present = new or old
    if present is None or (new is not None and (new.state == EVICTED or _is_new(old, new))):
        return ()
    return (Ref.parse(present.binding),)


def _row_queued(old: Eviction | None, new: Eviction | None) -> Iterable[Ref]:
    """The bindings of new rows are due together with those that were queued at about the same time."""
    if new is None or new.queued_at is None or not _is_new(old, new):
        return ()
    return _queued_with(new.queued_at)


def _is_new(old: Eviction | None, new: Eviction) -> bool:
    """Test whether a row is queued for the first time, and neither held nor of a copy that stays."""
    return old is None and new.state == QUEUED and not new.reason and None not in (new.due_at, new.queued_at)


@lru_cache(maxsize=64)  # a batch has one time
def _queued_with(queued_at: datetime) -> tuple[Ref, ...]:
    """Return the fan-out origin of the evictions that were queued at a time."""
    begin = queued_at - (queued_at - LONG_AGO) % SETTLES_AFTER
    return (Ref(QUEUED_WITHIN, "", begin.isoformat()),)


def _reported_after(old: Eviction | None, new: Eviction | None) -> timedelta:
    """Return how long after its change a row is reported.

    A held row and the removal of a row are reported at once. A row that is queued or abandoned is reported once it has
    stayed so for a while (`_settling_time`).
    """
    held = new is not None and new.reason != "" and new.ended_at is None
    return timedelta(0) if new is None or held else _settling_time(new)


def _tier_changed(old: FleetState | None, new: FleetState | None) -> Iterable[Ref]:
    """All bindings that may wait are due when the tier stops evictions or allows them again."""
    return (FLEET,) if new is not None and new.key == TIER_ROW else ()


class EvictionPending(Controller):
    """Key: a binding. Writes its condition EvictionPending and `status.pendingEvictions`."""

    name = "eviction_pending"
    group = "failover"
    keys = BINDINGS
    watches = (
        Watch("row/Eviction", _row_changed, delay=_reported_after),
        Watch("row/Eviction", _row_queued, delay=_reported_after, fan_out=True),
        Watch("row/FleetState", _tier_changed, fan_out=True),
    )
    owns = Ownership(dict.fromkeys(BINDINGS, ("status.conditions", "status.pending_evictions")))

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return the bindings whose evictions were queued together, with the key of a row as the cursor.

        For a change of the tier: the bindings on clusters that carry an evicting taint.
        """
        if origin.kind == QUEUED_WITHIN:
            begin = datetime.fromisoformat(origin.name)
            rows = state.queued_between(begin, begin + SETTLES_AFTER, after=after, limit=limit)
            refs = list(dict.fromkeys(Ref.parse(row.binding) for row in rows))
            return refs, rows[-1].key if len(rows) >= limit else None
        return bindings_on_clusters(
            state, clusters_with_evicting_taints(state), index="placed", after=after, limit=limit
        )

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
        pending = condition(new.status.conditions, EVICTION_PENDING)
        if new is old or pending is None:
            return NOTHING
        settled_at = max(map(_settled_at, snapshot.rows), default=now)
        if pending.reason != HELD and now < settled_at:
            return Decision(wake_at=settled_at)
        return Decision(changes=(Put(new, old),), events=_events(old, before, pending), reason=EVICTION_PENDING)


def _stopped(row: FleetState) -> str:
    """Return why the eviction tier stops all evictions now, "" if it does not."""
    last = row.stops[-1] if row.stops else None
    return last.why if last is not None and last.until is None else ""


def _settled_at(row: Eviction) -> datetime:
    """Return from when a row is reported."""
    return _changed_at(row) + _settling_time(row)


def _changed_at(row: Eviction) -> datetime:
    """Return when a row was queued or ended, whichever is later."""
    return max((at for at in (row.queued_at, row.ended_at) if at is not None), default=LONG_AGO)


def _settling_time(row: Eviction) -> timedelta:
    """Return how long a row that was queued or ended is not reported."""
    due_soon = row.due_at is not None and row.due_at <= _changed_at(row) + EVICTED_WITHIN
    return EVICTED_WITHIN if due_soon else SETTLES_AFTER


def _events(binding: Binding, before: Condition | None, pending: Condition) -> tuple[Event, ...]:
    """Return the Events that an eviction was queued or abandoned.

    controllers.evictions writes the Events about evictions themselves and about what holds them.
    """
    if pending.reason not in (QUEUED, ABANDONED) or (before is not None and before.status == pending.status):
        return ()
    abouts = (binding, template_of(binding))
    return tuple(Event(about, f"Eviction{pending.reason}", pending.message, warning=False) for about in abouts)
