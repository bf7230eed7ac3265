"""The order in which due evictions are processed: by priority and waiting time, then due time, then key
[eviction-queue]."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from controlplane.kinds.rows import Eviction


def aged_priority(row: Eviction, *, ageing_seconds: float, now: datetime) -> int:
    """Return the priority of a row, plus 1 for every `ageing_seconds` since its due time.

    Because of this ageing, a large number of evictions with high priority never blocks the others for ever.
    """
    waited = 0.0 if row.due_at is None else max(0.0, (now - row.due_at).total_seconds())
    return row.priority + int(waited // ageing_seconds)


def sorted_due(rows: Iterable[Eviction], *, ageing_seconds: float, now: datetime) -> list[Eviction]:
    """Return the rows that are due, the next one to be evicted first."""
    due = [row for row in rows if row.due_at is not None and row.due_at <= now]
    return sorted(
        due, key=lambda row: (-aged_priority(row, ageing_seconds=ageing_seconds, now=now), row.due_at, row.key)
    )
