"""The requests per second of a user: what is above the limit is refused, and others do not notice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.roles import user
from tests.api.server import Client, Server
from tests.api.test_audit import recorded
from tests.builders.documents import config_map, config_maps

PER_SECOND = 2  # fewer than the slowest machine sends


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that allows few requests per second."""
    more = {"LIFEBOAT_API_REQUESTS_PER_SECOND": str(PER_SECOND)}
    with Server(tmp_path_factory.mktemp("rates"), name="lifeboat_rates", **more) as running:
        yield running


def until_refused(client: Client, path: str) -> str:
    """Send requests until the answer is 429; return its Retry-After and message."""
    for _ in range(500):
        if (answer := client.get(path)).status == 429:
            return f"{answer.headers['retry-after']} {answer.document['message']}"
    return ""


@pytest.mark.parametrize("path", ["/api/v1/namespaces/default", "/api/v1/namespaces"], ids=["direct", "lean"])
def test_a_user_that_sends_too_much_is_refused_and_others_are_not(limited: Server, path: str) -> None:
    busy, eva = limited.client(limited.token), user(limited, "eva")

    assert until_refused(busy, path).startswith(f"1 this client sent more than {PER_SECOND} requests per second")
    assert eva.get("/api").status == 200
    assert busy.get("/livez").status == 200


def test_creations_count_as_well(limited: Server) -> None:
    client = limited.client(limited.token)

    statuses = [client.post(config_maps("default"), config_map(f"rate-{place}")).status for place in range(50)]

    assert {201, 429} >= set(statuses)
    assert 429 in statuses


def test_refused_requests_to_members_are_recorded(limited: Server) -> None:
    path = "/apis/cluster.karmada.io/v1alpha1/clusters/member1/proxy/api/v1/pods"

    assert until_refused(limited.client(limited.token), path)

    recorded(limited, code="429", path=path)
