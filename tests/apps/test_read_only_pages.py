"""While the database is read-only, pages are shown, and an act says that it may have to be looked at and sent again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection
from django.test import Client

from apps.objects.store import store
from controlplane.kinds.drain import DRAIN
from tests.apps.guarded_acts import fleet
from tests.apps.pages import found, page_of
from tests.apps.test_console_queue import text
from tests.apps.test_sent_twice import HTML, form_at
from tests.apps.test_stale_forms import MEMBER6

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def read_only() -> Iterator[None]:
    """Let new connections to the database be read-only, as those to a standby are, and begin new ones."""
    name = connection.ops.quote_name(str(connection.settings_dict["NAME"]))
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    try:
        begin_again()
        yield
    finally:
        begin_again()
        with connection.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = off")
            cursor.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        begin_again()


def begin_again() -> None:
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]  # of PostgreSQL


def test_an_act_on_a_read_only_database_does_not_say_that_no_page_was_shown(root: Client) -> None:
    fleet(1)
    root.raise_request_exception = False  # the handler of Django makes the page
    path = "/clusters/member1/drain"
    sent, admin = form_at(root, path, {"rate": "1"}), page_of(found(MEMBER6), "delete")
    with read_only():
        shown = text(root, "/clusters/member1")
        answers = (
            root.post(path, sent, HTTP_ACCEPT=HTML),
            root.post(admin, {"reason": "r", "concerned": "0", "typed": "member6"}, HTTP_ACCEPT=HTML),
        )
    pages = [answer.content.decode() for answer in answers]

    assert "member1" in shown
    assert [answer.status_code for answer in answers] == [503, 503]
    assert all("PostgreSQL is read-only" in one and "reloading this page sends it again" in one for one in pages)
    assert not any("No page of this address was shown" in one for one in pages)
    assert not store().list(DRAIN)
    assert root.post(path, sent, HTTP_ACCEPT=HTML).status_code == 303
    assert len(store().list(DRAIN)) == 1
