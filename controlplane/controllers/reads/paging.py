"""Rounds over all bindings with an index value, page by page, so that the cost of one look does not grow with them.

The cursor of a round is the reference of the last binding that it has checked, as text. "": the round begins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import State
from controlplane.kinds import BINDINGS


def next_bindings(state: State, index: str, value: str | Collection[str], *, after: str, limit: int) -> tuple[Ref, ...]:
    """Return references of at most `limit` bindings with an index value that come after the cursor `after`.

    `value`: one, or several of which a binding has any.

    They are in the order of their references, namespaced bindings first.
    """
    found: list[Ref] = []
    for kind, begin in remaining_kinds(after):
        found += state.refs_by_index(kind, index, value, after=begin, limit=limit - len(found))
    return tuple(found)


def count_bindings(state: State, index: str, value: str, *, after: str = "") -> int:
    """Return how many bindings with an index value come after the cursor `after`."""
    return sum(state.count_by_index(kind, index, value, after=begin) for kind, begin in remaining_kinds(after))


def remaining_kinds(after: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the kinds of bindings that a round has not finished, each with the (namespace, name) to continue after."""
    last = Ref.parse(after) if after else Ref(BINDINGS[0], "", "")
    for kind in BINDINGS[BINDINGS.index(last.kind) :]:
        yield kind, (last.namespace, last.name) if kind == last.kind else ("", "")
