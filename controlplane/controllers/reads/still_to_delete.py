"""The objects that a deletion takes along, page by page: what is held does not hide what can be deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from controlplane.engine.state import START, State


def still_to_delete(
    state: State, kind: str, *, goes: Callable[[Any], bool], limit: int, namespace: str = ""
) -> Sequence[Any]:
    """Return the first objects of a kind, and, if `limit` of them are held, also the next ones that can be deleted.

    Those that are being deleted already are not read to find these: there may be thousands, and each look would read
    them again.

    `goes(object)`: whether an object can be deleted now. namespace "": all namespaces.
    """
    first = state.list(kind, namespace=namespace, limit=limit, unopened=True)
    if len(first) < limit or any(map(goes, first)):
        return first
    after = START
    while refs := state.refs(kind, namespace=namespace, undeleted=True, after=after, limit=limit):
        if found := list(filter(goes, state.get(refs, unopened=True).values())):
            return [*first, *found]
        after = refs[-1].namespace, refs[-1].name
    return first
