"""Which controllers must look at which objects after a change, and whether a controller may write a change.

The store in memory and the database store both use this.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import astuple

from controlplane.apimachinery.meta import Object, Ref, kind_key
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import ROW_CHANGES, Decision, Delete, Drop, Followed, Put, Save
from controlplane.engine.state import Actor, Mark, Watch
from controlplane.kinds.template import Template


class OwnershipError(AssertionError):
    """A controller tried to write something that its `owns` does not declare. This is a defect in Lifeboat."""


class Router:
    """Finds the watches of all controllers that concern a change, and checks what controllers write."""

    def __init__(self, controllers: Iterable[Controller]) -> None:
        self.controllers = {controller.name: controller for controller in controllers}
        self._by_kind: dict[str, list[tuple[str, Watch]]] = {}
        self._by_row: dict[type, Sequence[tuple[str, Watch]]] = {}
        self._of_templates: dict[str, Sequence[tuple[str, Watch]]] = {}  # by kind, with those of every template
        self._allowed: dict[tuple[tuple[str, ...], str, bool], frozenset[str]] = {}
        self._allowed_rows: set[tuple[tuple[str, ...], type]] = set()
        for controller in self.controllers.values():
            for watch in controller.watches:
                assert not watch.bundled or controller.shards == 1, f"{controller.name}: a bundle is in one shard only"
                self._by_kind.setdefault(watch.kind, []).append((controller.name, watch))

    def marks(
        self,
        old: Object | None,
        new: Object | None,
        *,
        by: Actor,
        own: Ref | None = None,
        merged: bool = False,
        followed: Sequence[Followed] = (),
    ) -> Iterable[Mark]:
        """Return what to make due because an object changed. old None: it was created; new None: it was removed.

        `own` is the reference that the writer is deciding about. The writer's own change does not make `own` due again
        for the writer, unless the change was merged with another writer's (`merged`). The same holds for the
        controllers whose decisions are contained in the writer's (`followed`).
        """
        present = new if new is not None else old
        assert present is not None, "a change has an old or a new side"
        if not (watches := self._watches(present)):
            return ()
        decided = {(each.controller, each.ref) for each in followed}
        if own is not None:
            decided.add((by.name, own))
        return _marks(watches, old, new, decided=frozenset() if merged else decided)

    def _watches(self, present: Object) -> Sequence[tuple[str, Watch]]:
        """Return the watches of an object's kind, and of every template if it is one."""
        kind = kind_key(present.api_version, present.kind)
        if not isinstance(present, Template):
            return self._by_kind.get(kind, ())
        if (watches := self._of_templates.get(kind)) is None:
            watches = self._of_templates[kind] = (*self._by_kind.get(kind, ()), *self._by_kind.get("*", ()))
        return watches

    def row_marks(self, change: Save | Drop, *, by: Actor, own: Ref | None = None) -> Iterable[Mark]:
        """Return what to make due because a row-native value was stored or removed. Watches name it "row/<Type>"."""
        row = change.row
        type_ = type(row)
        if (watches := self._by_row.get(type_)) is None:
            watches = self._by_row[type_] = self._by_kind.get(f"row/{type_.__name__}", ())
        if not watches:
            return ()
        old, new = (change.old, row) if isinstance(change, Save) else (row, None)
        return _marks(watches, old, new, decided=() if own is None else ((by.name, own),))

    def check(self, controller: str, decision: Decision) -> None:
        """Raise OwnershipError if the controller's `owns` does not allow a change of its decision.

        Each path of an object may be owned by a controller whose decision is contained in this one (`followed`).
        """
        names = (controller, *dict.fromkeys(each.controller for each in decision.followed))
        for change in decision.changes:
            if refused := self._violation(names, change):
                written_by = ", ".join(dict.fromkeys(names))
                raise OwnershipError(
                    f"controller {written_by} may not write {refused}; declare it in {controller}.owns"
                )

    def _violation(self, names: tuple[str, ...], change: Put | Delete | Save | Drop) -> str:
        """Return what the change writes although none of the controllers may, for example "Cluster.spec.taints"."""
        if isinstance(change, ROW_CHANGES):
            type_ = type(change.row)
            if (names, type_) in self._allowed_rows:
                return ""
            if not any(type_ in self._owned(name).rows for name in names):
                return f"rows {type_.__name__}"
            self._allowed_rows.add((names, type_))
            return ""
        subject = change.old if isinstance(change, Delete) else change.new
        kind = kind_key(subject.api_version, subject.kind)
        is_template = isinstance(subject, Template)
        if (allowed := self._allowed.get((names, kind, is_template))) is None:
            allowed = self._allowed[names, kind, is_template] = self._paths(names, kind, is_template=is_template)
        return _refused(allowed, kind, change)

    def _paths(self, names: Sequence[str], kind: str, *, is_template: bool) -> frozenset[str]:
        """Return what these controllers together may write of a kind."""
        owned = [self._owned(name).kinds for name in names]
        return frozenset(
            path for kinds in owned for path in kinds.get(kind) or (kinds.get("*", ()) if is_template else ())
        )

    def _owned(self, controller: str) -> Ownership:
        known = self.controllers.get(controller)
        if known is None:
            raise OwnershipError(f"{controller} is no controller; use its name in Actor or controller=False")
        return known.owns


def _marks(
    watches: Iterable[tuple[str, Watch]], old: Any, new: Any, *, decided: Collection[tuple[str, Ref]]
) -> Iterator[Mark]:
    """Yield what watches make due because a value changed.

    `decided`: pairs of controller and reference that are left out, because the writer decides about them.
    """
    for name, watch in watches:
        for ref in watch.to(old, new):
            if (name, ref) not in decided:
                after = watch.after if watch.delay is None else watch.delay(old, new)
                yield Mark(name, ref, after, watch.bundled)


def _refused(allowed: frozenset[str], kind: str, change: Put | Delete) -> str:
    """Return what a change writes of a kind and may not, with only these paths allowed; "": nothing."""
    if not allowed:
        return f"kind {kind}"
    if "*" in allowed:
        return ""
    if isinstance(change, Delete):
        return "" if "delete" in allowed else f"{kind} (delete)"
    if change.old is None:
        return "" if "create" in allowed else f"{kind} (create)"
    for path in changed_paths(change.old, change.new):
        part = path.partition(".")[0]
        if path not in allowed and part not in allowed:
            return f"{kind}.{path}"
    return ""


def changed_paths(old: Any, new: Any) -> Iterator[str]:
    """Yield the paths that differ between two objects, for example "metadata.labels", "spec.clusters" or "content".

    metadata.generation and metadata.resourceVersion are never among them.
    """
    for part in ("metadata", "spec", "status", "content"):
        before, after = getattr(old, part, None), getattr(new, part, None)
        if before is after or before == after:
            continue
        if not (isinstance(before, msgspec.Struct) and isinstance(after, msgspec.Struct)):
            yield part
            continue
        for name, left, right in zip(after.__struct_fields__, astuple(before), astuple(after), strict=True):
            if left is right or left == right or (part == "metadata" and name in ("generation", "resource_version")):
                continue
            yield f"{part}.{name}"


def next_looks(decision: Decision) -> Iterator[Mark]:
    """Yield when controllers whose decisions are contained in a decision look at their objects again.

    A look that found nothing to do follows an eviction (`cascade`), so these marks are bundled.
    """
    for each in decision.followed:
        if each.again_after is not None:
            yield Mark(each.controller, each.ref, each.again_after, bundled=True)


def shard_of(ref: Ref, shards: int) -> int:
    """Return the shard of a reference: the CRC-32 of its text modulo `shards`, as in the database store."""
    return zlib.crc32(str(ref).encode()) % shards
