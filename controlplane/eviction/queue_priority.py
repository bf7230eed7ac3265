"""In which order evictions are worked off (D7): priority and waiting time, then due time, then name."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from controlplane.kinds.rows import Eviction


def aged_priority(row: Eviction, *, ageing_seconds: float, now: datetime) -> int:
    """Return the row's priority plus one for every `ageing_seconds` it has been due: a flood starves nobody."""
    waited = 0.0 if row.due_at is None else max(0.0, (now - row.due_at).total_seconds())
    return row.priority + int(waited // ageing_seconds)


def sorted_due(rows: Iterable[Eviction], *, ageing_seconds: float, now: datetime) -> list[Eviction]:
    """Return due rows, first to be evicted first."""
    due = [row for row in rows if row.due_at is not None and row.due_at <= now]
    return sorted(
        due, key=lambda row: (-aged_priority(row, ageing_seconds=ageing_seconds, now=now), row.due_at, row.key)
    )
