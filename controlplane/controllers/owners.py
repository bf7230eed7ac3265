"""Owners: deletes or releases the objects that another object owns, as the garbage collector of Kubernetes does.

Owners are named in `metadata.ownerReferences`, and the propagationPolicy of a deletion (Background, Foreground, Orphan)
decides. This holds for templates and policies. An object whose owner is of an unknown kind is kept, because nothing is
deleted on account of something that could not be read. An owner that was seen to go is no such owner, although its kind
has gone since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from controlplane import kinds
from controlplane.apimachinery.meta import Object, OwnerReference, Ref, Struct, kind_key
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Delete, Put
from controlplane.engine.deletion_protection import is_protected
from controlplane.engine.lifecycle import (
    FOREGROUND,
    FOREGROUND_FINALIZER,
    ORPHAN_FINALIZER,
    PERMANENT_NAMESPACES,
    request_deletion,
)
from controlplane.engine.state import State, Unreadable, Watch
from controlplane.kind import KINDS
from controlplane.kinds.template import Template
from controlplane.propagation import bindings
from controlplane.settings import Settings

PAGE = 200  # dependents of one owner checked at once
LOOK_AGAIN = timedelta(seconds=1)  # while there are more
# Kinds whose deletion makes no owner due: there are too many of them, and they own nothing.
_OWN_NOTHING = (kinds.WORK, *kinds.BINDINGS)
_TYPED = tuple(kind.key for kind in KINDS if kind.type is not Template and "delete" in kind.resource.verbs)
_OWNERS = tuple(key for key in _TYPED if key not in (kinds.EVENT, *_OWN_NOTHING))
_OWNED_KINDS = (*kinds.POLICIES, *kinds.OVERRIDE_POLICIES)
_HELD = ("metadata.finalizers", "metadata.deletion_timestamp", "metadata.deletion_grace_period_seconds")


class OwnersSnapshot(Struct, frozen=True):
    """An owner (None: deleted), the objects that name it as their owner, and the other owners of those."""

    ref: Ref
    owner: Any
    dependents: tuple[Any, ...]
    others: dict[Ref, Any]
    is_bound: bool  # the owner is a template whose binding still exists
    unread: str = ""  # why a further dependent, or another owner of it, cannot be read

    @property
    def subject(self) -> Any:
        return self.owner or (self.dependents[0] if self.dependents else None)


class AnyKind(tuple[str, ...]):
    """A tuple that contains every kind: any object may own others, also of kinds that users define."""

    __slots__ = ()

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str)


def owner_ref(dependent: Object, reference: OwnerReference) -> Ref | None:
    """Return the object that an owner reference names. None: its kind is unknown."""
    kind = KINDS.get(kind_key(reference.api_version, reference.kind))
    if kind is None or (kind.resource.namespaced and not dependent.metadata.namespace):
        return None
    return kind.ref(dependent.metadata.namespace, reference.name)


def _owner_refs(dependent: Object) -> list[Ref]:
    """Return the owners of known kinds that an object names."""
    found = (owner_ref(dependent, reference) for reference in dependent.metadata.owner_references)
    return [ref for ref in found if ref is not None]


def _owner_changed(old: Object | None, new: Object | None) -> Iterator[Ref]:
    """An owner is due when it was removed, or is being deleted with the policy Foreground or Orphan.

    It is also due when another object has taken its place, which has another uid.
    """
    if new is None:
        if old is not None and old.ref.kind not in _OWN_NOTHING:
            yield old.ref
    elif new.metadata.deletion_timestamp is not None and _has_collector_finalizer(new):
        if old is None or old.metadata.finalizers != new.metadata.finalizers:
            yield new.ref
    elif old is not None and old.metadata.uid != new.metadata.uid:
        yield new.ref


def _has_collector_finalizer(obj: Object) -> bool:
    """Test whether an object is deleted with the policy Foreground or Orphan."""
    return not {FOREGROUND_FINALIZER, ORPHAN_FINALIZER}.isdisjoint(obj.metadata.finalizers)


def _dependent_changed(old: Object | None, new: Object | None) -> Iterator[Ref]:
    """The owners of an object are due when it was created or deleted, or its owner references changed.

    So they are when the label that protected the object from deletion was removed.
    """
    before, after = (() if side is None else side.metadata.owner_references for side in (old, new))
    if before == after and old is not None and new is not None and is_protected(old) <= is_protected(new):
        return
    present = new or old
    assert present is not None, "a change has an old or a new side"
    for reference in {*before, *after}:
        if (ref := owner_ref(present, reference)) is not None:
            yield ref


def _binding_gone(old: Any, new: Any) -> Iterator[Ref]:
    """A template is due when its binding was removed: with the policy Foreground, it is removed after its binding."""
    if old is not None and new is None:
        yield bindings.template_ref(old)


class Owners(Controller):
    """Key: an object that owns others, or owned them until it was deleted. Writes the objects that it owns."""

    name: ClassVar[str] = "owners"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = AnyKind(("anything",))
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch("*", _owner_changed),
        *(Watch(kind, _owner_changed) for kind in (*_OWNERS, *_OWN_NOTHING)),
        Watch("*", _dependent_changed),
        *(Watch(kind, _dependent_changed) for kind in _OWNED_KINDS),
        *(Watch(kind, _binding_gone) for kind in kinds.BINDINGS),
    )
    owns: ClassVar[Ownership] = Ownership(
        {
            "*": ("delete", "status", "metadata.owner_references", *_HELD),
            **dict.fromkeys(_OWNED_KINDS, ("delete", "metadata.owner_references", *_HELD)),
            **{key: ("metadata.finalizers",) for key in (*_OWNERS, *_OWN_NOTHING) if key not in _OWNED_KINDS},
        }
    )
    batch: ClassVar[int] = 100

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[OwnersSnapshot | None]:
        owners = state.get(refs)
        keeping = {str(ref): owner.metadata.uid for ref, owner in owners.items() if _keeps_dependents(owner)}
        legible = state.legible()  # a dependent that cannot be read stays, and keeps no other
        owned = legible.owned([str(ref) for ref in refs], keeping=keeping, limit=PAGE)
        named = {ref for found in owned.values() for dependent in found for ref in _owner_refs(dependent)}
        others = legible.get(sorted(named - owners.keys())) if named - owners.keys() else {}
        with_finalizer = [
            ref for ref, owner in owners.items() if isinstance(owner, Template) and _has_collector_finalizer(owner)
        ]
        bound = state.get([bindings.binding_ref(ref) for ref in with_finalizer]) if with_finalizer else {}
        snapshots: list[OwnersSnapshot | None] = []
        for ref in refs:
            dependents, owner = tuple(owned.get(str(ref), ())), owners.get(ref)
            if not dependents and (owner is None or not _has_collector_finalizer(owner)):
                snapshots.append(None)
                continue
            is_bound = ref in with_finalizer and bindings.binding_ref(ref) in bound
            dependents, why = _readable(dependents, legible.unread)
            snapshots.append(OwnersSnapshot(ref, owner, dependents, {**owners, **others}, is_bound, why))
        return snapshots

    def decide(self, snapshot: OwnersSnapshot, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        found = (_dependent_change(snapshot, dependent, now=now) for dependent in snapshot.dependents)
        writes = tuple(Decision(changes=(change,), reason=reason) for change, reason in found if change is not None)
        if writes:
            return Decision(separate_decisions=writes, wake_at=now + LOOK_AGAIN)
        if snapshot.unread:
            raise Unreadable(snapshot.unread)  # what it blocks waits for it
        owner = snapshot.owner
        if (
            owner is None
            or owner.metadata.deletion_timestamp is None
            or not _has_collector_finalizer(owner)
            or snapshot.is_bound
        ):
            return NOTHING
        if any(_blocks(dependent, owner) for dependent in snapshot.dependents):
            return NOTHING  # due again when one of them is removed
        kept = tuple(name for name in owner.metadata.finalizers if name not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER))
        return Decision(changes=(Put(owner.with_meta(finalizers=kept), owner),), reason="DependentsGone")


def _readable(dependents: Sequence[Any], unread: Mapping[Ref, Unreadable]) -> tuple[tuple[Any, ...], str]:
    """Return the dependents that can be read with all their owners, and why another one cannot."""
    problems = [[unread[ref] for ref in (one.ref, *_owner_refs(one)) if ref in unread] for one in dependents]
    found = tuple(one for one, problem in zip(dependents, problems, strict=True) if not problem)
    return found, next((str(problem[0]) for problem in problems if problem), "")


def _dependent_change(snapshot: OwnersSnapshot, dependent: Any, *, now: datetime) -> tuple[Put | Delete | None, str]:
    """Return the change of an object whose owner was or is being deleted, and its reason.

    The object loses the owner reference, or is deleted if no other owner is left. None: nothing changes.
    """
    if dependent.metadata.deletion_timestamp is not None:
        return None, ""
    references = dependent.metadata.owner_references
    to_owner = [reference for reference in references if _names(dependent, reference, snapshot.ref)]
    ended = [reference for reference in to_owner if not _is_valid(snapshot.owner, reference)]
    if not ended:
        return None, ""
    rest = tuple(reference for reference in references if reference not in ended)
    orphaned = snapshot.owner is not None and ORPHAN_FINALIZER in snapshot.owner.metadata.finalizers
    if is_protected(dependent) and not orphaned:
        return None, ""  # due again when the label is removed
    if orphaned or _is_permanent(dependent) or any(_keeps(snapshot, dependent, reference) for reference in rest):
        return Put(dependent.with_meta(owner_references=rest), dependent), "OwnerGone"
    waits = snapshot.owner is not None and snapshot.owner.metadata.uid in {reference.uid for reference in ended}
    return request_deletion(dependent, now=now, policy=FOREGROUND if waits else ""), "OwnerGone"


def _names(dependent: Object, reference: OwnerReference, owner: Ref) -> bool:
    """Test whether an owner reference names this owner, which was stored: its kind may have gone since, with its
    definition."""
    if (named := owner_ref(dependent, reference)) is not None:
        return named == owner
    kind, spaces = kind_key(reference.api_version, reference.kind), ("", dependent.metadata.namespace)
    return (kind, reference.name) == (owner.kind, owner.name) and owner.namespace in spaces


def _is_permanent(obj: Object) -> bool:
    return obj.ref.kind == kinds.NAMESPACE and obj.metadata.name in PERMANENT_NAMESPACES


def _is_valid(owner: Any, reference: OwnerReference) -> bool:
    """Test whether an owner reference names an existing owner that keeps its dependents."""
    return owner is not None and owner.metadata.uid == reference.uid and _keeps_dependents(owner)


def _keeps_dependents(owner: Object) -> bool:
    return owner.metadata.deletion_timestamp is None or not _has_collector_finalizer(owner)


def _keeps(snapshot: OwnersSnapshot, dependent: Object, reference: OwnerReference) -> bool:
    """Test whether another owner keeps an object: the owner exists, or its kind is unknown."""
    ref = owner_ref(dependent, reference)
    return ref is None or _is_valid(snapshot.others.get(ref), reference)


def _blocks(dependent: Object, owner: Object) -> bool:
    """Test whether an owner has to wait until this dependent is removed."""
    uid = owner.metadata.uid
    references: Iterable[OwnerReference] = dependent.metadata.owner_references
    return any(reference.uid == uid and reference.block_owner_deletion for reference in references)
