"""Leases of the store in memory: which process works for a shard of a group."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from controlplane.engine.state import HeldLease, LeaseLost


class StoredLease(msgspec.Struct, frozen=True, gc=False):
    """A lease. `epoch` rises when the holder changes or lets the lease expire."""

    holder: str
    epoch: int
    until: datetime


class MemoryLeases(dict[tuple[str, int], StoredLease]):
    """Leases by name and shard."""

    def take(self, name: str, shard: int, *, holder: str, seconds: float, now: datetime) -> HeldLease | None:
        """Take or renew a lease and return it. None: another holder has it and it has not expired."""
        lease = self.get((name, shard))
        in_force = lease is not None and lease.until > now
        if lease is not None and in_force and lease.holder != holder:
            return None
        epoch = 1 if lease is None else lease.epoch if in_force else lease.epoch + 1
        self[name, shard] = StoredLease(holder, epoch, now + timedelta(seconds=seconds))
        return HeldLease(name, shard, epoch)

    def drop(self, held: HeldLease, *, holder: str, now: datetime) -> None:
        """End a lease at once if `holder` still holds it under this epoch."""
        lease = self.get((held.name, held.shard))
        if lease is not None and lease.holder == holder and lease.epoch == held.epoch:
            self[held.name, held.shard] = StoredLease(holder, lease.epoch, now)

    def check(self, held: HeldLease, *, now: datetime) -> None:
        """Raise LeaseLost if the lease expired or another process took it."""
        lease = self.get((held.name, held.shard))
        if lease is None or lease.epoch != held.epoch or lease.until <= now:
            raise LeaseLost(f"lease {held.name}/{held.shard} epoch {held.epoch} has passed")

    def held_until(self, name: str) -> datetime | None:
        """Return the latest end of the leases of this name; None: they were never taken."""
        return max((lease.until for (known, _), lease in self.items() if known == name), default=None)
