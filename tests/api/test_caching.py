"""No shared cache and no browser keeps what the API says: every way of answering forbids it, as Kubernetes does."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.api.server import Client
from tests.builders.documents import config_map, config_maps

PRIVATE = "no-cache, private"


def test_objects_are_kept_by_no_shared_cache(api: Client, namespace: str) -> None:
    answers = [
        api.post(config_maps(namespace), config_map("one")),
        *(api.get(config_maps(namespace, "one")) for _ in range(3)),  # the direct way needs a token that was checked
        api.get(config_maps(namespace)),
        api.get(config_maps(namespace, "two")),
        api.patch(config_maps(namespace, "one"), {"data": {"a": "2"}}),
    ]

    assert [answer.headers.get("cache-control") for answer in answers] == [PRIVATE] * 7


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        ("/", "text/html"),
        ("/", "application/json"),
        ("/version", ""),
        ("/metrics", "*/*"),
        (f"/api/v1/namespaces/default/configmaps?labelSelector={quote('a in (')}", ""),
        ("/api/v1/namespaces/default/secrets", "text/html"),
        ("/apis/identity.lifeboat.io/v1alpha1/credentials", ""),
        ("/login/login/", "text/html"),
    ],
)
def test_pages_and_other_answers_are_kept_by_no_shared_cache(api: Client, path: str, accept: str) -> None:
    said = api.ask("GET", path, accept=accept).headers.get("cache-control", "")

    assert "no-cache" in said or "no-store" in said
    assert "public" not in said


def test_an_answer_without_a_login_is_kept_by_no_shared_cache(api: Client) -> None:
    assert Client(api.address, "").get("/api").headers.get("cache-control") == PRIVATE


def test_static_files_say_themselves_how_long_they_are_kept(api: Client) -> None:
    assert "public" in api.get("/static/lifeboat/admin.css").headers["cache-control"]
