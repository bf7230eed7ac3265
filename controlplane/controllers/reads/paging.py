"""Rounds over the bindings under an index value: page by page, so that no look reads more where there are more.

A round's cursor is the last binding it has looked at, as text; "" where it begins.
"""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import State
from controlplane.kinds import BINDINGS


def page(state: State, index: str, value: str, *, after: str, limit: int) -> tuple[Ref, ...]:
    """Return the next bindings of a round, in the order of their references."""
    found: list[Ref] = []
    for kind, begin in _beyond(after):
        found += state.refs_by_index(kind, index, value, after=begin, limit=limit - len(found))
    return tuple(found)


def count(state: State, index: str, value: str, *, after: str = "") -> int:
    """Return how many bindings a round has still before it."""
    return sum(state.count_by_index(kind, index, value, after=begin) for kind, begin in _beyond(after))


def _beyond(after: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the kinds that are not through yet, and behind which (namespace, name) they go on."""
    last = Ref.parse(after) if after else Ref(BINDINGS[0], "", "")
    for kind in BINDINGS[BINDINGS.index(last.kind) :]:
        yield kind, (last.namespace, last.name) if kind == last.kind else ("", "")
