"""The real server on a database of its own, and a small client that sees what is really on the wire."""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode, urlsplit, urlunsplit

import psycopg
import yaml

from tests.processes import PROJECT, START_SECONDS, Process, Processes, manage, until

Document = dict[str, Any]

SECONDS = 60.0  # a test waits this long for an answer or an event
POOLED = "/apis/identity.lifeboat.io/v1alpha1/credentials"  # read through the pool
POOL = 8  # sessions at most (LIFEBOAT_DATABASE_POOL)
IDLE_SECONDS = 1.0  # the server may close a connection that is idle for longer; a request sent then has no answer


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Document:
        found: Document = json.loads(self.body)
        return found

    @property
    def type(self) -> str:
        return self.headers.get("content-type", "")


class Client:
    """One keep-alive connection with a bearer token ("" is no user)."""

    def __init__(self, address: tuple[str, int], token: str) -> None:
        self.address = address
        self.token = token
        self._connection = http.client.HTTPConnection(*address, timeout=SECONDS)
        self._answered = 0.0

    def ask(
        self, method: str, path: str, body: Any = None, *, type: str = "", accept: str = "", **query: Any
    ) -> Answer:
        """Send a request; a body that is not bytes goes as JSON."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if raw is not None:
            headers["Content-Type"] = type or "application/json"
        if accept:
            headers["Accept"] = accept
        return self.send(method, f"{path}?{urlencode(query)}" if query else path, raw, headers)

    def send(self, method: str, path: str, raw: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send exactly this. A connection that has been idle for a while is not used again."""
        if time.monotonic() - self._answered > IDLE_SECONDS:
            self._connection.close()  # the next request opens a new one
        self._connection.request(method, path, raw, dict(headers))
        response = self._connection.getresponse()
        body = response.read()
        self._answered = time.monotonic()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)

    def get(self, path: str, **query: Any) -> Answer:
        return self.ask("GET", path, **query)

    def post(self, path: str, body: Any, **query: Any) -> Answer:
        return self.ask("POST", path, body, **query)

    def put(self, path: str, body: Any, **query: Any) -> Answer:
        return self.ask("PUT", path, body, **query)

    def delete(self, path: str, body: Any = None, **query: Any) -> Answer:
        return self.ask("DELETE", path, body, **query)

    def patch(self, path: str, body: Any, type: str = "application/merge-patch+json", **query: Any) -> Answer:
        return self.ask("PATCH", path, body, type=type, **query)

    @contextmanager
    def watch(self, path: str, *, accept: str = "", **query: Any) -> Iterator[Stream]:
        """Open a watch."""
        stream = Stream(self, f"{path}?{urlencode({'watch': 'true', **query})}", accept)
        try:
            yield stream
        finally:
            stream.close()


class Stream:
    """An open watch, event by event."""

    def __init__(self, client: Client, path: str, accept: str) -> None:
        self._connection = http.client.HTTPConnection(*client.address, timeout=SECONDS)
        headers = {"Authorization": f"Bearer {client.token}", **({"Accept": accept} if accept else {})}
        self._connection.request("GET", path, headers=headers)
        self.response = self._connection.getresponse()

    @property
    def status(self) -> int:
        return self.response.status

    def next(self) -> Document:
        """Return the next event. Raises EOFError where the stream has ended, TimeoutError where none comes."""
        line = self.response.readline()
        if not line:
            raise EOFError("the stream has ended")
        found: Document = json.loads(line)
        return found

    def take(self, count: int) -> list[Document]:
        return [self.next() for _ in range(count)]

    def close(self) -> None:
        self._connection.close()


class Server:
    """`manage.py serve` with short waits on an empty, migrated database that is dropped afterwards."""

    def __init__(self, folder: Path, *, name: str, **more: str) -> None:
        self.folder = folder
        self.admin_url = os.environ["DATABASE_URL"]
        # pytest-xdist may give the tests of one file to several processes: each has a server and a database of its own.
        self.database = "_".join(filter(None, (name, os.environ.get("PYTEST_XDIST_WORKER"))))
        self.port, self.tls_port = free_ports(2)
        self.environment = {
            **os.environ,
            "DATABASE_URL": urlunsplit(urlsplit(self.admin_url)._replace(path=f"/{self.database}")),
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "LIFEBOAT_SECRET_KEY": "only-for-tests",
            "LIFEBOAT_DEVELOPMENT": "true",
            "LIFEBOAT_HOME": str(folder),
            "LIFEBOAT_LOG_FORMAT": "json",
            "LIFEBOAT_ADMIN_NAME": "admin",
            "LIFEBOAT_ADMIN_PASSWORD": "correct-horse-battery",
            "LIFEBOAT_LOGINS_PER_MINUTE": "600",  # tests log in often, all of them from one address
            # tests of the proxy to members wait for these ends
            "LIFEBOAT_MEMBERS_PROXY_ANSWER_SECONDS": "3",
            "LIFEBOAT_MEMBERS_PROXY_IDLE_SECONDS": "6",
            "LIFEBOAT_MEMBERS_PROXY_REQUESTS_PER_MEMBER": "6",
            "LIFEBOAT_API_URL": f"https://127.0.0.1:{self.tls_port}",
            "PYTHONPATH": str(PROJECT),
            **more,
        }
        self.processes = Processes(folder, self.environment)
        self.process: Process | None = None

    def __enter__(self) -> Self:
        self._sql(f'DROP DATABASE IF EXISTS "{self.database}" WITH (FORCE)', f'CREATE DATABASE "{self.database}"')
        self.processes.__enter__()
        self.manage("prepare")
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.processes.__exit__(*exception)
        self._sql(f'DROP DATABASE IF EXISTS "{self.database}" WITH (FORCE)')

    def start(self) -> None:
        """Start the server and wait until it answers."""
        ports = ["--port", str(self.port), "--tls-port", str(self.tls_port)]
        self.process = self.processes.start("api", ["-m", "tests.api.quick", "serve", *ports])
        until(lambda: _answers(self.port) and _answers(self.tls_port), within=START_SECONDS, alive=self.process)

    def stop(self) -> None:
        """End the server the way an operator does."""
        assert self.process is not None
        self.processes.end(self.process)

    def manage(self, *arguments: str) -> str:
        """Run a command of manage.py and return what it printed."""
        done = manage(*arguments, environment=self.environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run SQL in the server's database."""
        with psycopg.connect(self.environment["DATABASE_URL"], autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def token(self) -> str:
        config = yaml.safe_load(self.kubeconfig.read_text())
        token: str = config["users"][0]["user"]["token"]
        return token

    def client(self, token: str | None = None) -> Client:
        """Return a client: of the admin, of the user with that token, of no user ("")."""
        return Client(("127.0.0.1", self.port), self.token if token is None else token)

    def _sql(self, *statements: str) -> None:
        with psycopg.connect(self.admin_url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)  # type: ignore[call-overload]

    def await_sessions(self) -> None:
        """Wait until the pool has no session that the database ended. Each request takes the next session of the pool,
        and an ended one is answered 503, also to the test that comes after this one."""
        client = self.client()
        until(lambda: all(client.get(POOLED).status == 200 for _ in range(POOL)), within=SECONDS * 2)


@contextmanager
def forgotten(server: Server) -> Iterator[None]:
    """Let the change log begin a million versions later, for as long as the block runs."""
    query = """SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'objects_changelog'::regclass"""
    names = sorted((row[0] for row in server.sql(query)), key=lambda name: int(name.split("_")[2]))
    name, begin, end = names[0], *names[0].split("_")[2:]
    server.sql(f"ALTER TABLE objects_changelog DETACH PARTITION {name}")
    server.sql(f"ALTER TABLE {name} RENAME TO away")
    later = f"objects_changelog_{int(end) - 1}_{end}"
    server.sql(f"CREATE TABLE {later} PARTITION OF objects_changelog FOR VALUES FROM ({int(end) - 1}) TO ({end})")
    try:
        yield
    finally:
        server.sql(f"DROP TABLE {later}")
        server.sql(f"ALTER TABLE away RENAME TO {name}")
        server.sql(f"ALTER TABLE objects_changelog ATTACH PARTITION {name} FOR VALUES FROM ({begin}) TO ({end})")


def free_ports(count: int) -> list[int]:
    """Return ports on which no process listens now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
