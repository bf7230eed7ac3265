"""LegibleDjangoState: what is stored as far as it can be read, for those who look for the names of objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apps.objects.selecting import START
from apps.objects.state import DjangoState
from apps.objects.tables import read
from controlplane.apimachinery.meta import ObjectMeta, Ref
from controlplane.engine.state import Unreadable
from controlplane.kind import KINDS
from controlplane.kinds.template import Template


class LegibleDjangoState(DjangoState):
    """A DjangoState in which a document that cannot be read is an empty object of its name."""

    def __init__(self) -> None:
        self.unread: dict[Ref, Unreadable] = {}

    def legible(self) -> LegibleDjangoState:
        return self

    def _read(self, kind: str, namespace: str, name: str, doc: str, *, unopened: bool = False) -> Any:
        try:
            return read(kind, doc, unopened=True)
        except Unreadable as error:
            ref = Ref(kind, namespace, name)
            self.unread[ref] = error
            return empty(ref)

    def list(
        self, kind: str, *, namespace: str = "", after: tuple[str, str] = START, limit: int = 0, unopened: bool = False
    ) -> Sequence[Any]:
        found = self._stored(kind, namespace=namespace, after=after, limit=limit)
        return [self._read(kind, item.namespace, item.name, item.text) for item in found]


def empty(ref: Ref) -> Any:
    """Return an object that has nothing but its name."""
    metadata = ObjectMeta(name=ref.name, namespace=ref.namespace)
    if (known := KINDS.get(ref.kind)) is not None:
        return known.type(known.resource.api_version, known.resource.kind, metadata)
    group, slash, kind = ref.kind.rpartition("/")
    return Template(f"{group}/v1" if slash else "v1", kind, metadata)
