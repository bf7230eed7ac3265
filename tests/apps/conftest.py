"""Who looks at pages, and what else tests of the running product stand on."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.test import Client

from apps.development.supervise.ports import claimed_port
from apps.development.supervise.redis import find_binary
from controlplane.authorization.policy import CLUSTER_ROLE_BINDING, GROUP
from controlplane.kinds import KINDS
from controlplane.settings import Settings
from tests.apps.credentials import PASSWORD
from tests.apps.name_server import NameServer
from tests.emptied import empty_database
from tests.processes import until

ANSWERS_WITHIN = 60.0  # seconds


def _client(*, superuser: bool) -> Client:
    from django.contrib.auth import get_user_model  # here: Django is not set up while fixtures are collected

    from apps.api import fleet_status
    from apps.objects.access import access
    from apps.objects.configuration import configuration
    from apps.objects.default_roles import make_roles
    from apps.objects.store import store
    from apps.objects.writer import Author, Writer

    users = get_user_model().objects
    if superuser:
        user = users.create_superuser("root", password=PASSWORD)
    else:
        user = users.create_user("clerk", password=PASSWORD, is_staff=True)
        make_roles(store())
        writer = Writer(store(), Settings(), Author("test", "Test"))
        for role in ("lifeboat:viewer", "view"):
            writer.create(KINDS[CLUSTER_ROLE_BINDING], _bound(role, to="clerk"))
        access().policy(reread=True)
    configuration().settings(reread=True)  # those of the test before are kept for half a second
    fleet_status._clusters._known.clear()  # a cluster of the test before may have the same name and version
    client = Client()
    client.force_login(user)
    return client


def _bound(role: str, *, to: str) -> dict[str, Any]:
    subject = {"kind": "User", "name": to, "apiGroup": GROUP}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{to}-{role.replace(':', '-')}"},
        "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": GROUP},
        "subjects": [subject],
    }


@pytest.fixture
def root(transactional_db: None) -> Client:
    """A superuser's browser."""
    return _client(superuser=True)


@pytest.fixture
def clerk(transactional_db: None) -> Client:
    """A browser of the staff with roles to read the fleet and workloads, and none to write."""
    return _client(superuser=False)


@pytest.fixture
def flush() -> Callable[[], None]:
    """Empties the database."""
    return empty_database


@pytest.fixture(scope="module")
def empty_redis(redis_url: str) -> str:
    """The Redis database of this process, empty when the module begins."""
    with redis.Redis.from_url(redis_url) as client:
        client.flushdb()
    return redis_url


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Any]:
    """A Redis of the test's own, to be stopped and started."""

    def start() -> subprocess.Popen[bytes]:
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        process = subprocess.Popen([str(find_binary()[0]), *options, "--dir", str(tmp_path)], stdout=subprocess.DEVNULL)
        with redis.Redis(port=port) as client:
            until(lambda: _answers(client), within=ANSWERS_WITHIN)
        return process

    # Claimed until the end, because another process of the test run may look for a port while this Redis is stopped.
    with claimed_port(17_000) as port:
        found = {"url": f"redis://127.0.0.1:{port}/0", "start": start, "process": start()}
        yield found
        found["process"].kill()
        found["process"].wait()


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    """What this process asks for names."""
    made = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", made.look_up)
    yield made
    made.answers.set()


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
