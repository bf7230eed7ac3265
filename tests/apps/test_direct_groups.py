"""Requests of the direct way that share a statement: what happens to one of them costs the others nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
from django.db import connection
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from apps.api import direct, direct_creations
from apps.api.direct_requests import send
from apps.objects.tables import object_table
from controlplane.kinds import CLUSTER
from tests.apps.direct_site import MAPS, ONE, Answer, Site, locked
from tests.builders.documents import config_map
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)

CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
MEMBER = f"{CLUSTERS}/m1"
CLUSTER_TABLE = f"LOCK TABLE {object_table(CLUSTER).name} IN ACCESS EXCLUSIVE MODE"  # roles are in another table
COUNTER = "SELECT 1 FROM objects_counter FOR UPDATE"
NO_HTTP = b"\0\r\n\r\n"  # ends a connection before what was asked on it earlier is answered
LAST = "Connection: close"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr("apps.api.direct_creations.PATIENCE_SECONDS", 60.0)
    made = Site()
    try:
        assert made.ask(MAPS, method="POST", body=config_map("one", a="1")).status == 201
        member = {"metadata": {"name": "m1"}, "spec": {"syncMode": "Push"}}
        assert made.ask(CLUSTERS, method="POST", body=member).status == 201
        made.directly(MEMBER)
        made.open()
        yield made
    finally:
        made.stop()


def _create(site: Site, name: str) -> Answer:
    return site.ask(MAPS, method="POST", body=config_map(name))


def _creation(site: Site, name: str, *headers: str) -> bytes:
    return site.raw("POST", MAPS, *headers, body=json.dumps(config_map(name)).encode())


def _reads_after(site: Site, odd: bytes) -> list[int]:
    """Return the statuses of four reads that share a statement with the first request of `odd`, and follow it."""
    reads = site.shell.direct
    with site.connect() as client, ThreadPoolExecutor(5) as pool:
        with locked(CLUSTER_TABLE):
            asked = [pool.submit(site.ask, MEMBER)]
            until(lambda: not reads._reads.is_free, within=5, every=0.01)
            client.sendall(odd)
            asked += _waiting(lambda: pool.submit(site.ask, MEMBER), reads._waiting)
        return [one.result(30).status for one in asked]


def _creations_after(site: Site, odd: bytes) -> list[int]:
    """Return the statuses of four creations that share a statement with the first one of `odd`, and follow it."""
    creations = site.shell.direct.creations
    with site.connect() as client, ThreadPoolExecutor(5) as pool:
        names = iter(f"other-{number}" for number in range(9))
        with locked(COUNTER):
            asked = [pool.submit(_create, site, next(names))]
            until(lambda: not creations._session.is_free, within=5, every=0.01)
            client.sendall(odd)
            asked += _waiting(lambda: pool.submit(_create, site, next(names)), creations._waiting)
        return [one.result(30).status for one in asked]


def _waiting(ask: Callable[[], Future[Answer]], waiting: Any) -> list[Future[Answer]]:
    """Ask four times when one request waits, and return when all of them wait."""
    assert until(lambda: len(waiting) == 1, within=5, every=0.01)
    asked = [ask() for _ in range(4)]
    assert until(lambda: len(waiting) == 5, within=5, every=0.01)
    return asked


def test_a_connection_that_ends_with_two_reads_on_it_costs_the_other_reads_nothing(site: Site) -> None:
    assert _reads_after(site, site.raw("GET", MEMBER) * 2 + NO_HTTP) == [200] * 5
    assert until(lambda: not site.shell.direct._counts, within=5)


def test_a_connection_that_ends_with_two_creations_on_it_costs_the_other_creations_nothing(site: Site) -> None:
    assert _creations_after(site, _creation(site, "odd-1") + _creation(site, "odd-2") + NO_HTTP) == [201] * 5
    assert until(lambda: not site.shell.direct.creations._counts, within=5)


def test_a_creation_that_cannot_be_stored_costs_the_other_creations_nothing(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    with refused_name("odd-5"):
        assert _creations_after(site, _creation(site, "odd-5")) == [201] * 5

    assert site.ask(f"{MAPS}/odd-5").status == 404
    assert "SQLSTATE P0001" in caplog.text


@contextmanager
def refused_name(name: str) -> Iterator[None]:
    """Let PostgreSQL refuse objects of one name, with an error of which the product knows nothing."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION refuse_name() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN IF NEW.name = TG_ARGV[0] THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$"
        )
        cursor.execute(
            "CREATE TRIGGER refuse_name BEFORE INSERT ON objects_object "
            f"FOR EACH ROW EXECUTE FUNCTION refuse_name('{name}')"
        )
        try:
            yield
        finally:
            cursor.execute("DROP FUNCTION refuse_name CASCADE")


def test_an_error_while_a_read_is_answered_costs_the_other_reads_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _fail_for(f"{MEMBER}/status", monkeypatch, direct)
    odd = site.raw("GET", f"{MEMBER}/status")

    assert _reads_after(site, odd) == [200] * 5
    assert not site.shell.direct._counts
    assert "could not be answered" in caplog.text
    site.directly(MEMBER)
    assert site.statuses(odd) == [], "the connection ends"


def test_an_error_when_a_creation_has_been_answered_costs_the_other_creations_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _fail_for(MAPS, monkeypatch, direct_creations)
    odd = site.raw("POST", f"{MAPS}?pretty=true", body=json.dumps(config_map("odd")).encode())

    assert _creations_after(site, odd) == [201] * 5
    assert not site.shell.direct.creations._counts
    assert caplog.text.count("could not be answered") == 1
    assert site.ask(f"{MAPS}/odd").status == 200


def _fail_for(path: str, patch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """Fail after an answer to a creation with a query, or before the answer to a read of a path."""

    def failing(cycle: RequestResponseCycle, *answer: Any) -> None:
        scope: Any = cycle.scope
        is_odd = scope["path"] == path and (scope["method"] == "GET" or scope["query_string"])
        if not is_odd or scope["method"] == "POST":
            send(cycle, *answer)
        if is_odd:
            raise RuntimeError("broken")

    patch.setattr(module, "send", failing)


def test_a_request_about_which_the_direct_way_fails_to_decide_goes_another_way_and_costs_the_others_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = site.shell.direct.take

    def failing(cycle: Any, go_on: Callable[[], None]) -> bool:
        if cycle.scope["query_string"]:
            raise RuntimeError("broken")
        return take(cycle, go_on)

    monkeypatch.setattr(site.shell.direct, "take", failing)
    broken = site.raw("GET", f"{ONE}?pretty=true", LAST)

    assert _reads_after(site, site.raw("GET", MEMBER) + broken) == [200] * 5
    assert _creations_after(site, _creation(site, "odd-3") + broken) == [201] * 5
    assert site.statuses(site.raw("GET", ONE) + broken) == [200, 200]
    assert site.statuses(_creation(site, "odd-4") + broken) == [201, 200]
