"""Compare-and-swap as a pure function: the result of a change, given the object that is stored now.

An object consists of parts: labels, annotations, finalizers, owner references, deletion, spec (or content), status. A
writer changes some parts of the object that it read. The change is stored if these parts, and those named in
`Put.upon`, are still stored as the writer read them. All other parts stay as they are stored. A status report and an
edit of the spec therefore never make each other retry. The store in memory and the database store both use this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.as_written import plain
from controlplane.apimachinery.equality import same
from controlplane.apimachinery.meta import Object, ObjectMeta, Ref
from controlplane.engine.decision import ROW_CHANGES, Delete, Drop, Put, Save, with_new_generation
from controlplane.kind import KINDS, text_of

_META_PARTS = (
    "labels",
    "annotations",
    "finalizers",
    "owner_references",
    "deletion_timestamp",
    "deletion_grace_period_seconds",
    "managed_fields",
)
_PARTS = ("spec", "content", "status")  # stored parts only: the `spec` of a Template is a view of its content


class Write(NamedTuple):
    """`new` is to be stored. `merged`: another writer has changed the object since it was read."""

    new: Object
    merged: bool


class Remove(NamedTuple):
    """The object is to be removed."""

    old: Object


class Same(NamedTuple):
    """Nothing changes, and the resourceVersion stays. `current` None: there is no such object."""

    current: Object | None


EXISTS = "exists"  # why a creation is lost: an object of that name is stored


class Lost(NamedTuple):
    """The change cannot be stored; `why` is EXISTS, gone, conflict or uid (another object has the name now)."""

    why: str


class Staged(NamedTuple):
    """What the changes of one decision make of the stored objects, if all of them can be stored.

    `objects`: by reference, the object that is written or removed. `results`: for each change the reference in
    `objects`, or the stored object if the change changes nothing; None for a row-native value.
    """

    objects: dict[Ref, Write | Remove]
    results: list[Ref | Object | None]


_STAGED = "staged"  # stands for the version that an object gets with this decision


def stage(changes: Iterable[Put | Delete | Save | Drop], stored: Callable[[Ref], Object | None]) -> Staged | str:
    """Return what the changes of a decision make of the stored objects; a text: which object has a conflict, and why.

    Several changes of one object are merged, although each was made from the object as it was read. The object is
    written once.
    """
    objects: dict[Ref, Write | Remove] = {}
    results: list[Ref | Object | None] = []
    for change in changes:
        if isinstance(change, ROW_CHANGES):
            results.append(None)
            continue
        ref = (change.new if isinstance(change, Put) else change.old).ref
        before = objects.get(ref)
        result = merge_change(change, stored(ref) if before is None else _after(before))
        if isinstance(result, Lost):
            return f"{result.why} {ref}"
        if isinstance(result, Same):
            results.append(result.current if before is None else ref)
            continue
        if isinstance(result, Write) and isinstance(before, Write):
            result = Write(result.new, before.merged)
        objects[ref] = result
        results.append(ref)
    return Staged(objects, results)


def _after(result: Write | Remove) -> Object | None:
    """Return the object that a later change of the same decision finds; None: the object is removed."""
    return result.new.with_meta(resource_version=_STAGED) if isinstance(result, Write) else None


def merge_change(change: Put | Delete, current: Object | None) -> Write | Remove | Same | Lost:
    """Return the result of a change, given the stored object; `current` None: there is none."""
    if isinstance(change, Delete):
        return _merge_delete(change, current)
    if change.old is None:
        return Lost(EXISTS) if current is not None else Write(change.new, False)
    if current is None:
        return Lost("gone")
    if current.metadata.uid != change.old.metadata.uid:
        return Lost("uid")
    if current.metadata.resource_version == change.old.metadata.resource_version:
        return Same(current) if _is_same(change.new, change.old) else _finished(change.new, False)
    return Lost("conflict") if change.exact else _merge(change.new, change.old, current, upon=change.upon)


def _is_same(new: Object, old: Object) -> bool:
    """Test whether two objects have the same document.

    Equal objects may have different documents: a value that equals its default may be present or absent, and Python
    considers true equal to 1.
    """
    return new is old or (new == old and same(_document(new), _document(old)))


def _is_equal(left: Any, right: Any) -> bool:
    """Test whether two values of a part have the same document. Untouched parts are usually the same object."""
    if left is right or left != right:
        return left is right
    return same(msgspec.to_builtins(left, enc_hook=plain), msgspec.to_builtins(right, enc_hook=plain))


def _document(obj: Object) -> Any:
    return msgspec.json.decode(text_of(obj))


def _merge_delete(change: Delete, current: Object | None) -> Write | Remove | Same | Lost:
    """Return the result of a deletion: removed, marked with a deletionTimestamp, unchanged or lost."""
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
    return Write(with_new_generation(marked), False)


def _finished(new: Object, merged: bool) -> Write | Remove:
    """Return the write, or the removal if the object is being deleted and has no finalizers left."""
    metadata = new.metadata
    if metadata.deletion_timestamp is not None and not metadata.finalizers:
        return Remove(new)
    return Write(new, merged)


def _merge(new: Object, old: Object, current: Object, *, upon: Collection[str]) -> Write | Remove | Same | Lost:
    """Return the three-way merge by parts. Parts in `upon` must be unchanged even if nothing is written to them."""
    assert {*_META_PARTS, *_PARTS}.issuperset(upon), f"{current.ref}: {upon} are not all parts of an object"
    changes: dict[str, Any] = {}
    for part in _META_PARTS:
        ours, base, theirs = (getattr(obj.metadata, part) for obj in (new, old, current))
        if ours == base and part not in upon:
            continue
        if theirs not in (base, ours):
            return Lost("conflict")
        changes[part] = ours
    parts: dict[str, Any] = {}
    for part in (part for part in _PARTS if part in current.__struct_fields__):
        ours, base, theirs = (getattr(obj, part) for obj in (new, old, current))
        is_kept = _is_equal(ours, base)
        if is_kept and part not in upon:
            continue
        if not _is_equal(theirs, base):
            return Lost("conflict")
        if not is_kept:
            parts[part] = ours
    begins = new.metadata.deletion_timestamp is not None and current.metadata.deletion_timestamp is None
    if begins or "spec" in parts or "content" in parts:
        changes["generation"] = current.metadata.generation + (new.metadata.generation - old.metadata.generation)
    metadata: ObjectMeta = replace(current.metadata, **changes)
    merged = replace(current, metadata=metadata, **parts)
    return Same(current) if _is_same(merged, current) else _finished(merged, True)


def check_generation(change: Put) -> None:
    """Raise AssertionError if the spec changed without raising the generation, because `with_spec` was not used."""
    old, new = change.old, change.new
    if old is None or new.metadata.generation > old.metadata.generation:
        return
    before, after = getattr(old, "spec", None), getattr(new, "spec", None)
    if before is after or before == after:
        return
    known = KINDS.get(new.ref.kind)
    if known is not None and KINDS.is_custom(known):
        return  # with any write an old object gets the defaults of a changed definition
    assert known is None or not known.has_generation, (
        f"{new.ref}: spec changed and generation stayed {new.metadata.generation}; change it with with_spec()"
    )
