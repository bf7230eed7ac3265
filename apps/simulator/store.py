"""The objects of a simulated member, their versions, and the history of changes that watches read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import orjson

from controlplane.wire.resource import Resource
from controlplane.wire.watch import ADDED, DELETED, MODIFIED

Document = dict[str, Any]
Key = tuple[str, str]  # namespace ("" for cluster-scoped kinds), name

FIRST_VERSION = 1000
HISTORY = 1_000  # maximum number of changes in the history, of all kinds


class Stored(NamedTuple):
    """An object, and the bytes in which it is served."""

    document: Document
    text: bytes
    version: int


class Change(NamedTuple):
    """A change. `old` None: the object is new. `new` is the object, or for a deletion its last state."""

    event: str
    version: int
    old: Stored | None
    new: Stored


class Subscriber:
    """A reader of the changes of a kind, which never blocks writers."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.pending: deque[Change] = deque()
        self.wake = wake


class Store:
    """All objects of a member, by kind and key. Every write uses the next resourceVersion."""

    def __init__(self) -> None:
        self.version = FIRST_VERSION
        self.trimmed = FIRST_VERSION  # changes up to this version can no longer be watched
        self._objects: dict[str, dict[Key, Stored]] = {}
        self._history: deque[tuple[str, Change]] = deque()
        self._subscribers: dict[str, set[Subscriber]] = {}
        self.on_change: list[Callable[[str, Change], None]] = []

    def get(self, kind: str, namespace: str, name: str) -> Stored | None:
        """Return an object; None: there is none. `kind` is the key of a Resource."""
        return self._objects.get(kind, {}).get((namespace, name))

    def all(self, kind: str, namespace: str = "") -> list[Stored]:
        """Return the objects of a kind in the order of their keys; namespace "": all namespaces."""
        found = self._objects.get(kind, {})
        return [found[key] for key in sorted(found) if not namespace or key[0] == namespace]

    def count(self, kind: str) -> int:
        """Return the number of objects of a kind."""
        return len(self._objects.get(kind, ()))

    def kinds(self) -> list[str]:
        """Return the kinds that have objects."""
        return [kind for kind, found in self._objects.items() if found]

    def put(self, resource: Resource, document: Document) -> Stored:
        """Create or replace an object with the next resourceVersion."""
        self.version += 1
        metadata = {**document["metadata"], "resourceVersion": str(self.version)}
        stored = _stored({**document, "metadata": metadata}, self.version)
        objects = self._objects.setdefault(resource.key, {})
        key = key_of(stored.document)
        old = objects.get(key)
        objects[key] = stored
        self._tell(resource.key, Change(MODIFIED if old else ADDED, self.version, old, stored))
        return stored

    def remove(self, resource: Resource, namespace: str, name: str) -> Stored:
        """Remove an object. Watches see its last state with the version of the removal. Raises KeyError."""
        old = self._objects[resource.key].pop((namespace, name))
        self.version += 1
        metadata = {**old.document["metadata"], "resourceVersion": str(self.version)}
        last = _stored({**old.document, "metadata": metadata}, self.version)
        self._tell(resource.key, Change(DELETED, self.version, old, last))
        return last

    def changes_since(self, kind: str, version: int) -> Iterator[Change]:
        """Yield the changes of a kind after a version. The version must be at least `self.trimmed`."""
        return (change for name, change in self._history if name == kind and change.version > version)

    def subscribe(self, kind: str, subscriber: Subscriber) -> None:
        """Send the changes of a kind to a subscriber from now on."""
        self._subscribers.setdefault(kind, set()).add(subscriber)

    def unsubscribe(self, kind: str, subscriber: Subscriber) -> None:
        """Stop to send changes to a subscriber."""
        self._subscribers[kind].discard(subscriber)

    def trim(self) -> None:
        """Delete the history. Watches from an older resourceVersion get 410."""
        self._history.clear()
        self.trimmed = self.version

    def _tell(self, kind: str, change: Change) -> None:
        self._history.append((kind, change))
        while len(self._history) > HISTORY:
            self.trimmed = self._history.popleft()[1].version
        for subscriber in self._subscribers.get(kind, ()):
            subscriber.pending.append(change)
            subscriber.wake()
        for listener in self.on_change:
            listener(kind, change)


def key_of(document: Document) -> Key:
    """Return the namespace and name of a document."""
    metadata = document["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _stored(document: Document, version: int) -> Stored:
    return Stored(document, orjson.dumps(document), version)
