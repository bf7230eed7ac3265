"""What a Namespace holds goes with it: a deleted Namespace stays, Terminating, until everything in it is gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Object, Ref, Struct
from controlplane.apimachinery.names import NAMESPACE_CONTENT_FINALIZER
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import Decision, Delete, Put, deleting
from controlplane.engine.state import State, Watch
from controlplane.kind import KINDS, Kind
from controlplane.kinds.template import Template
from controlplane.propagation.definitions import kinds_of
from controlplane.settings import Settings

PAGE = 200  # objects of one kind deleted in one go
CHANGES = 500  # in one decision: a transaction takes about 600
LOOK_AGAIN = timedelta(seconds=1)  # while finalizers of others hold what is in it
PATIENCE = timedelta(seconds=10)  # after which it says what it waits for
REMAINING = "NamespaceContentRemaining"  # condition type, Kubernetes' own
SHOWN = 5

# Kinds with a type of their own; "*" stands for all the others, those users bring among them.
_TYPED = tuple(kind.key for kind in KINDS if kind.resource.namespaced and kind.type is not Template)


class Content(Struct, frozen=True):
    """A Namespace that is being deleted, and some of what it still holds."""

    namespace: Template
    objects: tuple[Object, ...]

    @property
    def subject(self) -> Template:
        return self.namespace


def _inside(state: State, known: Iterable[Kind], namespace: str) -> Iterator[Object]:
    for kind in known:
        if kind.resource.namespaced:
            yield from state.list(kind.key, namespace=namespace, limit=PAGE)


def _deleted(old: Template | None, new: Template | None) -> Iterator[Ref]:
    if new is not None and new.metadata.deletion_timestamp is not None:
        yield new.ref


class NamespaceContent(Controller):
    """Key: a Namespace. Deletes what is in it, page by page, then lets it go."""

    name: ClassVar[str] = "namespace_content"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = (kinds.NAMESPACE,)
    watches: ClassVar[tuple[Watch, ...]] = (Watch(kinds.NAMESPACE, _deleted),)
    owns: ClassVar[Ownership] = Ownership(
        {**dict.fromkeys(_TYPED, ("delete",)), "*": ("delete",), kinds.NAMESPACE: ("metadata.finalizers", "status")}
    )
    batch: ClassVar[int] = 1  # it asks for every kind there is

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Content | None]:
        found = state.get(refs)
        return [self._content(state, found.get(ref)) for ref in refs]

    def _content(self, state: State, namespace: Template | None) -> Content | None:
        if namespace is None or namespace.metadata.deletion_timestamp is None:
            return None
        if NAMESPACE_CONTENT_FINALIZER not in namespace.metadata.finalizers:
            return None
        inside = list(_inside(state, KINDS, namespace.metadata.name))
        if not inside:
            # Nothing goes before kinds this process has not heard of yet were looked at too.
            brought = (kind for kind in kinds_of(state.list(kinds.DEFINITION)) if kind.key not in KINDS)
            inside = list(_inside(state, brought, namespace.metadata.name))
        return Content(namespace, tuple(inside))

    def decide(self, snapshot: Content, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        namespace = snapshot.namespace
        if not snapshot.objects:
            kept = tuple(one for one in namespace.metadata.finalizers if one != NAMESPACE_CONTENT_FINALIZER)
            return Decision(changes=(Put(namespace.with_meta(finalizers=kept), namespace),), reason="NamespaceEmpty")
        going = [one for one in snapshot.objects if one.metadata.deletion_timestamp is None][:CHANGES]
        changes: tuple[Put | Delete, ...] = tuple(deleting(one, now=now) for one in going)
        began = namespace.metadata.deletion_timestamp
        if not going and began is not None and now - began >= PATIENCE:
            told = _told(namespace, snapshot.objects, now=now)
            changes = (Put(told, namespace),) if told is not namespace else ()
        return Decision(changes=changes, wake_at=now + LOOK_AGAIN, reason="NamespaceDeleted")


def _told(namespace: Template, held: Sequence[Object], *, now: datetime) -> Template:
    """Return the Namespace with a condition that names what it waits for."""
    names = [f"{one.kind} {one.metadata.name}" for one in held[:SHOWN]]
    more = [f"{len(held) - SHOWN} more"] if len(held) > SHOWN else []
    message = f"Some resources are remaining, their finalizers hold them: {', '.join([*names, *more])}"
    conditions = namespace.status.get("conditions", ())
    known = next((one for one in conditions if one.get("type") == REMAINING), None)
    if known is not None and known.get("message") == message:
        return namespace
    said = {
        "type": REMAINING,
        "status": "True",
        "reason": "SomeResourcesRemain",
        "message": message,
        "lastTransitionTime": f"{now:%Y-%m-%dT%H:%M:%SZ}" if known is None else known.get("lastTransitionTime"),
    }
    kept = [one for one in conditions if one is not known]
    return replace(namespace, status={**namespace.status, "conditions": [*kept, said]})
