"""Places: a process that shows that it is there holds one of a few leases of a name."""

from __future__ import annotations

from typing import Final

from controlplane.engine.state import Fence, Store

PLACES: Final = 64  # processes that show themselves; more live without a lease


def take_place(store: Store, name: str, known: Fence | None, *, holder: str, seconds: float) -> Fence | None:
    """Return the lease of our place: the one we had, renewed, else of the first that is free; None: all are taken."""
    places = range(PLACES) if known is None else (known.shard, *range(PLACES))
    taken = (store.take_lease(name, place, holder=holder, seconds=seconds) for place in places)
    return next((one for one in taken if one is not None), None)
