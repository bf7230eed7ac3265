"""The stored readiness of bindings, for pages and the API. The number of queries does not depend on the bindings."""

from __future__ import annotations

from apps.objects import due, tallies
from apps.objects.apply import binary_cursor
from apps.objects.arrays import texts
from apps.objects.store import DjangoStore
from apps.objects.tables import row_table
from controlplane.controllers.readiness import ROUND, Readiness
from controlplane.insight.fleet_answer import MAX_EXAMPLES, AnswerTally, StoredAnswers
from controlplane.kinds import BINDINGS
from controlplane.kinds.rows import BindingReadiness, Eviction, ReadinessRound


def stored_answers(store: DjangoStore) -> StoredAnswers:
    """Return what is stored about the readiness of all bindings. Six queries."""
    rounds = store.rows(ReadinessRound, "key", [ROUND]).get(ROUND, ())
    return StoredAnswers(
        tallies=_tallies(),
        round=next(iter(rounds), ReadinessRound(ROUND)),
        in_all=tallies.bindings(),
        due=_number(
            f"SELECT coalesce(sum({due.OBJECTS}), 0) FROM objects_due WHERE lower(controller) = %s AND kind = ANY(%s)",
            _DUE,
        ),
        waiting=_number(
            f"""SELECT count(DISTINCT binding) FROM {row_table(Eviction).name}
            WHERE due_at IS NOT NULL AND ended_at IS NULL AND reason <> ''"""
        ),
    )


_DUE = (Readiness.name, texts([*BINDINGS, due.BUNDLE]))


def _tallies() -> tuple[AnswerTally, ...]:
    """Return the number of bindings by verdict and obstacles, with some of the bindings. Triggers keep the counts."""
    table = row_table(BindingReadiness)
    query = f"""
        SELECT t.number, e.* FROM objects_tally t CROSS JOIN LATERAL (
            SELECT {table.columns} FROM {table.name} r WHERE r.verdict = t.state AND r.named = t.reason
            ORDER BY r.key LIMIT %s
        ) e WHERE t.counted = %s ORDER BY e.key"""
    found: dict[tuple[str, str], tuple[int, list[BindingReadiness]]] = {}
    with binary_cursor() as cursor:
        for bindings, *record in cursor.run(query, (MAX_EXAMPLES, BindingReadiness.__name__)):
            row = table.read(record)
            found.setdefault((row.verdict, row.named), (bindings, []))[1].append(row)
    return tuple(AnswerTally(*key, bindings, tuple(rows)) for key, (bindings, rows) in found.items())


def _number(query: str, params: tuple[object, ...] = ()) -> int:
    with binary_cursor() as cursor:
        row = cursor.run(query, params).fetchone()
    return 0 if row is None else int(row[0])
