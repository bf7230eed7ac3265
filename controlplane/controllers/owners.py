"""Owners: what an object owns goes with it, before it, or is let go, as whoever deletes it says.

Kubernetes' garbage collection by `ownerReferences` (propagationPolicy Background, Foreground, Orphan), for templates
and policies. A reference to a kind nobody serves holds its object: nothing goes because something could not be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from controlplane import kinds
from controlplane.apimachinery.meta import Object, OwnerReference, Ref, Struct, kind_key
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Delete, Put
from controlplane.engine.lifecycle import (
    FOREGROUND,
    FOREGROUND_FINALIZER,
    ORPHAN_FINALIZER,
    PERMANENT_NAMESPACES,
    request_deletion,
)
from controlplane.engine.state import State, Watch
from controlplane.kind import KINDS
from controlplane.kinds.template import Template
from controlplane.propagation import bindings
from controlplane.settings import Settings

PAGE = 200  # dependents of one owner looked at in one go
LOOK_AGAIN = timedelta(seconds=1)  # while there are more
# Their deletion alone makes nobody look: there are too many of them, and they own nothing.
_OWN_NOTHING = (kinds.WORK, *kinds.BINDINGS)
_TYPED = tuple(kind.key for kind in KINDS if kind.type is not Template and "delete" in kind.resource.verbs)
_OWNERS = tuple(key for key in _TYPED if key not in (kinds.EVENT, *_OWN_NOTHING))
_HELD = ("metadata.finalizers", "metadata.deletion_timestamp", "metadata.deletion_grace_period_seconds")


class Family(Struct, frozen=True):
    """An owner (None: gone), what names it as its owner, and the other owners of those."""

    ref: Ref
    owner: Any
    dependents: tuple[Any, ...]
    others: dict[Ref, Any]
    is_bound: bool  # a template whose binding is still there

    @property
    def subject(self) -> Any:
        return self.owner or (self.dependents[0] if self.dependents else None)


class AnyKind(tuple[str, ...]):
    """Whatever there is may own something, also what users bring."""

    __slots__ = ()

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str)


def owner_ref(dependent: Object, one: OwnerReference) -> Ref | None:
    """Return what an owner reference names, None where nobody serves such a kind."""
    kind = KINDS.get(kind_key(one.api_version, one.kind))
    if kind is None or (kind.resource.namespaced and not dependent.metadata.namespace):
        return None
    return kind.ref(dependent.metadata.namespace, one.name)


def _owner(old: Object | None, new: Object | None) -> Iterator[Ref]:
    """An owner is due when it has gone, or is to go before or without what it owns."""
    if new is None:
        if old is not None and old.ref.kind not in _OWN_NOTHING:
            yield old.ref
    elif new.metadata.deletion_timestamp is not None and _is_held(new):
        if old is None or old.metadata.finalizers != new.metadata.finalizers:
            yield new.ref
    elif old is not None and old.metadata.uid != new.metadata.uid:
        yield new.ref


def _is_held(obj: Object) -> bool:
    return not {FOREGROUND_FINALIZER, ORPHAN_FINALIZER}.isdisjoint(obj.metadata.finalizers)


def _dependent(old: Object | None, new: Object | None) -> Iterator[Ref]:
    """The owners of an object are due when it comes, goes, or names others."""
    before, after = (() if one is None else one.metadata.owner_references for one in (old, new))
    if before == after and old is not None and new is not None:
        return
    present = new or old
    assert present is not None, "a change has an old or a new side"
    for one in {*before, *after}:
        if (ref := owner_ref(present, one)) is not None:
            yield ref


def _bound(old: Any, new: Any) -> Iterator[Ref]:
    """A template that goes last is due when its binding has gone."""
    if old is not None and new is None:
        yield bindings.template_ref(old)


class Owners(Controller):
    """Key: an object that owns others, or did."""

    name: ClassVar[str] = "owners"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = AnyKind(("anything",))
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch("*", _owner),
        *(Watch(kind, _owner) for kind in (*_OWNERS, *_OWN_NOTHING)),
        Watch("*", _dependent),
        *(Watch(kind, _dependent) for kind in kinds.POLICIES),
        *(Watch(kind, _bound) for kind in kinds.BINDINGS),
    )
    owns: ClassVar[Ownership] = Ownership(
        {
            "*": ("delete", "status", "metadata.owner_references", *_HELD),
            **dict.fromkeys(kinds.POLICIES, ("delete", "metadata.owner_references", *_HELD)),
            **{key: ("metadata.finalizers",) for key in (*_OWNERS, *_OWN_NOTHING) if key not in kinds.POLICIES},
        }
    )
    batch: ClassVar[int] = 100

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Family | None]:
        owners = state.get(refs)
        owned = state.owned([str(ref) for ref in refs], limit=PAGE)
        named = {
            ref
            for found in owned.values()
            for one in found
            for said in one.metadata.owner_references
            if (ref := owner_ref(one, said)) is not None
        }
        others = state.get(sorted(named - owners.keys())) if named - owners.keys() else {}
        last = [ref for ref, one in owners.items() if isinstance(one, Template) and _is_held(one)]
        bound = state.get([bindings.binding_ref(ref) for ref in last]) if last else {}
        families: list[Family | None] = []
        for ref in refs:
            dependents, owner = tuple(owned.get(str(ref), ())), owners.get(ref)
            if not dependents and (owner is None or not _is_held(owner)):
                families.append(None)
                continue
            is_bound = ref in last and bindings.binding_ref(ref) in bound
            families.append(Family(ref, owner, dependents, {**owners, **others}, is_bound))
        return families

    def decide(self, snapshot: Family, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        found = (_settled(snapshot, one, now=now) for one in snapshot.dependents)
        riders = tuple(Decision(changes=(change,), reason=why) for change, why in found if change is not None)
        if riders:
            return Decision(separate_decisions=riders, wake_at=now + LOOK_AGAIN)
        owner = snapshot.owner
        if owner is None or owner.metadata.deletion_timestamp is None or not _is_held(owner) or snapshot.is_bound:
            return NOTHING
        if any(_blocks(one, owner) for one in snapshot.dependents):
            return NOTHING  # due again when one of them goes
        kept = tuple(one for one in owner.metadata.finalizers if one not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER))
        return Decision(changes=(Put(owner.with_meta(finalizers=kept), owner),), reason="DependentsGone")


def _settled(family: Family, one: Any, *, now: datetime) -> tuple[Put | Delete | None, str]:
    """Return what becomes of an object whose owner this is: nothing, fewer owners, or its deletion."""
    if one.metadata.deletion_timestamp is not None:
        return None, ""
    mine = [said for said in one.metadata.owner_references if owner_ref(one, said) == family.ref]
    ended = [said for said in mine if not _lives(family.owner, said)]
    if not ended:
        return None, ""
    rest = tuple(said for said in one.metadata.owner_references if said not in ended)
    orphaned = family.owner is not None and ORPHAN_FINALIZER in family.owner.metadata.finalizers
    if orphaned or _is_kept(one) or any(_holds(family, one, said) for said in rest):
        return Put(one.with_meta(owner_references=rest), one), "OwnerGone"
    last = family.owner is not None and family.owner.metadata.uid in {said.uid for said in ended}
    return request_deletion(one, now=now, policy=FOREGROUND if last else ""), "OwnerGone"


def _is_kept(one: Object) -> bool:
    return one.ref.kind == kinds.NAMESPACE and one.metadata.name in PERMANENT_NAMESPACES


def _lives(owner: Any, said: OwnerReference) -> bool:
    """Test whether a reference is met, by an owner that does not go before or without what it owns."""
    if owner is None or owner.metadata.uid != said.uid:
        return False
    return owner.metadata.deletion_timestamp is None or not _is_held(owner)


def _holds(family: Family, one: Object, said: OwnerReference) -> bool:
    """Test whether another owner keeps an object: one that lives, or of a kind nobody serves."""
    ref = owner_ref(one, said)
    return ref is None or _lives(family.others.get(ref), said)


def _blocks(one: Object, owner: Object) -> bool:
    uid = owner.metadata.uid
    references: Iterable[OwnerReference] = one.metadata.owner_references
    return any(said.uid == uid and said.block_owner_deletion for said in references)
