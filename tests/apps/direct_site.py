"""A server in a thread of this process, which counts the requests that do not go the direct way."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import count
from typing import Any, NamedTuple

import uvicorn
from django.contrib.auth import get_user_model
from django.db import connection

from apps.api import tokens
from apps.api.connections import guarded
from apps.api.shell import FullReply, Shell
from apps.objects.default_roles import make_roles
from apps.objects.namespaces import make_namespaces
from apps.objects.store import store
from config.wsgi import application
from tests.builders.documents import config_map, config_maps
from tests.processes import until

MAPS, ONE = config_maps("default"), config_maps("default", "one")
NUMBERS = count()  # of new objects


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Counting(Shell):
    """Counts the requests that did not go the direct way."""

    calls = 0

    def _call(self, environ: dict[str, Any]) -> FullReply:
        self.calls += 1
        return super()._call(environ)


class Site:
    """A server in a thread, with a user of all rights."""

    def __init__(self) -> None:
        make_namespaces(store())
        make_roles(store())
        self.token = tokens.create(get_user_model().objects.create_superuser("eve"), "test")
        self.shell = Counting(application, threads=4, buffer=1 << 20)
        protocol = guarded(100, self.shell.direct)
        self.server = uvicorn.Server(uvicorn.Config(self.shell, port=0, lifespan="off", http=protocol, ws="none"))
        self.thread = threading.Thread(target=self.server.run, daemon=True)  # may wait for an answer that never comes
        self.thread.start()
        until(lambda: self.server.started, within=20)
        self.port: int = self.server.servers[0].sockets[0].getsockname()[1]

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(20)
        self.shell.direct.close()
        self.shell.pool.shutdown()
        self.shell.health.shutdown()

    def ask(self, path: str, *, method: str = "GET", body: Any = None, **headers: str) -> Answer:
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        http = HTTPConnection("127.0.0.1", self.port, timeout=20)
        http.request(method, path, body if body is None or isinstance(body, bytes) else json.dumps(body), sent)
        response = http.getresponse()
        found = Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
        http.close()
        return found

    def raw(self, method: str, path: str, *headers: str, body: bytes = b"") -> bytes:
        """Return the bytes of a request, which may be sent with others on one connection."""
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {self.token}", *headers]
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"] if body else []
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body

    def connect(self) -> socket.socket:
        """Return a new connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def statuses(self, *parts: bytes) -> list[int]:
        """Send parts of requests, and return the status of each answer until the server closes the connection."""
        with self.connect() as client:
            for part in parts:
                client.sendall(part)
            return statuses(client)

    def directly(self, path: str, **headers: str) -> Answer:
        """Return the answer of the direct way, which needs a session and a check of the token."""

        def answered() -> Answer | None:
            before = self.shell.calls
            found = self.ask(path, **headers)
            return found if self.shell.calls == before else None

        found: Answer = until(answered, within=20, every=0.01)
        return found

    def open(self) -> None:
        """Wait until the direct way is open for reads and creations."""
        names = (f"opened-{number}" for number in NUMBERS)

        def created() -> bool:
            before = self.shell.calls
            self.ask(MAPS, method="POST", body=config_map(next(names)))
            return self.shell.calls == before

        self.directly(ONE)
        assert until(created, within=20, every=0.01)

    def goes_another_way(self, path: str, **headers: str) -> Answer:
        """Return the answer to a request, and check that it did not go the direct way although that was open."""
        self.directly(ONE)
        before = self.shell.calls
        found = self.ask(path, **headers)
        assert self.shell.calls == before + 1, path
        return found


def statuses(client: socket.socket) -> list[int]:
    """Return the status of each answer on a connection until the server closes it."""
    received = b"".join(iter(lambda: client.recv(65536), b""))
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", received)]


@contextmanager
def locked(statement: str) -> Iterator[None]:
    """Hold what a statement locks, so that statements of the server wait."""
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        try:
            cursor.execute(statement)
            yield
        finally:
            cursor.execute("ROLLBACK")


def site_with_a_map() -> Iterator[Site]:
    """Yield a server with a ConfigMap named "one", and stop it."""
    made = Site()
    try:
        assert made.ask(MAPS, method="POST", body=config_map("one", a="1")).status == 201
        yield made
    finally:
        made.stop()
