"""Odd headers and queries are answered alike on the direct, lean and full way, and an error is always a Status."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from apps.api import lean, watch_hub
from apps.api.feeding import Feeding
from apps.objects.models import AuditEvent
from tests.apps.direct_site import MAPS, ONE, Answer, Site, site_with_a_map
from tests.builders.documents import config_map
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)

MANY = "&".join(["a=1"] * 1001)
NO_HEADER = "application/json;x*0*=a''b;x*=c''d"  # REST framework fails to parse it


@pytest.fixture
def site() -> Iterator[Site]:
    yield from site_with_a_map()


def answers(site: Site, method: str, path: str, **headers: str) -> list[Answer]:
    """Return the answers to a request on the first way that takes it, on the lean and on the full way."""
    direct, found = site.shell.direct, list[Answer]()
    open_for = direct._per_client
    for number, more in enumerate(({}, {}, {"Cookie": "theme=dark"})):
        body = config_map(f"new-{number}") if method == "POST" else None
        site.open()
        direct._per_client = direct.creations._per_client = open_for if number == 0 else 0
        found.append(site.ask(path, method=method, body=body, **headers, **more))
        direct._per_client = direct.creations._per_client = open_for
    return found


def statuses(site: Site, method: str, path: str, **headers: str) -> set[int]:
    """Return the statuses of all ways. An error has to be a Status with its code."""
    found = answers(site, method, path, **headers)
    for answer in found:
        if answer.status >= 400:
            document = json.loads(answer.body)
            assert (document["kind"], document["code"]) == ("Status", answer.status), answer
    return {answer.status for answer in found}


def test_a_query_with_more_parameters_than_allowed_is_refused(site: Site) -> None:
    for method, path in (("GET", ONE), ("GET", MAPS), ("POST", MAPS), ("PUT", ONE), ("DELETE", ONE)):
        assert statuses(site, method, f"{path}?{MANY}") == {400}, (method, path)
    answer = site.ask(f"/readyz?{MANY}")
    assert (answer.status, json.loads(answer.body)["kind"]) == (400, "Status")


def test_a_nul_character_in_the_query_is_refused(site: Site) -> None:
    for method, path in (("GET", ONE), ("POST", MAPS)):
        assert statuses(site, method, f"{path}?x=%00") == {400}, (method, path)


def test_a_header_accept_that_cannot_be_parsed_is_refused(site: Site) -> None:
    for method, path in (("GET", ONE), ("GET", MAPS), ("POST", MAPS), ("DELETE", ONE)):
        assert statuses(site, method, path, Accept=NO_HEADER) == {406}, (method, path)
    for path in ("/version", "/apis", "/api/v1", "/openapi/v2", MAPS, ONE, "/livez", "/"):
        for login in ({}, {"Authorization": "", "Cookie": "theme=dark"}):
            answer = site.ask(path, Accept=NO_HEADER, **login)
            assert answer.status < 500, (path, answer)
    assert lean.renderer_of("text/plain, application/json;x*=utf-8''%ff") is not None


def test_an_empty_header_accept_counts_as_absent(site: Site) -> None:
    for method, path, status in (("GET", ONE, 200), ("GET", MAPS, 200), ("POST", MAPS, 201)):
        assert statuses(site, method, path, Accept="") == {status}, (method, path)
    assert site.directly(ONE, Accept="").status == 200


def test_a_watch_above_the_limit_of_its_user_is_refused_with_a_status(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def made() -> Feeding:
        return Feeding(watch_hub.Tailer(), site.shell.pool)

    monkeypatch.setattr(watch_hub, "MAX_PER_USER", 0)
    site.shell.feeding = asyncio.run(made())  # the server of this test has no lifespan that would make it

    answer = site.ask(f"{MAPS}?watch=true")

    assert (answer.status, answer.headers["retry-after"]) == (429, "5")
    assert json.loads(answer.body)["reason"] == "TooManyRequests"
    until(AuditEvent.objects.filter(code=429).exists, within=20)
    (event,) = AuditEvent.objects.filter(code=429)
    assert (event.username, event.verb, event.resource, event.namespace) == ("eve", "watch", "configmaps", "default")
    assert "watches open, which is the limit" in event.reason


def test_a_query_is_utf_8_whatever_charset_the_body_has(site: Site) -> None:
    """Django would decode it by that charset: a dry run would be a write, and some charsets decode no text."""
    for charset in (
        "; charset=utf-16",
        ';Charset = "base64"',
        "; a=b; charset*=utf-8''undefined;c=d",
        ";charset=latin-1",
    ):
        kind = f"application/json{charset}"
        sent = answers(site, "POST", f"{MAPS}?fieldManager=gr%C3%B6%C3%9Fe&dryRun=All", Content_Type=kind)
        managers = [json.loads(answer.body)["metadata"]["managedFields"][0]["manager"] for answer in sent]
        assert ([answer.status for answer in sent], managers) == ([201] * 3, ["größe"] * 3), charset
        deleted = answers(site, "DELETE", f"{ONE}?dryRun=All", Content_Type=kind)
        assert [answer.status for answer in deleted] == [200] * 3, charset
    assert site.ask(ONE).status == 200
