"""Compare-and-swap, as a pure function: what becomes of one change, given what is stored now. Both stores use it.

An object is a set of parts: labels, annotations, finalizers, owners, deletion, spec (or content), status. A writer
changes some parts relative to what it read; it wins when those very parts, and those it says it rests upon, are still
what it read, and the other parts are kept as stored. So a status report and a spec edit of the same object never cost
each other a retry.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Object, ObjectMeta
from controlplane.engine.decision import Delete, Put
from controlplane.kind import KINDS, text_of
from controlplane.wire.patch import same

_META_PARTS = (
    "labels",
    "annotations",
    "finalizers",
    "owner_references",
    "deletion_timestamp",
    "deletion_grace_period_seconds",
    "managed_fields",
)
_PARTS = ("spec", "content", "status")  # as far as they are stored: the `spec` of a Template is a view of its content


class Write(NamedTuple):
    """The object to store. `merged` tells that somebody else had written meanwhile."""

    new: Object
    merged: bool


class Remove(NamedTuple):
    """The object goes."""

    old: Object


class Same(NamedTuple):
    """Nothing changes; the version stays."""

    current: Object | None


class Lost(NamedTuple):
    """The change lost; `why` is one of exists, gone, conflict, uid."""

    why: str


def merge_change(change: Put | Delete, current: Object | None) -> Write | Remove | Same | Lost:
    """Return what a change does to what is stored now."""
    if isinstance(change, Delete):
        return _settle_delete(change, current)
    if change.old is None:
        return Lost("exists") if current is not None else Write(change.new, False)
    if current is None:
        return Lost("gone")
    if current.metadata.uid != change.old.metadata.uid:
        return Lost("uid")
    if current.metadata.resource_version == change.old.metadata.resource_version:
        return Same(current) if _is_same(change.new, change.old) else _finished(change.new, False)
    return Lost("conflict") if change.exact else _merge(change.new, change.old, current, upon=change.upon)


def _is_same(new: Object, old: Object) -> bool:
    """Test whether two objects have the same document.

    Objects that are equal may have different documents: a value that equals its default may be written or absent, and
    to Python true is 1.
    """
    return new is old or (new == old and same(_document(new), _document(old)))


def _document(obj: Object) -> Any:
    return msgspec.json.decode(text_of(obj))


def _settle_delete(change: Delete, current: Object | None) -> Write | Remove | Same | Lost:
    if current is None:
        return Same(None)
    if current.metadata.uid != change.old.metadata.uid:
        return Lost("uid")
    if change.exact and current.metadata.resource_version != change.old.metadata.resource_version:
        return Lost("conflict")
    if not current.metadata.finalizers:
        return Remove(current)
    if current.metadata.deletion_timestamp is not None:
        return Same(current)
    wanted = change.old.metadata.deletion_timestamp
    assert wanted is not None, f"Delete of {current.ref} has finalizers and no deletion time; use decision.deleting()"
    seconds = change.old.metadata.deletion_grace_period_seconds
    marked = current.with_meta(deletion_timestamp=wanted, deletion_grace_period_seconds=seconds or 0)
    return Write(_raised(marked), False)


def _raised(obj: Object) -> Object:
    """Kubernetes raises the generation when deletion begins."""
    if not obj.metadata.generation:
        return obj
    return obj.with_meta(generation=obj.metadata.generation + 1)


def _finished(new: Object, merged: bool) -> Write | Remove:
    """Return the write, or the removal when the last finalizer of an object being deleted went."""
    metadata = new.metadata
    if metadata.deletion_timestamp is not None and not metadata.finalizers:
        return Remove(new)
    return Write(new, merged)


def _merge(new: Object, old: Object, current: Object, *, upon: Collection[str]) -> Write | Remove | Same | Lost:
    """Three-way merge by parts; those in `upon` are not to have moved even where nothing is written to them."""
    assert {*_META_PARTS, *_PARTS}.issuperset(upon), f"{current.ref}: {upon} are not all parts of an object"
    changes: dict[str, Any] = {}
    for part in _META_PARTS:
        ours, base, theirs = (getattr(one.metadata, part) for one in (new, old, current))
        if ours == base and part not in upon:
            continue
        if theirs not in (base, ours):
            return Lost("conflict")
        changes[part] = ours
    parts: dict[str, Any] = {}
    for part in (part for part in _PARTS if part in current.__struct_fields__):
        ours, base, theirs = (getattr(one, part) for one in (new, old, current))
        if ours == base and part not in upon:
            continue
        if theirs != base:
            return Lost("conflict")
        if ours != base:
            parts[part] = ours
    if "spec" in parts or "content" in parts:
        changes["generation"] = current.metadata.generation + (new.metadata.generation - old.metadata.generation)
    metadata: ObjectMeta = replace(current.metadata, **changes)
    merged = replace(current, metadata=metadata, **parts)
    return Same(current) if merged == current else _finished(merged, True)


def check_generation(change: Put) -> None:
    """Raise AssertionError where a spec changed and its generation did not rise: `with_spec` was not used."""
    old, new = change.old, change.new
    if old is None or new.metadata.generation > old.metadata.generation:
        return
    before, after = getattr(old, "spec", None), getattr(new, "spec", None)
    if before is after or before == after:
        return
    known = KINDS.get(new.ref.kind)
    assert known is None or not known.has_generation, (
        f"{new.ref}: spec changed and generation stayed {new.metadata.generation}; change it with with_spec()"
    )
