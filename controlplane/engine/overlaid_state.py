"""A state as it will be once decisions are stored, for controllers that decide about what they write (`cascade`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine.decision import Drop, Save
from controlplane.engine.state import ReservedCapacity, State
from controlplane.kind import KINDS
from controlplane.kinds.rows import CapacityReservation, Row


class OverlaidState:
    """A state in which objects and row-native values that are not stored yet are found as if they were stored.

    `objects`: by reference. `changes`: of row-native values, as decisions make them.
    """

    def __init__(self, state: State, objects: dict[Ref, Object], changes: Iterable[Save | Drop] = ()) -> None:
        self._state = state
        self._objects = objects
        self._kinds = {ref.kind for ref in objects}
        self._rows: dict[type[Row], dict[str, Row | None]] = {}  # by type and key; None: the row is dropped
        for change in changes:
            row = change.row
            self._rows.setdefault(type(row), {})[row.key] = row if isinstance(change, Save) else None
        self.stored: dict[tuple[type[Row], str], Row] = {}  # rows that were read and that a change replaces

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)  # all that reads nothing that may not be stored yet

    def get(self, refs: Collection[Ref], *, unopened: bool = False) -> dict[Ref, Any]:
        """Return the objects that exist, by reference."""
        found = {ref: self._objects[ref] for ref in refs if ref in self._objects}
        rest = [ref for ref in refs if ref not in found]
        return found | self._state.get(rest, unopened=unopened) if rest else found

    def by_index(self, kind: str, index: str, values: Collection[str], *, limit: int = 0) -> dict[str, Sequence[Any]]:
        """Return the objects under each value of a declared index, in (namespace, name) order."""
        if kind not in self._kinds:
            return self._state.by_index(kind, index, values, limit=limit)
        enough = limit + len(self._objects) if limit else 0  # each object here may replace one that is stored
        stored = self._state.by_index(kind, index, values, limit=enough)
        found = {value: {obj.ref: obj for obj in objects} for value, objects in stored.items()}
        for ref, obj in self._objects.items():
            if ref.kind == kind:
                for objects in found.values():
                    objects.pop(ref, None)
                for value in set(KINDS[kind].index_values(obj, index)).intersection(values):
                    found.setdefault(value, {})[ref] = obj
        listed = {value: [objects[ref] for ref in sorted(objects)] for value, objects in found.items()}
        return {value: objects[:limit] if limit else objects for value, objects in listed.items() if objects}

    def rows(
        self, type_: type[Any], index: str, values: Collection[str], *, known: Collection[Any] = ()
    ) -> Mapping[str, Sequence[Any]]:
        """Return the row-native values of a type under each value of an index. `known`: see `State.rows`."""
        found = self._state.rows(type_, index, values, known=known)
        return self._overlaid(type_, index, values, found) if type_ in self._rows else found

    def _overlaid(
        self, type_: type[Row], index: str, values: Collection[str], found: Mapping[str, Sequence[Any]]
    ) -> dict[str, Sequence[Any]]:
        changed = self._rows[type_]
        rows: dict[str, list[Any]] = {}
        for value, stored in found.items():
            for row in stored:
                if row.key in changed:
                    self.stored[type_, row.key] = row
                else:
                    rows.setdefault(value, []).append(row)
        wanted = set(values)
        for new in changed.values():
            if new is not None and (value := getattr(new, index)) in wanted:
                rows.setdefault(value, []).append(new)
        return dict(rows)

    def reserved_capacity(
        self, *, within: timedelta, bindings: Collection[str] = (), totals: bool = True
    ) -> ReservedCapacity:
        """Return what is reserved: as stored, and as the decisions change it."""
        changed = self._rows.get(CapacityReservation)
        if not changed:
            return self._state.reserved_capacity(within=within, bindings=bindings, totals=totals)
        own = {row.binding for row in changed.values() if isinstance(row, CapacityReservation)}
        found = self._state.reserved_capacity(within=within, bindings=sorted({*bindings, *own}), totals=totals)
        summed = Counter({(cluster, request): count for cluster, request, count in found.totals})
        overlaid = self._overlaid(CapacityReservation, "binding", sorted({*bindings, *own}), found.own)
        if not totals:
            return replace(found, own=overlaid)
        for key, new in changed.items():
            before = self.stored.get((CapacityReservation, key))
            if isinstance(before, CapacityReservation) and _counts(before, found, within):
                summed[before.cluster, before.request] -= before.replicas
            if isinstance(new, CapacityReservation):
                summed[new.cluster, new.request] += new.replicas
        listed = [(*key, count) for key, count in sorted(summed.items()) if count]
        return replace(found, totals=listed, own=overlaid)


def _counts(row: CapacityReservation, found: ReservedCapacity, within: timedelta) -> bool:
    """Test whether a reservation is young enough to be part of the totals."""
    return row.made_at is not None and found.at is not None and row.made_at > found.at - within
