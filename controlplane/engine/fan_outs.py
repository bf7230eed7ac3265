"""One chunk of a fan-out: where it continues, and what it reaches although some documents cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from controlplane.apimachinery.meta import Ref
from controlplane.engine.controller import Controller
from controlplane.engine.state import Claim, Store, Unreadable


class Chunk(NamedTuple):
    """The objects of a chunk, the cursor to store (None: the fan-out ends), and what could not be read, and why."""

    refs: list[Ref]
    cursor: str | None
    unread: Mapping[Ref, Unreadable]


def next_chunk(controller: Controller, store: Store, claims: Sequence[Claim], *, limit: int) -> Chunk:
    """Return the next chunk of the fan-out that these claims are origins of. They are at the same cursor.

    A document that cannot be read keeps the fan-out from nothing else: it is read as an empty object of its name.
    """
    origins, after = [claim.ref for claim in claims], claims[0].cursor
    unread: Mapping[Ref, Unreadable] = {}
    try:
        refs, cursor = controller.expand_all(store, origins, after=after, limit=limit)
    except Unreadable:
        legible = store.legible()
        refs, cursor = controller.expand_all(legible, origins, after=after, limit=limit)
        unread = legible.unread
    return Chunk(refs, cursor, unread)
