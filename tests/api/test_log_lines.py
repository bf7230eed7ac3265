"""The log of an API process: one line for each write that was stored, one for each that was refused, and no secrets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.server import Client, Server

SECRET = "dG9wLXNlY3JldC12YWx1ZQ=="


def log_of(server: Server) -> str:
    """Return the log of the server, which other tests may have started again."""
    return "\n".join(path.read_text() for path in server.folder.glob("api-*.log"))


def lines(server: Server, logger: str) -> list[dict[str, Any]]:
    """Return the lines of one logger in the log of the server."""
    found = [json.loads(line) for line in log_of(server).splitlines() if line.startswith("{")]
    return [line for line in found if line["logger"] == logger]


def test_a_stored_write_has_one_line_with_its_author_and_version(server: Server, api: Client, namespace: str) -> None:
    made = api.post(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "logged"}}).document
    api.put(f"/api/v1/namespaces/{namespace}/configmaps/logged", made)  # changes nothing

    (line,) = [one for one in lines(server, "lifeboat.decisions") if one["ref"] == f"ConfigMap:{namespace}/logged"]

    assert (line["actor"], line["reason"]) == ("admin", "API")
    assert line["versions"] == [int(made["metadata"]["resourceVersion"])]
    assert line["ms"] > 0


def test_a_refused_write_has_one_line_with_what_was_wrong_and_not_the_value(
    server: Server, api: Client, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    api.post(path, {"metadata": {"name": "refused"}, "data": {"token": f"{SECRET}!"}})
    api.post(path, {"metadata": {"name": "kept"}, "data": {"token": SECRET}})
    api.put(f"{path}/missing", {"metadata": {"name": "missing"}})

    refused = [line for line in lines(server, "lifeboat.refused") if line.get("way", "").endswith((path, "missing"))]

    assert [(line["code"], line["actor"], line["level"]) for line in refused] == [
        (422, "admin", "WARNING"),
        (404, "admin", "WARNING"),
    ]
    assert refused[0]["fields"] == ["data[token]: FieldValueInvalid"]
    assert "not found" in refused[1]["why"]
    assert SECRET not in log_of(server)


@pytest.mark.parametrize(("method", "logged"), [("POST", 1), ("GET", 0)])
def test_requests_without_a_valid_token_are_refused_in_a_line_if_they_would_write(
    server: Server, method: str, logged: int
) -> None:
    path = f"/api/v1/namespaces/nowhere-{method.lower()}/configmaps"
    server.client("wrong").ask(method, path, {"metadata": {"name": "x"}})

    found = [line for line in lines(server, "lifeboat.refused") if line.get("way") == f"{method} {path}"]

    assert [(line["code"], line["actor"]) for line in found] == [(401, "")] * logged
