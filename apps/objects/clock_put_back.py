"""The clock of PostgreSQL is put back, for example when its host starts again with another time.

All stored times are then in the future: nothing would be due, and leases of processes that have ended would be valid,
until the clock is again where it was. That shows in a lease, which ends later than a lease that is taken now. What is
due, claims and leases are then moved back, once and in one transaction.
"""

from __future__ import annotations

import logging
from typing import Final

from django.db import transaction

from apps.objects import due
from apps.objects.apply import binary_cursor
from apps.objects.arrays import BinaryCursor
from apps.objects.leases import TOLERATED_SECONDS

logger = logging.getLogger(__name__)

_AHEAD: Final = """
    SELECT extract(epoch FROM until - clock_timestamp())::float8 - CASE holder WHEN '' THEN 0 ELSE %s END
    FROM objects_lease WHERE name = %s AND shard = %s"""
_MOVE_DUE: Final = """
    UPDATE objects_due SET due_at = due_at - %s * interval '1 second' WHERE due_at > clock_timestamp()"""
# A claim, or a lease, that ends sooner may have been made since: its process works with it.
_MOVE_CLAIMS: Final = """
    UPDATE objects_due SET lease_until = lease_until - %s * interval '1 second'
    WHERE lease_until > clock_timestamp() + %s * interval '1 second'"""
_MOVE_LEASES: Final = """
    UPDATE objects_lease SET until = until - %s * interval '1 second'
    WHERE until > clock_timestamp() + %s * interval '1 second'"""


def settle(name: str, shard: int, *, seconds: float) -> bool:
    """Move what is due, claims and leases back if a lease shows that the clock was put back; return whether it was.

    `seconds`: how long a lease of this name is valid.
    """
    with binary_cursor() as cursor:
        if _ahead(cursor, name, shard, seconds=seconds) <= TOLERATED_SECONDS:
            return False
    with transaction.atomic(durable=True), binary_cursor() as cursor:
        cursor.run(due.WRITE_LOCK)
        ahead = _ahead(cursor, name, shard, seconds=seconds)  # another process may have moved it meanwhile
        if ahead > TOLERATED_SECONDS:
            cursor.run(_MOVE_DUE, (ahead,))
            cursor.run(_MOVE_CLAIMS, (ahead, TOLERATED_SECONDS))
            cursor.run(_MOVE_LEASES, (ahead, TOLERATED_SECONDS))
            logger.error(
                "the clock of PostgreSQL was put back by about %.0f s; what is due, claims and leases were moved back "
                "as well",
                ahead,
            )
    return True


def _ahead(cursor: BinaryCursor, name: str, shard: int, *, seconds: float) -> float:
    """Return by how many seconds a lease ends later than one that is taken now, or was returned later than now.

    0: no process ever took it.
    """
    row = cursor.run(_AHEAD, (seconds, name, shard)).fetchone()
    return 0.0 if row is None else float(row[0])
