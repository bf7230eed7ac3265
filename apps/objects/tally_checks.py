"""Compares tallies with the rows that they count, and counts these rows again [tallies.py].

Triggers keep the numbers. They are wrong for good if rows were changed while no trigger saw it: by an upgrade that
counted before it closed the table, by TRUNCATE, or by a restore without triggers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from django.db import connection

from apps.objects.tallies import ANSWERS, BINDINGS, OF_CLUSTER, OF_NAMESPACE
from controlplane.insight.situation import EVICTIONS, TARGETS, TASKS

TABLE: Final = "objects_tally"


class _Counted(NamedTuple):
    """The rows that are counted: their table, and SQL for what they are counted by, as migrations give it."""

    table: str
    cluster: str = "''"
    state: str = "''"
    reason: str = "''"

    @property
    def query(self) -> str:
        """The query for what a tally has to contain: cluster, state, reason, number."""
        return f"SELECT {self.cluster}, {self.state}, {self.reason}, count(*) FROM {self.table} GROUP BY 1, 2, 3"


_STAYS: Final = "CASE WHEN due_at IS NULL AND ended_at IS NULL THEN 'Stays' ELSE state END"
_READINESS: Final = "failover_bindingreadiness"
COUNTED: Final[Mapping[str, _Counted]] = {
    BINDINGS: _Counted("resources_binding", state="kind", reason="namespace"),
    TARGETS: _Counted("resources_targetcluster", "cluster"),
    EVICTIONS: _Counted("failover_eviction", "cluster", _STAYS, "reason"),
    TASKS: _Counted("failover_gracefulevictiontask", "from_cluster", "purge_mode"),
    ANSWERS: _Counted(_READINESS, state="verdict", reason="named"),
    OF_CLUSTER: _Counted(_READINESS, "jsonb_array_elements_text(clusters)", "verdict", "named"),
    OF_NAMESPACE: _Counted(_READINESS, state="namespace", reason="verdict || ',' || named"),
}


class Miscount(NamedTuple):
    """A tally that is not the number of its rows. `place`: its cluster, state and reason."""

    counted: str
    place: tuple[str, str, str]
    stored: int
    real: int


def miscounts() -> Iterator[Miscount]:
    """Yield the tallies that are wrong. Call this in a transaction that sees one state of the database."""
    for name, counted in COUNTED.items():
        query = f"SELECT cluster, state, reason, number FROM {TABLE} WHERE counted = %s"
        stored, real = _numbers(query, [name]), _numbers(counted.query)
        for place in sorted(stored.keys() | real.keys()):
            if stored.get(place, 0) != real.get(place, 0):
                yield Miscount(name, place, stored.get(place, 0), real.get(place, 0))


def count_again(names: Collection[str]) -> None:
    """Count the rows of some tallies again. The caller holds the write lock, so that no row changes meanwhile."""
    with connection.cursor() as cursor:
        for name in sorted(names):
            cursor.execute(f"DELETE FROM {TABLE} WHERE counted = %s", [name])
            cursor.execute(
                f"INSERT INTO {TABLE} (counted, cluster, state, reason, number) "
                f"SELECT %s, rows.* FROM ({COUNTED[name].query}) AS rows",
                [name],
            )


def _numbers(query: str, parameters: Collection[str] = ()) -> dict[tuple[str, str, str], int]:
    with connection.cursor() as cursor:
        cursor.execute(query, list(parameters))
        return {(cluster, state, reason): number for cluster, state, reason, number in cursor.fetchall() if number}
