"""Leases: the right of a process to run a shard of a group. A lease is a row with holder, end and epoch."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from apps.objects.arrays import BinaryCursor
from apps.objects.due import CHANNEL
from controlplane.engine.state import HeldLease

TOLERATED_SECONDS: Final = 60.0
"""A lease that ends so much later than one that is taken now shows that the clock was put back (`clock_put_back`). A
smaller step delays nothing by more than this."""

_TAKE = f"""
    WITH before AS (SELECT holder FROM objects_lease WHERE name = %s AND shard = %s)
    INSERT INTO objects_lease AS l (name, shard, holder, epoch, until)
    VALUES (%s, %s, %s, 1, clock_timestamp() + %s * interval '1 second')
    ON CONFLICT (name, shard) DO UPDATE SET
        holder = excluded.holder,
        until = excluded.until,
        epoch = CASE WHEN l.holder = excluded.holder AND l.until > clock_timestamp() THEN l.epoch ELSE l.epoch + 1 END
    WHERE l.until <= clock_timestamp()
        OR (l.holder = excluded.holder AND l.until <= excluded.until + {TOLERATED_SECONDS} * interval '1 second')
    RETURNING epoch, coalesce((SELECT holder = '' FROM before), false)"""
_DROP = """
    WITH dropped AS (
        UPDATE objects_lease SET until = clock_timestamp(), holder = ''
        WHERE name = %s AND shard = %s AND epoch = %s AND holder = %s
        RETURNING name, shard
    )
    SELECT pg_notify(%s, name || '/' || shard) FROM dropped"""

_HELD = "SELECT max(until) FROM objects_lease WHERE name = %s"
_HELD_LATELY = "SELECT name, shard FROM objects_lease WHERE until > clock_timestamp() - %s * interval '1 second'"


def held_until(cursor: BinaryCursor, name: str) -> datetime | None:
    """Return the time until which a lease of that name is, or was last, held; None: no process ever took one."""
    row = cursor.run(_HELD, (name,)).fetchone()
    return None if row is None else row[0]


def held_lately(cursor: BinaryCursor, seconds: float) -> set[tuple[str, int]]:
    """Return the leases (name, shard) that are held, or were held within the last `seconds`."""
    return set(cursor.run(_HELD_LATELY, (seconds,)).fetchall())


def take(cursor: BinaryCursor, name: str, shard: int, *, holder: str, seconds: float) -> HeldLease | None:
    """Take or renew a lease and return it. None: another process holds the lease, or the clock was put back."""
    row = cursor.run(_TAKE, (name, shard, name, shard, holder, seconds)).fetchone()
    return None if row is None else HeldLease(name, shard, row[0], returned=row[1])


def drop(cursor: BinaryCursor, lease: HeldLease, *, holder: str) -> None:
    """End a lease of this holder now, and notify who waits for it ("group/shard").

    The lease then has no holder. The holder of a lease that expired did not return it.
    """
    cursor.run(_DROP, (lease.name, lease.shard, lease.epoch, holder, CHANNEL))
