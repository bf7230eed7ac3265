"""One chunk of a fan-out: where it continues, and what it reaches although some documents cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from controlplane.apimachinery.meta import Ref
from controlplane.engine.controller import Controller
from controlplane.engine.state import Claim, Store, Unreadable

_MARK: Final = "\x1e"  # before and behind the form of a cursor; no reference begins with it


class Chunk(NamedTuple):
    """The objects of a chunk, the cursor to store (None: the fan-out ends), and what could not be read, and why."""

    refs: list[Ref]
    cursor: str | None
    unread: Mapping[Ref, Unreadable]


def next_chunk(controller: Controller, store: Store, claims: Sequence[Claim], *, limit: int) -> Chunk:
    """Return the next chunk of the fan-out that these claims are origins of. They are at the same cursor.

    A cursor that another release has written in another form (`Controller.cursor_form`) begins the fan-out again. A
    document that cannot be read keeps the fan-out from nothing else: it is read as an empty object of its name.
    """
    origins, after = [claim.ref for claim in claims], _position(claims[0].cursor, controller.cursor_form)
    unread: Mapping[Ref, Unreadable] = {}
    try:
        refs, cursor = controller.expand_all(store, origins, after=after, limit=limit)
    except Unreadable:
        legible = store.legible()
        refs, cursor = controller.expand_all(legible, origins, after=after, limit=limit)
        unread = legible.unread
    return Chunk(refs, None if cursor is None else _stored(cursor, controller.cursor_form), unread)


def _position(cursor: str, form: str) -> str:
    """Return where a fan-out continues; "": at its beginning, because the cursor has another form."""
    written, position = "", cursor
    if cursor.startswith(_MARK):
        written, _, position = cursor[1:].partition(_MARK)
    return position if written == form else ""


def _stored(cursor: str, form: str) -> str:
    return f"{_MARK}{form}{_MARK}{cursor}" if form else cursor
