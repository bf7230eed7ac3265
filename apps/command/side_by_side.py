"""Many requests, some at a time: one after the other, each would take as long as the way to the API and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

AT_ONCE: Final = 8

Answer = TypeVar("Answer")


def each(function: Callable[[Any], Answer], items: Sequence[Any]) -> Iterator[Answer]:
    """Call a function for each item in threads, and yield what it returns in the order of the items.

    An error is raised where its answer would be. After that, and after Ctrl-C, no further call begins.
    """
    if len(items) < 2:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(min(AT_ONCE, len(items)))
    try:
        yield from pool.map(function, items)
    finally:
        pool.shutdown(cancel_futures=True)
