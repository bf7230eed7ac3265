"""What a task's time is stands beside it in its table; rows stored earlier get it from a migration."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from django.db import connection

from apps.objects.store import DjangoStore
from controlplane.kinds.binding import GracefulEvictionTask
from tests.builders.bare import binding
from tests.stores.grounds import create

pytestmark = pytest.mark.django_db(transaction=True)


def test_tasks_stored_before_get_their_time() -> None:
    tasks = (
        GracefulEvictionTask("member1", grace_period_seconds=120),
        GracefulEvictionTask("member2", suppress_deletion=True),
        GracefulEvictionTask("member3"),
    )
    create(DjangoStore(), binding("web", "member4").with_spec(graceful_eviction_tasks=tasks), binding("other"))
    before = times()
    assert before == {"member1": (120, None), "member2": (None, True), "member3": (None, None)}

    with connection.cursor() as cursor:
        cursor.execute("UPDATE failover_gracefulevictiontask SET grace_period_seconds = NULL, suppress_deletion = NULL")
        (operation,) = import_module("apps.failover.migrations.0007_time_of_stored_tasks").Migration.operations
        for statement, params in operation.sql:
            cursor.execute(statement, params)

    assert times() == before


def times() -> dict[str, Any]:
    with connection.cursor() as cursor:
        query = "SELECT from_cluster, grace_period_seconds, suppress_deletion FROM failover_gracefulevictiontask"
        cursor.execute(query)
        return {cluster: tuple(time) for cluster, *time in cursor.fetchall()}
