"""Bindings that a closed cluster concerns are looked up by an index that rows stored earlier get from a migration."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.db import connection, transaction

from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import Condition
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.binding import Binding, ResourceBindingStatus
from controlplane.kinds.policy import Placement, SpreadConstraint
from tests.builders.objects import bound
from tests.builders.placements import placement
from tests.builders.scheduling import spec
from tests.stores.grounds import create

pytestmark = pytest.mark.django_db(transaction=True)

WAITS = ResourceBindingStatus(conditions=(Condition("Scheduled", "False"),))


def test_rows_stored_before_are_entered_and_leave_again() -> None:
    store = DjangoStore()
    (operation,) = import_module("apps.resources.migrations.0011_closed_clusters").Migration.operations
    create(
        store,
        binding("placed", placement("near")),
        binding("by-cluster", Placement(spread_constraints=(SpreadConstraint("cluster", max_groups=1),))),
        binding("waits", placement("near", "far"), status=WAITS),
        binding("by-region", Placement(spread_constraints=(SpreadConstraint("region", max_groups=1),))),
        binding("by-label", Placement(spread_constraints=(SpreadConstraint(spread_by_label="tier"),))),
    )
    before = keys()
    assert {name: ["closed=" in key for key in found].count(True) for name, found in before.items()} == {
        **dict.fromkeys(("placed", "by-cluster"), 0),
        **{"waits": 2, "by-region": 1, "by-label": 1},
    }

    run(operation.reverse_sql)
    assert keys() == {name: [key for key in found if "closed=" not in key] for name, found in before.items()}
    run(operation.sql)

    assert {name: sorted(found) for name, found in keys().items()} == {
        name: sorted(found) for name, found in before.items()
    }


def binding(name: str, where: Placement, *, status: ResourceBindingStatus | None = None) -> Binding:
    return bound(spec(where), name=name, namespace="shop", status=status or ResourceBindingStatus())


def run(statements: list[str]) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def keys() -> dict[str, list[str]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, keys FROM resources_binding WHERE kind = %s", [RESOURCE_BINDING])
        return dict(cursor.fetchall())
