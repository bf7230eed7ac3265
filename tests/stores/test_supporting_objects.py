"""What runs pods is found by their labels and by what they name; rows stored earlier enter by a migration."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.db import connection

from apps.objects.store import DjangoStore
from tests.core.test_supporting_objects import ALL, RUNNING, WEB, ingress
from tests.stores.grounds import create

pytestmark = pytest.mark.django_db(transaction=True)
KEYS = "SELECT kind || ':' || name, keys FROM objects_object WHERE kind <> 'Event'"


def test_rows_stored_before_are_found_and_are_not_found_any_more_when_it_is_undone() -> None:
    store = DjangoStore()
    (operation,) = import_module("apps.objects.migrations.0009_companions").Migration.operations
    create(store, *RUNNING, ingress("plain").with_content({"spec": {}}))
    before = keys()

    run(operation.reverse_sql)
    assert not any("companions=" in key for found in keys().values() for key in found)
    assert store.by_index(WEB.ref.kind, "companions", ["Secret/default/keys"]) == {}
    run(operation.sql)

    assert keys() == before
    found = [
        one.metadata.name
        for kind in ("Pod", "apps/Deployment", "batch/CronJob")
        for one in store.by_index(kind, "companions", ["Secret/default/keys"])["Secret/default/keys"]
    ]
    assert sorted(found) == ALL


def run(statements: list[tuple[str, None]]) -> None:
    with connection.cursor() as cursor:
        for statement, _ in statements:
            cursor.execute(statement)


def keys() -> dict[str, list[str]]:
    with connection.cursor() as cursor:
        cursor.execute(KEYS)
        return {name: sorted(found) for name, found in cursor.fetchall()}
