"""What the database or the login is configured with does not change how the product writes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import Ref
from tests.builders.bare import template
from tests.stores.grounds import controllers, create

pytestmark = pytest.mark.django_db(transaction=True)

WRITERS, EACH = 4, 10


@pytest.fixture
def configured(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the database have a default of its own for new sessions."""
    database = f'ALTER DATABASE "{connection.settings_dict["NAME"]}"'
    with connection.cursor() as cursor:
        cursor.execute(f"{database} SET {request.param}")
    connection.close_pool()  # type: ignore[attr-defined]  # sessions with the defaults of before
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"{database} RESET {request.param.split()[0]}")
    connection.close_pool()  # type: ignore[attr-defined]


@pytest.mark.parametrize("configured", ["default_transaction_isolation = 'repeatable read'"], indirect=True)
def test_writers_wait_for_each_other_whatever_isolation_the_database_has_by_default(configured: None) -> None:
    store = DjangoStore(controllers=controllers())

    def written(writer: int) -> None:
        try:
            for number in range(EACH):
                create(store, template(f"t{writer}-{number}"))
        finally:
            connection.close()

    with ThreadPoolExecutor(WRITERS) as executor:
        list(executor.map(written, range(WRITERS)))

    names = [f"t{writer}-{number}" for writer in range(WRITERS) for number in range(EACH)]
    assert len(store.get([Ref("ConfigMap", "shop", name) for name in names])) == WRITERS * EACH
