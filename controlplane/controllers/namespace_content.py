"""Namespace content: deletes all objects in a deleted Namespace, which stays Terminating until they are removed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Object, Ref, Struct
from controlplane.apimachinery.names import DELETION_PROTECTED_LABEL, NAMESPACE_CONTENT_FINALIZER
from controlplane.controllers.reads.still_to_delete import still_to_delete
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import Decision, Delete, Put, deleting
from controlplane.engine.deletion_protection import is_protected
from controlplane.engine.state import State, Watch
from controlplane.kind import KINDS, Kind
from controlplane.kinds.template import Template
from controlplane.propagation.definitions import kinds_of
from controlplane.settings import Settings

PAGE = 200  # objects of one kind read at once
CHANGES = 500  # deletions of one decision; they are one transaction, which otherwise takes about 400 objects
LOOK_AGAIN = timedelta(seconds=1)  # while finalizers keep objects in the Namespace
LOOK_AT_MANY = timedelta(seconds=10)  # while they keep a page or more
REPORT_AFTER = timedelta(seconds=10)  # then a condition names the objects that remain
REMAINING = "NamespaceContentRemaining"  # a condition type of Kubernetes
SHOWN = 5

# Kinds with a type of their own. "*" stands for all others, also for those that users define.
_TYPED = tuple(kind.key for kind in KINDS if kind.resource.namespaced and kind.type is not Template)


class NamespaceContentSnapshot(Struct, frozen=True):
    """A Namespace that is being deleted, and some of the objects that are still in it."""

    namespace: Template
    objects: tuple[Object, ...]

    @property
    def subject(self) -> Template:
        return self.namespace


def _objects_in(state: State, known: Iterable[Kind], namespace: str) -> Iterator[Object]:
    for kind in known:
        if kind.resource.namespaced:
            yield from still_to_delete(state, kind.key, goes=_goes, limit=PAGE, namespace=namespace)


def _goes(obj: Object) -> bool:
    """Test whether an object can be deleted, and is not being deleted already."""
    return obj.metadata.deletion_timestamp is None and not is_protected(obj)


def _namespace_deleted(old: Template | None, new: Template | None) -> Iterator[Ref]:
    if new is not None and new.metadata.deletion_timestamp is not None:
        yield new.ref


class NamespaceContent(Controller):
    """Key: a Namespace. Deletes the objects in it, page by page, then removes its finalizer."""

    name: ClassVar[str] = "namespace_content"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = (kinds.NAMESPACE,)
    watches: ClassVar[tuple[Watch, ...]] = (Watch(kinds.NAMESPACE, _namespace_deleted),)
    owns: ClassVar[Ownership] = Ownership(
        {**dict.fromkeys(_TYPED, ("delete",)), "*": ("delete",), kinds.NAMESPACE: ("metadata.finalizers", "status")}
    )
    batch: ClassVar[int] = 1  # each Namespace reads all kinds

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[NamespaceContentSnapshot | None]:
        found = state.get(refs)
        return [self._content(state, found.get(ref)) for ref in refs]

    def _content(self, state: State, namespace: Template | None) -> NamespaceContentSnapshot | None:
        if namespace is None or namespace.metadata.deletion_timestamp is None:
            return None
        if NAMESPACE_CONTENT_FINALIZER not in namespace.metadata.finalizers:
            return None
        inside = list(_objects_in(state, KINDS, namespace.metadata.name))
        if not inside:
            # Kinds that were defined a moment ago, and that this process has not loaded yet, count as well.
            new_kinds = (kind for kind in kinds_of(state.list(kinds.DEFINITION)) if kind.key not in KINDS)
            inside = list(_objects_in(state, new_kinds, namespace.metadata.name))
        return NamespaceContentSnapshot(namespace, tuple(inside))

    def decide(
        self, snapshot: NamespaceContentSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        namespace = snapshot.namespace
        if not snapshot.objects:
            kept = tuple(name for name in namespace.metadata.finalizers if name != NAMESPACE_CONTENT_FINALIZER)
            return Decision(changes=(Put(namespace.with_meta(finalizers=kept), namespace),), reason="NamespaceEmpty")
        left = [obj for obj in snapshot.objects if _goes(obj)][:CHANGES]
        changes: tuple[Put | Delete, ...] = tuple(deleting(obj, now=now) for obj in left)
        began = namespace.metadata.deletion_timestamp
        if not left and began is not None and now - began >= REPORT_AFTER:
            reported = _with_remaining(namespace, snapshot.objects, now=now)
            changes = (Put(reported, namespace),) if reported is not namespace else ()
        wait = LOOK_AGAIN if left or len(snapshot.objects) < PAGE else LOOK_AT_MANY
        return Decision(changes=changes, wake_at=now + wait, reason="NamespaceDeleted")


def _with_remaining(namespace: Template, remaining: Sequence[Object], *, now: datetime) -> Template:
    """Return the Namespace with a condition that names the objects it waits for."""
    protected = [obj for obj in remaining if is_protected(obj)]
    held = [obj for obj in remaining if not is_protected(obj)]
    parts = [f"their finalizers hold them: {_listed(held)}"] if held else []
    parts += [f"the label {DELETION_PROTECTED_LABEL} protects them: {_listed(protected)}"] if protected else []
    message = f"Some resources are remaining, {'; '.join(parts)}"
    conditions = namespace.status.get("conditions", ())
    before = next((condition for condition in conditions if condition.get("type") == REMAINING), None)
    if before is not None and before.get("message") == message:
        return namespace
    condition = {
        "type": REMAINING,
        "status": "True",
        "reason": "SomeResourcesRemain",
        "message": message,
        "lastTransitionTime": f"{now:%Y-%m-%dT%H:%M:%SZ}" if before is None else before.get("lastTransitionTime"),
    }
    kept = [old for old in conditions if old is not before]
    return replace(namespace, status={**namespace.status, "conditions": [*kept, condition]})


def _listed(objects: Sequence[Object]) -> str:
    """Return the kinds and names of some objects, and how many more there are."""
    names = [f"{obj.kind} {obj.metadata.name}" for obj in objects[:SHOWN]]
    more = [f"{len(objects) - SHOWN} more"] if len(objects) > SHOWN else []
    return ", ".join([*names, *more])
