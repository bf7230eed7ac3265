"""The objects that a deletion takes along, page by page: what is held does not hide what can be deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from controlplane.engine.state import State


def still_to_delete(
    state: State, kind: str, *, goes: Callable[[Any], bool], limit: int, namespace: str = ""
) -> Sequence[Any]:
    """Return the first objects of a kind, and, if `limit` of them are held, also the next ones that can be deleted.

    `goes(object)`: whether an object can be deleted now. namespace "": all namespaces.
    """
    first = page = state.list(kind, namespace=namespace, limit=limit, unopened=True)
    while len(page) == limit and not any(map(goes, page)):
        last = page[-1].metadata
        page = state.list(kind, namespace=namespace, after=(last.namespace, last.name), limit=limit, unopened=True)
    return first if page is first else [*first, *filter(goes, page)]
