"""Pages of the console: who may read them, how they are sent, and what they cost."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.apps.pages import stored
from tests.stores.grounds import cluster

HTML = "text/html,application/xhtml+xml,*/*;q=0.8"
PAGES = ("/", "/queue", "/readiness")


@pytest.mark.parametrize("path", PAGES)
def test_a_caller_without_a_login_is_sent_to_the_login_and_back(db: None, path: str) -> None:
    answer = Client().get(path, HTTP_ACCEPT=HTML)

    assert answer.status_code == 302
    assert answer["Location"] == f"/login/login/?next={path.replace('/', '%2F')}"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_allows_no_inline_script_or_style_and_contains_none(root: Client, path: str) -> None:
    answer = root.get(path, HTTP_ACCEPT=HTML)

    assert answer.status_code == 200
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    assert "unsafe" not in answer["Content-Security-Policy"]
    text = answer.content.decode()
    assert " style=" not in text
    assert "<style" not in text
    assert " onclick=" not in text
    assert 'class="kubectl"' in text


def test_the_paths_of_the_api_are_at_the_root_for_clients_that_are_no_browsers(root: Client) -> None:
    for headers in ({"HTTP_ACCEPT": "application/json"}, {"HTTP_ACCEPT": "*/*"}, {}):
        answer = root.get("/", **headers)  # type: ignore[arg-type]

        assert answer["Content-Type"].startswith("application/json")
        assert "/apis" in answer.json()["paths"]


def test_a_part_is_the_part_alone_and_an_unknown_part_is_not_found(root: Client) -> None:
    stored(cluster("member1"))

    part = root.get("/?part=situation", HTTP_ACCEPT="*/*", HTTP_HX_REQUEST="true")
    unknown = root.get("/?part=nothing", HTTP_ACCEPT=HTML)

    assert part.status_code == 200
    assert b"member1" in part.content
    assert b"<html" not in part.content
    assert unknown.status_code == 404
    assert "it has situation" in unknown.content.decode()


def test_a_page_costs_as_many_queries_for_many_clusters_as_for_one(root: Client) -> None:
    stored(cluster("member0"))
    root.get("/", HTTP_ACCEPT=HTML)
    with CaptureQueriesContext(connection) as few:
        root.get("/", HTTP_ACCEPT=HTML)
    stored(*(cluster(f"member{number}") for number in range(1, 20)))

    with CaptureQueriesContext(connection) as many:
        root.get("/", HTTP_ACCEPT=HTML)

    assert len(many) == len(few)
