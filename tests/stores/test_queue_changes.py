"""What a change of the eviction queue costs in PostgreSQL, under the write lock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from msgspec.structs import replace

from apps.objects.store import DjangoStore
from controlplane.engine.decision import Decision, Drop, Save
from controlplane.engine.state import Actor
from controlplane.kinds.rows import EVICTED
from tests.builders.objects import eviction

pytestmark = pytest.mark.django_db(transaction=True)

BY = Actor("test")


@contextmanager
def plans() -> Iterator[list[dict[str, Any]]]:
    """Collect the plans of all statements, those of functions included."""
    found: list[dict[str, Any]] = []
    with connection.cursor() as cursor:
        cursor.execute("LOAD 'auto_explain'")
        for name, value in {
            "auto_explain.log_min_duration": "0",
            "auto_explain.log_nested_statements": "on",
            "auto_explain.log_format": "json",
            "client_min_messages": "log",
        }.items():
            cursor.execute("SELECT set_config(%s, %s, false)", [name, value])
    raw: Any = connection.connection

    def collect(notice: Any) -> None:
        _, _, text = notice.message_primary.partition("plan:\n")
        if text:
            found.append(json.loads(text))

    raw.add_notice_handler(collect)
    try:
        yield found
    finally:
        connection.close()  # the settings are those of the session


def joins(plan: dict[str, Any]) -> Iterator[str]:
    """Yield the types of all joins of a plan."""
    if "Join Type" in plan:
        yield plan["Node Type"]
    for part in plan.get("Plans", ()):
        yield from joins(part)


def test_the_rows_of_an_update_of_the_queue_are_compared_by_key_and_not_each_with_each() -> None:
    """The trigger that logs changes of the queue took 100 ms for 1,000 rows, under the write lock."""
    store, due = DjangoStore(), datetime(2026, 1, 1, tzinfo=UTC)
    rows = [eviction(f"web{number}", due_at=due) for number in range(2)]
    store.apply([(None, Decision(changes=tuple(map(Save, rows))))], by=BY)

    with plans() as found:
        store.apply([(None, Decision(changes=tuple(Save(replace(row, state=EVICTED)) for row in rows)))], by=BY)

    compared = [one for one in found if "FROM removed o JOIN added n" in one["Query Text"]]
    assert compared
    assert [kind for one in compared for kind in joins(one["Plan"])] == ["Hash Join"] * len(compared)


def tallied() -> dict[tuple[str, str, str], int]:
    """Return the stored numbers of evictions by cluster, state and reason."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT cluster, state, reason, number FROM objects_tally WHERE counted = 'Eviction'")
        return {tuple(row[:3]): row[3] for row in cursor.fetchall()}


def counted() -> dict[tuple[str, str, str], int]:
    """Return the same, counted."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT cluster, CASE WHEN due_at IS NULL AND ended_at IS NULL THEN 'Stays' ELSE state END, reason,"
            " count(*) FROM failover_eviction GROUP BY 1, 2, 3"
        )
        return {tuple(row[:3]): row[3] for row in cursor.fetchall()}


def test_tallies_are_what_is_there_after_each_kind_of_change() -> None:
    store, due = DjangoStore(), datetime(2026, 1, 1, tzinfo=UTC)
    rows = [eviction(f"web{n}", f"member{n % 2}", due_at=due if n % 3 else None) for n in range(7)]
    evicted = [replace(row, state=EVICTED, reason="Recovering") for row in rows[:4]]
    steps: list[tuple[Save | Drop, ...]] = [
        tuple(map(Save, rows)),
        (*map(Save, evicted), Save(replace(rows[6], key="new|member0"))),
        tuple(map(Save, evicted)),
        (*map(Drop, rows[:2]), Save(rows[3])),
        tuple(map(Drop, [*rows, replace(rows[6], key="new|member0")])),
    ]
    seen = []
    for changes in steps:
        store.apply([(None, Decision(changes=changes))], by=BY)
        assert tallied() == counted()
        seen.append(sum(tallied().values()))

    assert seen == [7, 8, 8, 6, 0]
