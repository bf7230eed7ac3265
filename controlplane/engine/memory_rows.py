"""MemoryRows: row-native values in dictionaries, and the queries of State for them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from controlplane.kinds.rows import HELD, QUEUED, Eviction, QueuePosition, Row


class MemoryRows:
    """The row-native values of a `MemoryStore`."""

    def __init__(self) -> None:
        self._rows: dict[type, dict[str, Row]] = {}

    def rows(
        self, type_: type[Row], index: str, values: Collection[str], *, known: Collection[Any] = ()
    ) -> dict[str, Sequence[Any]]:
        assert index == "key" or index in type_.INDEXES, f"{type_.__name__} declares no index {index}"
        stored = self._rows.get(type_, {})
        if index == "key":
            return {key: [stored[key]] for key in sorted(set(values)) if key in stored}
        found: dict[str, Any] = {}
        wanted = set(values)
        for _, row in sorted([(key, row) for key, row in stored.items() if getattr(row, index) in wanted]):
            found.setdefault(getattr(row, index), []).append(row)
        return found

    def values(self, type_: type[Row], index: str) -> Collection[str]:
        assert index == "key" or index in type_.INDEXES, f"{type_.__name__} declares no index {index}"
        return {getattr(row, index) for row in self._rows.get(type_, {}).values()}

    def _queue(self) -> Sequence[Eviction]:
        rows = self._rows.get(Eviction, {}).values()
        return [row for row in rows if isinstance(row, Eviction) and row.due_at is not None and row.state == QUEUED]

    def queue_heads(self, *, limit: int, per_cluster: bool = False) -> Sequence[Any]:
        queues: dict[tuple[int, str], list[Eviction]] = {}
        for row in self._queue():
            queues.setdefault((row.priority, row.cluster if per_cluster else ""), []).append(row)
        share = max(1, limit // max(1, len({cluster for _, cluster in queues})))
        heads = [
            row for queue in queues.values() for row in sorted(queue, key=lambda row: (row.due_at, row.key))[:share]
        ]
        return sorted(heads, key=lambda row: (-row.priority, row.due_at, row.key))

    def held_evictions(self, *, after: QueuePosition | None, limit: int) -> Sequence[Any]:
        held = [row for row in self.rows(Eviction, "state", [HELD]).get(HELD, ()) if row.due_at is not None]
        places = sorted((-row.priority, row.due_at, row.key) for row in held)
        if after is not None:
            places = places[bisect_right(places, (-after[0], *after[1:])) :]
        return [self._rows[Eviction][key] for _, _, key in places[:limit]]

    def queued_between(self, begin: datetime, end: datetime, *, after: str, limit: int) -> Sequence[Any]:
        queued = sorted((row for row in self._queue() if row.key > after), key=lambda row: row.key)
        return [row for row in queued if row.queued_at is not None and begin <= row.queued_at < end][:limit]

    def next_eviction(self) -> datetime | None:
        return min((row.due_at for row in self._queue() if row.due_at is not None), default=None)

    def evictions_by_cluster(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for row in self._rows.get(Eviction, {}).values():
            if isinstance(row, Eviction) and row.due_at is not None:
                counts[row.cluster] = counts.get(row.cluster, 0) + 1
        return counts
