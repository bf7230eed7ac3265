"""Work on many objects together. An object that cannot be read fails alone, and keeps no other from being worked on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from controlplane.engine.state import Unreadable

Item = TypeVar("Item")
Result = TypeVar("Result")


def apart(
    items: Sequence[Item], do: Callable[[Sequence[Item]], Result]
) -> Iterator[tuple[Sequence[Item], Result | Unreadable]]:
    """Yield each part of the items with the result of `do`, usually all items at once.

    A part for which `do` raises Unreadable is halved until one item is left, which is yielded with the error.
    """
    try:
        result = do(items)
    except Unreadable as error:
        if len(items) <= 1:
            yield items, error
            return
    else:
        yield items, result
        return
    middle = len(items) // 2
    yield from apart(items[:middle], do)
    yield from apart(items[middle:], do)
