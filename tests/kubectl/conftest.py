"""The server the kubectl talks to, and a namespace of one's own in it."""

import os
from collections.abc import Iterator

import pytest

from tests.api.server import Client, Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running server."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    with Server(tmp_path_factory.mktemp("kubectl"), name=f"lifeboat_kubectl_{worker}") as running:
        yield running


@pytest.fixture
def api(server: Server) -> Client:
    """The admin's connection."""
    return server.client()


_count = 0


@pytest.fixture
def namespace(api: Client) -> str:
    """A new namespace."""
    global _count
    _count += 1
    name = f"test-{os.getpid()}-{_count}"
    made = api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    assert made.status == 201, made.body
    return name
