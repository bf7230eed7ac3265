"""Migrations that change rows: a server that changes them in another order meanwhile ends neither itself nor them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from threading import Event, Thread
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.db.migrations import RunSQL

from apps.objects.due import WRITE_LOCK
from apps.objects.store import DjangoStore
from controlplane.kinds.binding import GracefulEvictionTask
from tests.builders.bare import binding
from tests.builders.templates import config_map
from tests.stores.grounds import create

pytestmark = pytest.mark.django_db(transaction=True)

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A migration, and two rows that it changes: objects of a kind with a document, or those of `table`."""

    migration: str
    kind: str = ""
    doc: Document = field(default_factory=dict)
    table: str = "objects_object"
    changed: str = "keys <> '{}'"  # what is true of the rows afterwards
    named: str = "name"  # the column that ends with the name of a row

    def __str__(self) -> str:
        return self.migration


_POD = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}
_ACCOUNT = {"kubernetes.io/service-account.name": "robot"}
CASES = (
    Case(
        "objects.0007_owner_keys",
        "ConfigMap",
        {"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]}},
    ),
    Case("objects.0009_companions", "apps/Deployment", {"spec": {"template": _POD}}),
    Case("objects.0017_node_ports", "Service", {"spec": {"ports": [{"nodePort": 30000}]}}),
    Case(
        "objects.0019_scale_targets",
        "autoscaling/HorizontalPodAutoscaler",
        {"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}},
    ),
    Case(
        "resources.0007_issued_tokens",
        "Secret",
        {"type": "kubernetes.io/service-account-token", "metadata": {"annotations": _ACCOUNT}},
    ),
    Case("resources.0011_closed_clusters", table="resources_binding", changed="keys @> ARRAY['closed=*']"),
    Case(
        "failover.0007_time_of_stored_tasks",
        table="failover_gracefulevictiontask",
        changed="grace_period_seconds = 20",
        named="binding",
    ),
    Case("scheduling.0010_capacity_reservations", table="objects_due", changed="controller = 'reservations'"),
)


def run(*statements: Any) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            text, params = statement if isinstance(statement, tuple) else (statement, None)
            cursor.execute(text, params)


def operations(case: Case) -> list[RunSQL]:
    app, name = case.migration.split(".")
    found = import_module(f"apps.{app}.migrations.{name}").Migration.operations
    return [one for one in found if isinstance(one, RunSQL)]


def statements(case: Case) -> list[Any]:
    """Return the statements of a migration that is only SQL, or those beside its changes of models."""
    texts = [[one.sql] if isinstance(one.sql, str) else list(one.sql) for one in operations(case)]
    return [text for listed in texts for text in listed if "ALTER SEQUENCE" not in str(text)]


def write(case: Case) -> list[str]:
    """Store two rows as they were before the migration. Return the conditions that find each of them."""
    stored = DjangoStore()
    if case.kind:
        create(stored, config_map("first"), config_map("second"))
        doc = json.dumps(case.doc, separators=(",", ":"))
        with connection.cursor() as cursor:
            cursor.execute("UPDATE objects_object SET keys = '{}', kind = %s, doc = %s", [case.kind, doc])
    elif case.table == "objects_due":
        create(stored, config_map())  # so that there is a version, and with it the row of the write lock
        run(
            "DELETE FROM objects_due",
            "INSERT INTO objects_due (controller, kind, namespace, name, seq, due_at, cursor, hash)"
            " SELECT 'reservations', '', '', name, 1, now(), '', 0 FROM unnest(ARRAY['first', 'second']) name",
            *operations(case)[-1].reverse_sql,
        )
    else:
        task = GracefulEvictionTask("member1", grace_period_seconds=20)
        create(stored, *(binding(name).with_spec(graceful_eviction_tasks=(task,)) for name in ("first", "second")))
        run(
            "UPDATE resources_binding SET keys = ARRAY['affine=*', 'pending=*']",
            "UPDATE failover_gracefulevictiontask SET grace_period_seconds = NULL",
        )
    return [f"{case.named} LIKE '%{name}'" for name in ("first", "second")]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_migration_that_changes_rows_ends_in_no_deadlock_with_what_is_written_meanwhile(case: Case) -> None:
    """Before, PostgreSQL ended one of the two, and often the migration."""
    first, second = write(case)
    holds, failed = Event(), list[Exception]()

    def change(where: str) -> str:
        return f"UPDATE {case.table} SET {case.named} = {case.named} WHERE {where}"

    def serve() -> None:
        try:
            with transaction.atomic():
                run(WRITE_LOCK, change(second))
                holds.set()
                while not waits():
                    pass
                run(change(first))
        except OperationalError as error:
            failed.append(error)
        finally:
            connection.close()

    writer = Thread(target=serve)
    writer.start()
    holds.wait()
    try:
        with transaction.atomic():
            run(*statements(case))
    finally:
        writer.join()

    assert failed == []
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {case.changed} FROM {case.table}")
        assert cursor.fetchall() == [(True,), (True,)]


@pytest.mark.parametrize("case", [case for case in CASES if case.table != "objects_due"], ids=str)
def test_a_nul_in_a_document_ends_no_migration(case: Case) -> None:
    """PostgreSQL refuses it in a value of JSON, and `manage.py prepare` ended at the first object that has one."""
    write(case)
    table = "objects_object" if case.kind else "resources_binding"
    run((f"UPDATE {table} SET doc = replace(doc, '{{\"', '{{\"note\":\"\\u0000\",\"') WHERE name = 'second'", []))

    with transaction.atomic():
        run(*statements(case))

    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {case.changed} FROM {case.table}")
        assert cursor.fetchall() == [(True,), (True,)]


def waits() -> bool:
    """Test whether another session of this database waits for a lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return cursor.fetchone()[0] > 0
