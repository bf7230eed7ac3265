"""Orders of the eviction queue that were computed for the pages of a list, so that its next pages need not do it again.

The order of a queue is that of all its items, so a page costs as much as the whole. A list of 100,000 evictions has 200
pages. The pages after the first are therefore taken from one order, which the process that answers keeps for a minute.
Another process that gets the next page computes the order once more.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from apps.api.clock import ticks
from apps.api.eviction_watches import Paced
from apps.failover.queue_page import QueueOrder

KEPT_SECONDS: Final = 60.0  # after the last page that was read
MOST_KEYS: Final = 200_000  # of all orders that a process keeps; the latest is kept, however long it is


class KeptQueue(NamedTuple):
    """An order, and what its forecasts depend on."""

    order: QueueOrder
    paced: Paced


class KeptQueues:
    """The orders of one process, by the list whose pages they are for. May be used from any thread.

    An order is kept for `seconds`: after its last use, or, if not `renewed`, after it was made.
    """

    def __init__(
        self, clock: Callable[[], float] = ticks, *, seconds: float = KEPT_SECONDS, renewed: bool = True
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._renewed = renewed
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[float, KeptQueue]] = OrderedDict()

    def find(self, key: Hashable, make: Callable[[], KeptQueue]) -> KeptQueue:
        """Return the order of a list, made by `make` if it is not kept."""
        with self._lock:
            self._forget()
            found = self._kept.get(key)
        if found is not None and not self._renewed:
            return found[1]
        kept = make() if found is None else found[1]
        with self._lock:
            self._kept[key] = self._clock(), kept
            self._kept.move_to_end(key)
            self._forget()
        return kept

    def _forget(self) -> None:
        """Forget orders whose time is over, and the ones used least recently beyond MOST_KEYS."""
        late = self._clock() - self._seconds
        keys = sum(len(kept.order.keys) for _, kept in self._kept.values())
        while self._kept:
            used_at, kept = next(iter(self._kept.values()))
            if used_at >= late and (keys <= MOST_KEYS or len(self._kept) == 1):
                return
            keys -= len(kept.order.keys)
            self._kept.popitem(last=False)


KEPT_QUEUES: Final = KeptQueues()
