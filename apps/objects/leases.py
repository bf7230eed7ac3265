"""Leases: who may run a shard of a group. A row with a holder, an end and an epoch; never an open transaction."""

from __future__ import annotations

from datetime import datetime

from apps.objects.arrays import BinaryCursor
from controlplane.engine.state import Fence

_TAKE = """
    INSERT INTO objects_lease AS l (name, shard, holder, epoch, until)
    VALUES (%s, %s, %s, 1, clock_timestamp() + %s * interval '1 second')
    ON CONFLICT (name, shard) DO UPDATE SET
        holder = excluded.holder,
        until = excluded.until,
        epoch = CASE WHEN l.holder = excluded.holder AND l.until > clock_timestamp() THEN l.epoch ELSE l.epoch + 1 END
    WHERE l.holder = excluded.holder OR l.until <= clock_timestamp()
    RETURNING epoch"""
_DROP = """
    UPDATE objects_lease SET until = clock_timestamp()
    WHERE name = %s AND shard = %s AND epoch = %s AND holder = %s"""

_HELD = "SELECT max(until) FROM objects_lease WHERE name = %s"
_HELD_LATELY = "SELECT name, shard FROM objects_lease WHERE until > clock_timestamp() - %s * interval '1 second'"


def held_until(cursor: BinaryCursor, name: str) -> datetime | None:
    """Return up to when a lease of that name is held, or was held last; None: nobody ever took one."""
    row = cursor.run(_HELD, (name,)).fetchone()
    return None if row is None else row[0]


def held_lately(cursor: BinaryCursor, seconds: float) -> set[tuple[str, int]]:
    """Return the leases (name, shard) that are held, or were held within the last `seconds`."""
    return set(cursor.run(_HELD_LATELY, (seconds,)).fetchall())


def take(cursor: BinaryCursor, name: str, shard: int, *, holder: str, seconds: float) -> Fence | None:
    """Return a fence when the lease is free, expired or ours (then renewed); None while another holds it."""
    row = cursor.run(_TAKE, (name, shard, holder, seconds)).fetchone()
    return None if row is None else Fence(name, shard, row[0])


def drop(cursor: BinaryCursor, fence: Fence, *, holder: str) -> None:
    """End a lease of ours at once."""
    cursor.run(_DROP, (fence.name, fence.shard, fence.epoch, holder))
