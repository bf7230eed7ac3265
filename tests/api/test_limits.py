"""What one client can make the API process hold or do is bounded, and costs the other clients nothing."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.api.server import Client, Server
from tests.api.test_browser_session import Browser
from tests.builders.documents import config_map, config_maps
from tests.processes import until

MIB = 1024 * 1024
BUFFER = 32  # MiB; a user may have half of it
CONNECTIONS = 120


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with small limits."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    limits = {
        "LIFEBOAT_API_BUFFER_MIB": str(BUFFER),
        "LIFEBOAT_API_CONNECTIONS": str(CONNECTIONS),
        "LIFEBOAT_LOGINS_PER_MINUTE": "10",
    }
    with Server(tmp_path_factory.mktemp("limits"), name=f"lifeboat_limits_{worker}", **limits) as running:
        admin = running.client()
        for number in range(12):  # 6 MiB
            made = admin.post(config_maps("default"), config_map(f"large-{number}", text="x" * (MIB // 2)))
            assert made.status == 201, made.body
        yield running


@pytest.fixture(scope="module")
def other(small: Server) -> Client:
    """The connection of a second user."""
    text = small.manage("shell", "-c", _SECOND_USER)
    return small.client(text.splitlines()[-1].strip())


_SECOND_USER = """
from django.contrib.auth import get_user_model
from apps.api import tokens
user, _ = get_user_model().objects.get_or_create(username="second", defaults={"is_superuser": True, "is_staff": True})
print(tokens.create(user, "test"))
"""


def resident(server: Server) -> int:
    """Return the bytes of memory the API process has."""
    assert server.process is not None
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) * 1024


def opened(server: Server, *, token: str, request: str, headers: str = "", body: bytes = b"") -> socket.socket:
    """Return a connection on which a request and a part of its body were sent, and nothing was read."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    who = f"Authorization: Bearer {token}\r\n" if token else ""
    connection.sendall(f"{request} HTTP/1.1\r\nHost: localhost\r\n{who}{headers}\r\n".encode())
    try:
        connection.sendall(body)
    except ConnectionError:
        pass  # refused already
    return connection


def status_of(connection: socket.socket) -> int:
    """Return the status of the answer, 0 if the connection was closed without one."""
    try:
        line = connection.makefile("rb").readline()
    except ConnectionError:
        return 0
    return int(line.split()[1]) if line else 0


def stalled_body(server: Server, token: str) -> socket.socket:
    headers = f"Content-Type: application/json\r\nContent-Length: {3 * MIB}\r\n"
    return opened(
        server,
        token=token,
        request="POST /api/v1/namespaces/default/configmaps",
        headers=headers,
        body=b" " * (2 * MIB),
    )


def test_bodies_without_a_login_are_refused_before_they_are_read(small: Server) -> None:
    before = resident(small)

    with ThreadPoolExecutor(40) as pool:
        connections = list(pool.map(lambda _: stalled_body(small, ""), range(80)))
    answers = {status_of(connection) for connection in connections}

    assert {401} <= answers <= {401, 429, 0}, answers  # 429: a busy server refuses earlier
    assert resident(small) - before < 40 * MIB
    for connection in connections:
        connection.close()


def test_stalled_bodies_of_a_user_are_bounded_and_cost_other_users_nothing(small: Server, other: Client) -> None:
    connections = [stalled_body(small, small.token) for _ in range(10)]  # 20 MiB; 16 MiB are allowed
    refused = [connection for connection in connections if _answered(connection)]

    assert refused
    assert {status_of(connection) for connection in refused} == {429}
    made = other.post(config_maps("default"), config_map("beside", text="x" * MIB))
    assert made.status == 201, made.body
    for connection in connections:
        connection.close()
    until(
        lambda: small.client().post(config_maps("default"), config_map("later", text="x" * MIB)).status in (201, 409),
        within=30,
    )


def _stores_large(client: Client) -> bool:
    return client.post(config_maps("default"), config_map("later", text="x" * MIB)).status == 201


def _answered(connection: socket.socket) -> bool:
    connection.settimeout(2)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False
    finally:
        connection.settimeout(60)


def unread(server: Server, query: dict[str, str]) -> socket.socket:
    path = f"/api/v1/namespaces/default/configmaps?{urlencode(query)}"
    return opened(server, token=server.token, request=f"GET {path}")


def test_unread_watches_share_what_they_begin_with(small: Server, other: Client) -> None:
    before = resident(small)

    connections = [unread(small, {"watch": "true"}) for _ in range(60)]
    answers = [status_of(connection) for connection in connections]

    assert answers == [200] * 60
    assert resident(small) - before < 100 * MIB  # each begins with 6 MiB: 360 without sharing
    for connection in connections:
        connection.close()


def test_watches_that_cannot_share_are_refused_above_the_limit(small: Server, other: Client) -> None:
    selections = [{"watch": "true", "labelSelector": f"absent!={number}"} for number in range(8)]  # 48 MiB

    connections = [unread(small, query) for query in selections]
    answers = [status_of(connection) for connection in connections]

    assert set(answers) == {200, 429}
    assert answers.count(429) >= 2
    for connection in connections:
        connection.close()
    until(lambda: _watches(other), within=30)


def _watches(client: Client) -> bool:
    with client.watch(config_maps("default"), labelSelector="absent!=again") as stream:
        return stream.status == 200 and stream.next()["type"] == "ADDED"


def test_unread_lists_are_bounded_and_cost_other_users_nothing(small: Server, other: Client) -> None:
    connections = [unread(small, {}) for _ in range(6)]  # 36 MiB; 16 MiB are allowed
    answers = [status_of(connection) for connection in connections]

    assert set(answers) == {200, 429}
    assert other.get(config_maps("default")).status == 200
    for connection in connections:
        connection.close()


def test_idle_connections_keep_no_client_out(small: Server) -> None:
    idle = [socket.create_connection(("127.0.0.1", small.port), timeout=60) for _ in range(CONNECTIONS + 20)]

    assert small.client().get("/api/v1/namespaces/default").status == 200
    assert idle[0].recv(1) == b"", "the connection that was idle longest is closed first"
    for connection in idle:
        connection.close()


def test_headers_without_end_are_refused(small: Server) -> None:
    connection = socket.create_connection(("127.0.0.1", small.port), timeout=60)
    connection.sendall(b"GET /livez HTTP/1.1\r\n")
    answer = b""
    try:
        for number in range(200):
            connection.sendall(f"X-{number}: {'x' * 1000}\r\n".encode())
        answer = connection.recv(100)
    except ConnectionError:
        pass  # closed while we were sending

    assert not answer or answer.startswith(b"HTTP/1.1 431")
    with pytest.raises(ConnectionError):
        connection.sendall(b"X: x\r\n" * 10_000_000)


def test_headers_that_do_not_arrive_end_the_connection(small: Server) -> None:
    connection = socket.create_connection(("127.0.0.1", small.port), timeout=60)
    connection.sendall(b"GET /livez HTTP/1.1\r\nX: ")

    assert connection.recv(100) == b""


def test_logins_are_throttled_and_no_operator_is_locked_out(small: Server) -> None:
    operator = Browser(small)
    assert operator.log_in("admin", "correct-horse-battery").status == 302
    operator.forget_session()

    attacker = Browser(small)
    began = time.monotonic()
    checked = 0  # a password that was checked and is wrong shows the form again, with 200
    while (refused := attacker.log_in("admin", f"wrong-{checked}")).status == 200 and checked < 60:
        checked += 1

    regained = (time.monotonic() - began) * 10 / 60  # ten a minute come back, also while a slow machine checks them
    assert checked <= 10 + regained, "more passwords were checked than are allowed"
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) > 0
    assert Browser(small).log_in("admin", "correct-horse-battery").status == 429, "the same address, an unknown browser"
    assert operator.log_in("admin", "correct-horse-battery").status == 302, "the same address, a known browser"
    assert Browser(small, address="127.0.0.2").log_in("admin", "correct-horse-battery").status == 302, "elsewhere"
