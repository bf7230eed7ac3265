"""The API's server on the bench's database, for the benches that ask it over HTTP."""

from __future__ import annotations

import socket
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from django.contrib.auth import get_user_model

from apps.api import tokens
from apps.objects.default_roles import make_roles
from apps.objects.namespaces import make_namespaces
from apps.objects.store import store
from tests.api.server import free_ports
from tests.processes import Processes, environment, own_redis

ADMINS = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "bench"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bound"}],
}


class Served(NamedTuple):
    """Where a server is and how to be let in. `tls` None: requests are sent over http."""

    port: int
    token: str
    pid: int
    tls: ssl.SSLContext | None = None

    def request(
        self, method: str, path: str, *, accept: str = "*/*", body: bytes = b"", type: str = "merge-patch+json"
    ) -> bytes:
        """Return the bytes of a request."""
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {self.token}"]
        lines += [f"Accept: {accept}", f"Content-Type: application/{type}", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + body

    def connect(self) -> socket.socket:
        """Return a new connection."""
        made = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made if self.tls is None else self.tls.wrap_socket(made, server_hostname="127.0.0.1")


class Ports(NamedTuple):
    """One server at its two ports. Over https its user has rights by RBAC; over http the user is a superuser."""

    plain: Served
    secure: Served


@contextmanager
def served() -> Iterator[Served]:
    """Start a server, with a user and the usual namespaces."""
    with served_twice() as ports:
        yield ports.plain


@contextmanager
def served_twice(**settings: str) -> Iterator[Ports]:
    """Start a server that answers over http and over https. `settings`: LIFEBOAT_ and the name."""
    users = get_user_model().objects
    user = users.filter(username="bench").first() or users.create_superuser("bench")
    bound = users.filter(username="bound").first() or users.create_user("bound")
    make_namespaces(store())
    make_roles(store())
    make_roles(store(), lambda: [ADMINS])
    port, tls_port = free_ports(2)
    with (
        tempfile.TemporaryDirectory(prefix="lifeboat-bench-") as folder,
        Processes(Path(folder), environment(Path(folder), redis_url=own_redis(), **settings)) as processes,
    ):
        arguments = ["manage.py", "serve", "--port", str(port), "--tls-port", str(tls_port)]
        process = processes.start("api", arguments, says=f"https://127.0.0.1:{tls_port}")
        trusted = ssl.create_default_context(cafile=str(Path(folder, "tls", "ca.crt")))
        secure = Served(tls_port, tokens.create(bound, f"bench-{tls_port}"), process.pid, trusted)
        yield Ports(Served(port, tokens.create(user, f"bench-{port}"), process.pid), secure)


def exchange(connection: socket.socket, request: bytes) -> bytes:
    """Send a request and return the whole answer."""
    connection.sendall(request)
    received = bytearray()
    while (ends := received.find(b"\r\n\r\n")) < 0:
        received += _some(connection)
    ends += 4
    head = bytes(received[:ends]).lower()
    start = head.find(b"content-length:")
    if start < 0:
        return _chunked(connection, received, ends)
    length = int(head[start + 15 : head.index(b"\r", start)])
    while len(received) < ends + length:
        received += _some(connection)
    return bytes(received)


def _chunked(connection: socket.socket, received: bytearray, ends: int) -> bytes:
    """Return an answer in chunks. Its end is enough: no JSON contains an empty chunk."""
    while not received.endswith(b"\r\n0\r\n\r\n"):
        received += _some(connection)
    body, rest = bytearray(), bytes(received[ends:])
    while True:
        size, _, rest = rest.partition(b"\r\n")
        if not (length := int(size, 16)):
            return bytes(received[:ends]) + bytes(body)
        body += rest[:length]
        rest = rest[length + 2 :]


def _some(connection: socket.socket) -> bytes:
    received = connection.recv(1 << 18)
    if not received:
        raise ConnectionError("the server closed the connection")
    return received
