"""Services are found by their node ports; rows stored earlier enter by a migration [node-ports]."""

from __future__ import annotations

from importlib import import_module

import pytest

from apps.objects.store import DjangoStore
from tests.core.test_node_ports import service
from tests.stores.grounds import create
from tests.stores.test_supporting_objects import keys, run

pytestmark = pytest.mark.django_db(transaction=True)


def test_services_stored_before_are_found_and_are_not_found_any_more_when_it_is_undone() -> None:
    store = DjangoStore()
    (operation,) = import_module("apps.objects.migrations.0017_node_ports").Migration.operations
    create(store, service("a", 30001, 30002), service("b", 0))
    before = keys()

    run(operation.reverse_sql)
    assert store.by_index("Service", "nodePort", ["30001"]) == {}
    run(operation.sql)

    assert {name: sorted(found) for name, found in keys().items()} == {
        name: sorted(found) for name, found in before.items()
    }
    assert [item.metadata.name for item in store.by_index("Service", "nodePort", ["30001"])["30001"]] == ["a"]
