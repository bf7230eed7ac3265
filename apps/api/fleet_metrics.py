"""Figures of the fleet at the metrics port of exactly one API process, so that a sum over all processes is true."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Final

from django.db import Error, close_old_connections, connection
from prometheus_client.registry import Collector

from apps.api.debug import FLEET
from apps.api.heartbeat_intake import SECONDS, own_holder
from apps.objects.refusal import cause
from controlplane.clusters.heartbeats import LISTENING

log = logging.getLogger(__name__)

# While PostgreSQL refuses writes, no lease can be renewed: then those count that ended last.
_FIRST: Final = f"""
    WITH leases AS (
        SELECT holder, shard, until, max(until) OVER () AS latest FROM objects_lease WHERE name = %s
    )
    SELECT holder FROM leases
    WHERE until > CASE WHEN latest > clock_timestamp() THEN clock_timestamp()
        ELSE latest - {SECONDS} * interval '1 second' END
    ORDER BY shard LIMIT 1"""


class FleetAtOneProcess(Collector):
    """Yields the metrics of the fleet if this process holds the first of the leases of API processes.

    The database decides which process that is. When it ends, the next one takes its place within seconds. It stays the
    same while the database can only be read, because the alerts about clusters and evictions need these figures then.
    """

    def describe(self) -> list[Any]:
        """Return nothing at registration, when the database may not be reachable yet."""
        return []

    def collect(self) -> Iterator[Any]:
        try:
            if _first_holder() == own_holder():
                yield from list(FLEET.collect())
        except Error as error:  # the metrics of this process are served all the same
            log.warning("the figures of the fleet cannot be read: %s", cause(error))
        finally:
            close_old_connections()


def _first_holder() -> str:
    with connection.cursor() as cursor:
        cursor.execute(_FIRST, [LISTENING])
        row = cursor.fetchone()
    return "" if row is None else str(row[0])
