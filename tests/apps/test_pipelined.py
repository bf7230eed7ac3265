"""Requests that arrive together on one connection, and what follows them there."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apps.direct_site import MAPS, ONE, Site, locked, site_with_a_map, statuses
from tests.builders.documents import config_map
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)

COUNTER = "SELECT 1 FROM objects_counter FOR UPDATE"
LONG_HEADER = b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000
NO_HTTP = b"\0\r\n\r\n"
LAST = "Connection: close"


@pytest.fixture
def site() -> Iterator[Site]:
    yield from site_with_a_map()


def feed(site: Site, client: socket.socket, *chunks: bytes) -> Any:
    """Let the server receive these chunks on a connection, each as it is, and return its protocol."""
    port = client.getsockname()[1]

    def protocols() -> list[Any]:
        found: list[Any] = list(site.server.server_state.connections)
        return [one for one in found if one.client and one.client[1] == port]

    (protocol,) = until(protocols, within=20, every=0.01)
    for chunk in chunks:
        protocol.loop.call_soon_threadsafe(protocol.data_received, chunk)
    return protocol


def answers(site: Site, *chunks: bytes) -> list[int]:
    """Return the status of each answer to these chunks until the server closes the connection."""
    with site.connect() as client:
        feed(site, client, *chunks)
        return statuses(client)


def test_a_large_body_does_not_count_as_headers_of_the_next_request(site: Site) -> None:
    posted = site.raw("POST", MAPS, body=b"x" * 70_000)
    get = site.raw("GET", ONE, LAST)

    assert answers(site, site.raw("GET", ONE) + posted + get[:5], get[5:]) == [200, 400, 200]
    assert answers(site, posted + get[:5], get[5:]) == [400, 200]


def test_headers_that_are_too_large_are_refused_also_after_a_request(site: Site) -> None:
    assert answers(site, LONG_HEADER) == [431]
    assert answers(site, LONG_HEADER[:40_000], LONG_HEADER[40_000:]) == [431]
    with site.connect() as client:
        protocol = feed(site, client, site.raw("GET", ONE))
        assert until(lambda: protocol.cycle and protocol.cycle.response_complete, within=20, every=0.01)
        feed(site, client, LONG_HEADER)
        assert statuses(client) == [200, 431]


def test_a_request_that_waits_for_its_answer_gets_no_other_one(site: Site) -> None:
    creation = site.raw("POST", MAPS, body=json.dumps(config_map("two")).encode())
    chunked = site.raw("POST", MAPS, "Content-Type: application/json", "Transfer-Encoding: chunked")
    assert answers(site, NO_HTTP) == answers(site, chunked, b"no size") == [400]
    with locked(COUNTER):
        for rest in (LONG_HEADER, NO_HTTP, chunked + b"no size"):
            assert answers(site, creation, rest) == []
