"""Parts of a document that an edit leaves as they are. They may break a schema that became stricter in the meantime.

Kubernetes calls this ratcheting: otherwise the finalizers of a stored object that a new schema refuses could never be
removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from controlplane.apimachinery.equality import same
from controlplane.wire.fieldset import element_of
from controlplane.wire.schema import Schema

Step = str | int

_MISSING: Final = object()


class Unchanged:
    """Finds the values of a document that an edit has left as they were. Each value is compared at most once.

    An item of a list of type map is compared with the old item of the same keys. Items of other lists, and fields of
    atomic maps, have no old value of their own: they are unchanged if the whole list or map is.
    """

    def __init__(self, new: Any, old: Any, schema: Schema) -> None:
        self._places: dict[tuple[Step, ...], _Place] = {(): _Place(new, old, schema)}

    def at(self, path: Sequence[Step]) -> bool:
        """Test whether the value at a path is unchanged."""
        return self._place(tuple(path)).is_same

    def _place(self, path: tuple[Step, ...]) -> _Place:
        found = self._places.get(path)
        if found is None:
            found = self._places[path] = self._place(path[:-1]).inside(path[-1])
        return found


class _Place:
    """A value, its old value (_MISSING: there was none), and their schema."""

    def __init__(self, new: Any, old: Any, schema: Schema) -> None:
        self.new, self.old, self.schema = new, old, schema

    @cached_property
    def is_same(self) -> bool:
        return self.old is not _MISSING and same(self.new, self.old)

    @cached_property
    def _partners(self) -> dict[str, Any]:
        """The old items of a list of type map by their keys."""
        items = self.old if isinstance(self.old, list) else ()
        return {element_of(item, self.schema): item for item in items}

    def inside(self, step: Step) -> _Place:
        """Return the place of a field or item; this place if nothing inside it has an old value of its own."""
        if isinstance(self.new, dict) and self.schema.map_type != "atomic":
            old = self.old.get(step, _MISSING) if isinstance(self.old, dict) else _MISSING
            return _Place(self.new.get(step), old, self.schema.property(str(step)) or Schema.OPEN)
        if isinstance(self.new, list) and isinstance(step, int) and self.schema.list_type == "map":
            item = self.new[step]
            old = self._partners.get(element_of(item, self.schema), _MISSING)
            return _Place(item, old, self.schema.items or Schema.OPEN)
        return self
