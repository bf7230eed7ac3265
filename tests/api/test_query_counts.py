"""How many statements a request costs, counted on the wire to PostgreSQL; the number of objects does not matter."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from psycopg.pq import Trace

from apps.api import tokens
from apps.api.models import Token
from apps.api.query import Continue
from apps.objects.admission_rules import admission_rules
from apps.objects.configuration import configuration
from apps.objects.namespaces import make_namespaces
from apps.objects.store import store
from tests.apps.pages import stored
from tests.apps.statements import rows_received
from tests.apps.test_records import evicted, tainted
from tests.builders.bare import binding, cluster
from tests.builders.documents import TABLE, config_map, config_maps

pytestmark = pytest.mark.django_db(transaction=True)

MAPS = config_maps("default")
FAILOVERS = "/apis/failover.lifeboat.io/v1alpha1/failoverrecords"
TOKEN = 1  # the token with its user
FRESH = "apps.objects.refreshed.FRESH_SECONDS"
# Each at most twice a second: whether something was written; then settings in force, a restore, kinds and rules of
# users; rules to admit. Roles are not read for a superuser.
SETTINGS = 3


@contextmanager
def counted() -> Iterator[list[str]]:
    """Collect the statements that go out on this thread's connection."""
    connection.ensure_connection()
    raw: Any = connection.connection
    found: list[str] = []
    with tempfile.TemporaryFile("w+") as file:
        raw.pgconn.trace(file.fileno())
        raw.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        yield found
        raw.pgconn.untrace()
        file.seek(0)
        found += [
            line for line in file if line.split("\t")[:1] == ["F"] and line.split("\t")[2] in ("Query", "Execute")
        ]


@pytest.fixture
def ask(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Send a request and return what it cost while this process knows its settings.

    That a token was used is written once a minute: where the minute turns, that statement is not the request's.
    """
    user = get_user_model().objects.create_superuser("counter")
    make_namespaces(store())
    token = tokens.create(user, "count")
    client = Client(headers={"authorization": f"Bearer {token}"})
    configuration().settings()
    admission_rules().refresh(at_once=True)
    monkeypatch.setattr(FRESH, math.inf)

    def last_used() -> Any:
        return Token.objects.get(digest=tokens.digest_of(token)).last_used

    def send(method: str, path: str, body: Any = None, *, code: int = 200, **more: str) -> int:
        raw = b"" if body is None else json.dumps(body).encode()
        before = last_used()
        with counted() as statements:
            response = client.generic(method, path, raw, content_type="application/json", headers=more or None)
        assert response.status_code == code, response.content
        return len(statements) - (last_used() != before)

    return send


@pytest.mark.parametrize("number", [1, 60])
def test_reading_costs_the_token_and_one_statement(ask: Callable[..., int], number: int) -> None:
    for index in range(number):
        ask("POST", MAPS, config_map(f"m{index:03}"), code=201)

    assert ask("GET", "/api") == TOKEN
    assert ask("GET", f"{MAPS}/m000") == TOKEN + 1
    assert ask("GET", MAPS) == TOKEN + 1
    assert ask("GET", f"{MAPS}?limit=500&labelSelector=a=b") == TOKEN + 1
    assert ask("GET", MAPS, accept=TABLE) == TOKEN + 1


def test_a_further_page_costs_three_statements(ask: Callable[..., int]) -> None:
    """Whether the version is one of ours, the page, whether the log reaches back so far. A count that is not known is a
    fourth."""
    for index in range(3):
        ask("POST", MAPS, config_map(f"m{index}"), code=201)
    token = Continue(store().current_version(), "default", "m0").token()

    known = Continue(store().current_version(), "default", "m0", 2).token()

    assert ask("GET", f"{MAPS}?limit=1&continue={known}") == TOKEN + 3
    assert ask("GET", f"{MAPS}?limit=1&continue={token}") == TOKEN + 4


@pytest.mark.parametrize(
    "selected", ["labelSelector=of=few", "labelSelector=of!%3Dmany", "fieldSelector=metadata.name%3Dz1"]
)
def test_a_further_page_of_a_selection_reads_what_it_shows(
    ask: Callable[..., int], monkeypatch: pytest.MonkeyPatch, selected: str
) -> None:
    """It read all objects behind the page before, and decoded them."""
    for index in range(40):
        ask("POST", MAPS, config_map(f"m{index:02}", labels={"of": "many"}), code=201)
    for index in range(3):
        ask("POST", MAPS, config_map(f"z{index}", labels={"of": "few"}), code=201)
    token = Continue(store().current_version(), "default", "m0").token()
    rows = rows_received(monkeypatch)

    assert ask("GET", f"{MAPS}?limit=1&{selected}&continue={token}") == TOKEN + 3
    assert max(rows) <= 2, rows  # the object that is shown, and whether another follows


def test_writing_costs_a_constant_number(ask: Callable[..., int]) -> None:
    ask("POST", MAPS, config_map("warm"), code=201)

    create = ask("POST", MAPS, config_map("one"), code=201)
    patch = ask("PATCH", f"{MAPS}/one", {"data": {"a": "1"}}, code=415)
    update = ask("PUT", f"{MAPS}/one", config_map("one", a="1"))
    delete = ask("DELETE", f"{MAPS}/one")

    assert patch == TOKEN  # refused for its content type before anything is looked for
    # A creation: namespace with the time, then one statement that is its own transaction. An update: object with the
    # time; then begin, plans, lock, moved, write, audit event, notify, commit, and the time of the commit, for the
    # metric of the write lock.
    # A deletion also reads the binding of the object, whose copies it removes.
    assert (create, update, delete) == (TOKEN + 2, TOKEN + 10, TOKEN + 14)


def test_settings_are_looked_at_once_and_not_with_every_request(
    ask: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = ask("POST", MAPS, config_map("one"), code=201)
    monkeypatch.setattr(FRESH, 0.0)

    assert ask("POST", MAPS, config_map("two"), code=201) == known + SETTINGS


def test_a_collection_goes_in_one_transaction(ask: Callable[..., int]) -> None:
    costs = []
    for number in (2, 50):
        for index in range(number):
            ask("POST", MAPS, config_map(f"m{index}"), code=201)
        costs.append(ask("DELETE", MAPS))

    assert costs[0] == costs[1]


@pytest.mark.parametrize("number", [1, 40])
def test_records_of_failovers_cost_as_many_statements_as_one_record(ask: Callable[..., int], number: int) -> None:
    """What failed over, what became of it, of its copies and of the clusters it left; the version."""
    tainted(stored(cluster("member1"))[0].ref)
    for place in [made.ref for made in stored(*(binding(f"o{index:03}", "member1") for index in range(number)))]:
        evicted(place)

    assert ask("GET", FAILOVERS) == TOKEN + 6
    assert ask("GET", f"{FAILOVERS}?limit=500", accept=TABLE) == TOKEN + 6
    token = Continue(store().current_version(), "default", f"{binding('o000', 'member1').metadata.name}.1").token()
    assert ask("GET", f"{FAILOVERS}?limit=500&continue={token}") == TOKEN + 5
    maps = Continue(store().current_version(), "default", "m").token()
    assert ask("GET", f"{FAILOVERS}?limit=500&continue={maps}", code=400) == TOKEN
