"""Bodies that are compressed with gzip."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.api.server import Answer, Client
from tests.builders.documents import config_map, config_maps


def sent(client: Client, path: str, body: bytes, *, login: bool = True) -> Answer:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    headers |= {"Authorization": f"Bearer {client.token}"} if login else {}
    return client.send("POST", path, body, headers)


def test_a_compressed_body_is_stored_as_it_was_before(api: Client, namespace: str) -> None:
    body = config_map("large", text="x" * 300_000)

    answer = sent(api, config_maps(namespace), gzip.compress(json.dumps(body).encode()))

    assert answer.status == 201, answer.body
    assert api.get(config_maps(namespace, "large")).document["data"]["text"] == "x" * 300_000


@pytest.mark.parametrize("login", [True, False])
def test_a_body_that_unpacks_to_gigabytes_is_refused(api: Client, namespace: str, login: bool) -> None:
    bomb = gzip.compress(b"0" * (64 << 20))

    answer = sent(api, config_maps(namespace), bomb, login=login)

    assert len(bomb) < 100_000
    assert answer.status == (413 if login else 401)


@pytest.mark.parametrize(
    "body",
    [b"not gzip", gzip.compress(b"{}")[:-3], gzip.compress(b"{}") + b"more"],
    ids=["not gzip", "cut short", "continued"],  # gzip writes the time, and processes of a run compare the names
)
def test_a_body_that_is_not_whole_gzip_is_refused(api: Client, namespace: str, body: bytes) -> None:
    answer = sent(api, config_maps(namespace), body)

    assert answer.status == 400
    assert "gzip" in answer.document["message"]
