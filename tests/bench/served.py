"""The API's server on the bench's database, for the benches that ask it over HTTP."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from django.contrib.auth import get_user_model

from apps.api import tokens
from apps.objects.namespaces import make_namespaces
from apps.objects.store import store
from tests.api.server import free_ports
from tests.processes import Processes, environment, own_redis


class Served(NamedTuple):
    """Where the server is and how to be let in."""

    port: int
    token: str
    pid: int

    def request(self, method: str, path: str, *, accept: str = "*/*", body: bytes = b"") -> bytes:
        """Return the bytes of a request."""
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {self.token}"]
        lines += [f"Accept: {accept}", "Content-Type: application/merge-patch+json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + body

    def connect(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made


@contextmanager
def served() -> Iterator[Served]:
    """Start a server, with a user and the usual namespaces."""
    users = get_user_model().objects
    user = users.filter(username="bench").first() or users.create_superuser("bench")
    make_namespaces(store())
    port, tls_port = free_ports(2)
    with (
        tempfile.TemporaryDirectory(prefix="lifeboat-bench-") as folder,
        Processes(Path(folder), environment(Path(folder), redis_url=own_redis())) as processes,
    ):
        arguments = ["manage.py", "serve", "--port", str(port), "--tls-port", str(tls_port)]
        process = processes.start("api", arguments, says=f"https://127.0.0.1:{tls_port}")
        yield Served(port, tokens.create(user, "bench"), process.pid)


def exchange(connection: socket.socket, request: bytes) -> bytes:
    """Send a request and return the whole answer."""
    connection.sendall(request)
    received = bytearray()
    while b"\r\n\r\n" not in received:
        received += _some(connection)
    head, _, rest = bytes(received).partition(b"\r\n\r\n")
    (length,) = (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    body = bytearray(rest)
    while len(body) < length:
        body += _some(connection)
    return head + b"\r\n\r\n" + bytes(body)


def _some(connection: socket.socket) -> bytes:
    received = connection.recv(1 << 18)
    if not received:
        raise ConnectionError("the server closed the connection")
    return received
