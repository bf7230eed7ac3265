"""Migrations that count rows: what a server writes meanwhile is counted by them or by their triggers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from threading import Thread
from typing import Any

import pytest
from django.db import connection, transaction

from apps.objects.models import Tally
from apps.objects.store import DjangoStore
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.binding import GracefulEvictionTask
from tests.builders.bare import binding
from tests.stores.grounds import create

pytestmark = pytest.mark.django_db(transaction=True)

MEANWHILE = 0.3  # seconds that a writer gets between two statements; one that waits for a lock goes on afterwards

tallied = import_module("apps.objects.migrations.0015_tallies").tallied


def run(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def made_while(statements: list[str], write: Callable[[int], None]) -> None:
    """Run the statements of a migration in a transaction. After each of them a server begins to write."""
    writers: list[Thread] = []

    def written(number: int) -> None:
        try:
            write(number)
        finally:
            connection.close()

    with transaction.atomic():
        for number, statement in enumerate(statements):
            run(statement)
            writers.append(Thread(target=written, args=(number,)))
            writers[-1].start()
            writers[-1].join(MEANWHILE)
    for writer in writers:
        writer.join()


@pytest.fixture
def table() -> Iterator[str]:
    run("CREATE TABLE counted_rows (cluster text)", "INSERT INTO counted_rows VALUES ('member1'), ('member2')")
    yield "counted_rows"
    run("DROP TABLE counted_rows")


def test_rows_that_are_written_while_they_are_counted_are_counted_once(table: str) -> None:
    operation = tallied(table, "Rows", cluster="cluster")

    made_while(operation.sql, lambda number: run(f"INSERT INTO {table} VALUES ('member1')"))

    counted = dict(Tally.objects.filter(counted="Rows").values_list("cluster", "number"))
    assert counted == {"member1": 1 + len(operation.sql), "member2": 1}
    run(*operation.reverse_sql)


def test_bindings_that_are_made_while_they_are_counted_are_counted_once() -> None:
    store = DjangoStore()
    operations = import_module("apps.resources.migrations.0009_bindings_by_namespace").Migration.operations
    create(store, binding("first"))
    run(*(statement for one in reversed(operations) for statement in listed(one.reverse_sql)))
    statements = [statement for one in operations for statement in listed(one.sql)]

    made_while(statements, lambda number: create(DjangoStore(), binding(f"web-{number}")) and None)

    (count,) = Tally.objects.filter(counted="Binding", state=RESOURCE_BINDING).values_list("number", flat=True)
    assert count == 1 + len(statements)


def test_tasks_that_were_counted_without_their_reasons_are_counted_again_with_them() -> None:
    (operation,) = import_module("apps.failover.migrations.0023_tasks_by_reason").Migration.operations
    tasks = {name: GracefulEvictionTask("member1", reason=name) for name in ("Drain", "TaintUntolerated")}

    def numbers() -> dict[str, int]:
        found = Tally.objects.filter(counted="GracefulEvictionTask").values_list("reason", "number")
        return dict(found)

    for reason, task in tasks.items():
        create(DjangoStore(), binding(reason.lower()).with_spec(graceful_eviction_tasks=(task,)))
    with transaction.atomic():
        run(*listed(operation.reverse_sql))
    assert numbers() == {"": 2}
    create(DjangoStore(), binding("later").with_spec(graceful_eviction_tasks=(tasks["Drain"],)))
    assert numbers() == {"": 3}

    with transaction.atomic():
        run(*listed(operation.sql))
    create(DjangoStore(), binding("latest").with_spec(graceful_eviction_tasks=(tasks["Drain"],)))

    assert numbers() == {"Drain": 3, "TaintUntolerated": 1}


def listed(sql: Any) -> list[str]:
    return [sql] if isinstance(sql, str) else list(sql)
