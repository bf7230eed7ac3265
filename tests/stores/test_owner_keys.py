"""What objects own is looked up by an index that rows stored earlier get from a migration."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.db import connection

from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import OwnerReference
from tests.builders.bare import template
from tests.stores.grounds import create

pytestmark = pytest.mark.django_db(transaction=True)


def test_rows_stored_before_get_their_owners_and_lose_them_again() -> None:
    store = DjangoStore()
    (operation,) = import_module("apps.objects.migrations.0007_owner_keys").Migration.operations
    references = (
        OwnerReference("v1", "ConfigMap", "top", "uid-top"),
        OwnerReference("apps/v1", "Deployment", "web", "uid-web"),
    )
    owners = ["ConfigMap:default/top", "ConfigMap:top", "apps/Deployment:default/web", "apps/Deployment:web"]
    owned = template("owned", namespace="default").with_meta(owner_references=references)
    create(store, owned, template("other", uid="uid-other"))
    before = keys()

    run(operation.reverse_sql)
    assert keys() == {"other": before["other"], "owned": []}
    assert store.owned(owners, limit=10) == {}
    run(operation.sql)

    assert {name: sorted(found) for name, found in keys().items()} == {
        name: sorted(found) for name, found in before.items()
    }
    assert sorted(store.owned(owners, limit=10)) == sorted(owners)


def run(statements: list[tuple[str, list[str]]]) -> None:
    with connection.cursor() as cursor:
        for statement, params in statements:
            cursor.execute(statement, params)


def keys() -> dict[str, list[str]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, keys FROM objects_object WHERE kind = 'ConfigMap'")
        return dict(cursor.fetchall())
