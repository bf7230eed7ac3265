"""What django-prometheus counts of the database: sessions that are opened, and statements of every cursor."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError, connection, connections
from prometheus_client import REGISTRY

from apps.objects.store import DjangoStore
from tests.api.test_query_counts import counted
from tests.builders.bare import template
from tests.stores.grounds import create

pytestmark = pytest.mark.django_db(transaction=True)


def number(name: str) -> float:
    return REGISTRY.get_sample_value(name, {"alias": "default", "vendor": "postgresql"}) or 0.0


def test_a_connection_is_counted_when_the_pool_opens_it_and_not_when_a_request_takes_it() -> None:
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]
    before, largest = number("django_db_new_connections_total"), connection.settings_dict["OPTIONS"]["pool"]["max_size"]

    for _ in range(4 * largest):
        get_user_model().objects.count()
        connection.close()  # back to the pool

    assert before < number("django_db_new_connections_total") <= before + largest


def test_statements_of_the_orm_and_of_the_store_are_counted() -> None:
    store = DjangoStore(controllers=())
    create(store, template("first"))
    get_user_model().objects.count()
    before = number("django_db_execute_total")

    get_user_model().objects.count()
    assert number("django_db_execute_total") == before + 1

    with counted() as statements:
        store.list("ConfigMap")
    assert number("django_db_execute_total") == before + 1 + len(statements)


def test_all_requests_count_with_the_same_class_of_cursors() -> None:
    classes = {connection.get_connection_params()["cursor_factory"] for _ in range(3)}

    assert len(classes) == 1


def test_a_session_that_cannot_be_opened_is_counted() -> None:
    lost = connections.create_connection("default")
    lost.settings_dict = {**connection.settings_dict, "OPTIONS": {}, "HOST": "127.0.0.1", "PORT": "1"}
    before = number("django_db_new_connection_errors_total")

    with pytest.raises(OperationalError):
        lost.ensure_connection()

    assert number("django_db_new_connection_errors_total") == before + 1
