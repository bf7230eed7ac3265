"""The stream of a page: what it sends, to whom, and when it ends."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.api.server import SECONDS, Client, Server
from tests.builders.documents import taint_policy

STREAM = "/stream?page="
TOPIC = ("topic", json.dumps({"page": "/clusters?q=a", "name": "clusters"}, separators=(",", ":")))
POLICIES = "/apis/policy.karmada.io/v1alpha1/clustertaintpolicies"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"


@contextmanager
def opened(client: Client, page: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(*client.address, timeout=SECONDS)
    headers = {"Authorization": f"Bearer {client.token}", "Accept": "text/event-stream"}
    connection.request("GET", STREAM + page, headers=headers)
    try:
        yield connection.getresponse()
    finally:
        connection.close()


def events(response: http.client.HTTPResponse) -> Iterator[tuple[str, str]]:
    """Yield the events of a stream: name and data. Comments and signs of life are left out."""
    name = ""
    while line := response.readline().decode():
        if line.startswith("event: "):
            name = line.removeprefix("event: ").strip()
        elif line.startswith("data: ") and name != "alive":
            yield name, line.removeprefix("data: ").strip()


def test_situation_is_pushed_when_the_fleet_changes(api: Client) -> None:
    with opened(api, "%2F") as stream:
        assert (stream.status, stream.headers["Content-Type"]) == (200, "text/event-stream")
        sent = events(stream)
        made = api.post(CLUSTERS, {"metadata": {"name": "pushed"}, "spec": {"syncMode": "Pull"}})
        assert made.status == 201, made.body

        pages = (json.loads(data)["html"] for kind, data in sent if kind == "part")
        shown = next(html for html in pages if "pushed" in html)

    assert "Clusters, worst first" in shown
    api.ask("DELETE", f"{CLUSTERS}/pushed")


def test_the_stream_of_another_page_names_the_parts_that_changed(api: Client) -> None:
    with opened(api, "%2Fclusters%3Fq%3Da") as stream:
        api.post(CLUSTERS, {"metadata": {"name": "named"}, "spec": {"syncMode": "Pull"}})

        assert next(events(stream)) == TOPIC
        api.post(POLICIES, taint_policy("quiet"))  # concerns no part of the page
        api.ask("DELETE", f"{CLUSTERS}/named")

        assert next(events(stream)) == TOPIC
    api.ask("DELETE", f"{POLICIES}/quiet")


def test_a_stream_serves_several_pages_and_every_event_names_its_page(api: Client) -> None:
    with opened(api, "%2Fclusters&page=%2F&page=%2Fdrills") as stream:
        api.post(CLUSTERS, {"metadata": {"name": "shared"}, "spec": {"syncMode": "Pull"}})

        wanted = {("/clusters", "topic", "clusters"), ("/", "part", "situation")}
        for kind, data in events(stream):  # also of what changed shortly before the stream was opened
            wanted.discard((json.loads(data)["page"], kind, json.loads(data)["name"]))
            if not wanted:
                break
    api.ask("DELETE", f"{CLUSTERS}/shared")
    with opened(api, "&page=".join(f"%2Fclusters%3Fq%3D{number}" for number in range(51))) as stream:
        assert (stream.status, b"at most 50 pages" in stream.read()) == (400, True)


@pytest.mark.parametrize("page", ["%2Fapis", "%2Fnothing", "%2Fclusters%2Fx%2Fdrain%2Fy"])
def test_only_pages_of_the_console_have_a_stream(api: Client, page: str) -> None:
    with opened(api, page) as stream:
        assert stream.status == 404


def test_a_stream_needs_a_login_and_ends_with_it(server: Server) -> None:
    with opened(server.client(""), "%2F") as stream:
        assert stream.status == 401
    token = server.client(server.manage("token", "create", "--user", "admin", "--name", "console-stream").strip())
    with opened(token, "%2Fclusters") as stream:
        assert stream.status == 200
        server.manage("token", "revoke", "--user", "admin", "--name", "console-stream")

        assert {kind for kind, _ in events(stream)} <= {"topic"}  # the stream ends
