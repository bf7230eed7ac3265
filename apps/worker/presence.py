"""Presence leases: a running process holds a lease of its own, so that other processes can see that it runs."""

from __future__ import annotations

from typing import Final

from controlplane.engine.state import HeldLease, Store

PRESENCE_LEASES: Final = 64  # for each name; a process beyond that number runs without a lease


def take_presence_lease(
    store: Store, name: str, current: HeldLease | None, *, holder: str, seconds: float, first: int = 0
) -> HeldLease | None:
    """Return the lease of this process: the current one renewed, else the first free one. None: all are taken.

    `first`: the first lease that this process may take.
    """
    free = range(first, PRESENCE_LEASES)
    shards = free if current is None else (current.shard, *free)
    leases = (store.take_lease(name, shard, holder=holder, seconds=seconds) for shard in shards)
    return next((lease for lease in leases if lease is not None), None)
