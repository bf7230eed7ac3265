"""Alive and ready: asked by load balancers and by people, without a login.

What is asked of the database is asked on a connection of its own: those of the pool may all be waiting for something.
Every step has a limit, so the whole answer has one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import psycopg
import redis
from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from apps.api.clock import ticks as clock
from apps.failover.bucket import RedisBucket, refusal
from apps.objects import origin
from apps.objects.configuration import base
from apps.objects.refusal import CAUSES, LOCKED, READ_ONLY, cause, sqlstate
from apps.worker.groups import GROUPS, MEMBERS, tick_names
from controlplane.wire.negotiate import go_bool

FRESH_SECONDS: Final = 1.0  # a look at everything is answered with for so long
CONNECT_SECONDS: Final = 2
STATEMENT_SECONDS: Final = 2
LOCK_SECONDS: Final = 1
ASKED_SECONDS: Final = 5.0  # a request waits so long for another request's look
HELD_SECONDS: Final = 15.0  # between two turns a group is held by nobody for a moment
WAITS_SECONDS: Final = 60.0  # due work of a group that is held; more: it does not keep up
TOLD_SECONDS: Final = 60.0  # a refused write is told for so long

_MIGRATED = "SELECT app, name FROM django_migrations"
_READ_ONLY = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'"
_LOCK = "SELECT 1 FROM objects_counter WHERE id = 1 FOR UPDATE"
# The session that began to write first is the one all others wait for.
_WRITER = """
    SELECT pid, application_name, state, extract(epoch FROM clock_timestamp() - xact_start) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xid IS NOT NULL
    ORDER BY xact_start LIMIT 1"""
_LEASES = """
    SELECT name, shard, extract(epoch FROM clock_timestamp() - max(until)) FROM objects_lease GROUP BY name, shard"""
_WAITS = """
    SELECT w.name, extract(epoch FROM clock_timestamp() - (
        SELECT due_at FROM objects_due WHERE lower(controller) = w.name AND due_at <= clock_timestamp()
          AND (lease_until IS NULL OR lease_until <= clock_timestamp()) ORDER BY due_at LIMIT 1
    )) FROM unnest(%s::text[]) AS w(name)"""


class Line(NamedTuple):
    """What one check found. `needed`: without it this process is not sent requests."""

    name: str
    problem: str
    note: str = ""
    needed: bool = False

    def __str__(self) -> str:
        if self.problem:
            return f"[-]{self.name} {'failed: ' if self.needed else ''}{self.problem}"
        return f"[+]{self.name} ok{': ' if self.note else ''}{self.note}"


class Report(NamedTuple):
    """All checks at one moment."""

    lines: tuple[Line, ...]

    @property
    def ready(self) -> bool:
        return not any(line.needed and line.problem for line in self.lines)

    @property
    def well(self) -> bool:
        return not any(line.problem for line in self.lines)

    def response(self, *, verbose: bool) -> tuple[int, str]:
        """Return status and text. Whatever is not well is told, also to a request that is not verbose."""
        end = f"readyz check {'passed' if self.ready else 'failed'}"
        text = "\n".join([*map(str, self.lines), end]) + "\n" if verbose or not self.well else "ok"
        return 200 if self.ready else 503, text


class Health:
    """What a process knows of its surroundings. May be asked from any thread; one at a time looks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own: psycopg.Connection[Any] | None = None
        self._report: tuple[float, Report] | None = None
        self._refused: tuple[float, str] | None = None

    def note_refused(self, why: str) -> None:
        """Note why the database refused a write."""
        self._refused = (clock(), why)

    def report(self) -> Report:
        """Return a look that is not older than a second."""
        if not self._lock.acquire(timeout=ASKED_SECONDS):
            return unanswered(ASKED_SECONDS)
        try:
            if self._report is None or clock() - self._report[0] > FRESH_SECONDS:
                self._report = (clock(), Report(tuple(self._look())))
            return self._report[1]
        finally:
            self._lock.release()

    def database_problem(self) -> str:
        """Return why the database cannot be asked on a connection of its own, "" where it can."""
        return next(line.problem for line in self.report().lines if line.name == "database")

    def _look(self) -> Iterator[Line]:
        own, problem = self._connected()
        yield Line("database", problem, needed=True)
        missing = "not looked at: the database does not answer"
        yield Line("migrations", _told(migrations, own) if own else missing, needed=True)
        yield Line("writes", self._writes(own) if own else missing)
        yield Line("redis", broker())
        if own is None:
            yield from (Line(name, missing) for name in ("workers", "members", "restore"))
            return
        try:
            yield from groups(own)
        except psycopg.Error as error:
            yield from (Line(name, cause(error)) for name in ("workers", "members"))
        yield Line("restore", _told(restore, own))

    def _connected(self) -> tuple[psycopg.Connection[Any] | None, str]:
        """Return a connection that has just answered, or why there is none. One that broke is replaced."""
        kept = self._own is not None
        try:
            if self._own is None:
                self._own = _connect()
            self._own.execute("SELECT 1")
            return self._own, ""
        except psycopg.Error as error:
            self._close()
            return self._connected() if kept else (None, cause(error))

    def _close(self) -> None:
        if self._own is not None:
            self._own.close()
            self._own = None

    def _writes(self, own: psycopg.Connection[Any]) -> str:
        if problem := _told(writes, own):
            return problem
        if self._refused is not None and (ago := clock() - self._refused[0]) < TOLD_SECONDS:
            return f"a write was refused {ago:.0f} s ago: {self._refused[1]}"
        return ""


def _connect() -> psycopg.Connection[Any]:
    given: dict[str, Any] = connection.get_connection_params()
    limits = f"-c statement_timeout={STATEMENT_SECONDS}s -c lock_timeout={LOCK_SECONDS}s"
    mine = {"autocommit": True, "connect_timeout": CONNECT_SECONDS, "application_name": "lifeboat health"}
    return psycopg.connect(**{**given, **mine, "options": f"{given.get('options', '')} {limits}"})


def _told(check: Callable[[psycopg.Connection[Any]], str], own: psycopg.Connection[Any]) -> str:
    try:
        return check(own)
    except psycopg.Error as error:
        return cause(error)


def migrations(own: psycopg.Connection[Any]) -> str:
    """Return whether the database has the shape the code wants, "" where it has."""
    missing = _known() - set(own.execute(_MIGRATED).fetchall())
    return f"{len(missing)} migrations are not applied; run manage.py prepare" if missing else ""


@lru_cache(maxsize=1)
def _known() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None).graph.nodes)


def writes(own: psycopg.Connection[Any]) -> str:
    """Return why nothing can be written, "" where it can: the write lock is asked for, and given back."""
    (read_only,) = own.execute(_READ_ONLY).fetchone() or (False,)
    if read_only:
        return CAUSES[READ_ONLY]
    try:
        own.execute(_LOCK)
    except psycopg.Error as error:
        return _writer(own) if sqlstate(error) == LOCKED else cause(error)
    return ""


def _writer(own: psycopg.Connection[Any]) -> str:
    found = own.execute(_WRITER).fetchone()
    if found is None or found[3] is None:  # its right to see other logins' sessions may be missing
        return "another session holds the write lock"
    pid, application, state, seconds = found
    who = f"session {pid}" + (f" ({application})" if application else "")
    return (
        f"{who} has held the write lock for up to {seconds:.0f} s and is {state}; "
        f"to end it: SELECT pg_terminate_backend({pid})"
    )


def broker() -> str:
    """Return why Redis takes no writes, "" where it does: no eviction without it."""
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1)
    try:
        RedisBucket(client).probe()
    except redis.RedisError as error:
        return f"no eviction tokens: {refusal(error)}"
    finally:
        client.close()
    return ""


def groups(own: psycopg.Connection[Any]) -> Iterator[Line]:
    """Yield a line for each group that workers run, and one for the members processes."""
    ended = {(name, shard): float(ago) for name, shard, ago in own.execute(_LEASES)}
    enabled = [one.name for group in GROUPS.values() for one in group.controllers if base().runs(one.name)]
    waits = {name: float(seconds or 0) for name, seconds in own.execute(_WAITS, [enabled])}
    for place in tick_names():
        name, _, shard = place.partition("/")
        yield _line(f"workers {place}", name, ended.get((name, int(shard))), waits, "worker")
    latest = min((ago for (name, _), ago in ended.items() if name == MEMBERS), default=None)
    yield _line("members", MEMBERS, latest, waits, "members process")


def _line(title: str, group: str, ended: float | None, waits: dict[str, float], who: str) -> Line:
    """Return what is known of a group; `ended`: how long ago its lease ended, negative while it is held."""
    oldest = max((waits.get(one.name, 0.0) for one in GROUPS[group].controllers), default=0.0)
    waiting = f"the oldest due object waits for {oldest:.0f} s" if oldest >= 1 else "nothing waits"
    if ended is None:
        return Line(title, f"never held, {waiting}: is a {who} running?")
    if ended > HELD_SECONDS:
        return Line(title, f"not held, last held {ended:.0f} s ago, {waiting}: is a {who} running?")
    held = "held now" if ended <= 0 else f"held {ended:.0f} s ago"
    if oldest > WAITS_SECONDS:
        return Line(title, f"{held}, but {waiting}: it does not keep up, or fails; see its log")
    return Line(title, "", f"{held}, {waiting}")


def unanswered(seconds: float) -> Report:
    """Return the report where a look takes longer than anybody waits."""
    return Report((Line("database", f"no answer within {seconds:g} s", needed=True),))


def restore(own: psycopg.Connection[Any]) -> str:
    """Return why members are left alone after a restore of the database, "" where they are not."""
    row = own.execute(origin.HELD).fetchone()
    return "" if row is None else origin.RestoreHold(*row).message


HEALTH: Final = Health()


@csrf_exempt
def livez(request: HttpRequest) -> HttpResponse:
    """This process answers. `apps.api.shell` answers before a request comes here, without a thread."""
    return HttpResponse("ok", content_type="text/plain; charset=utf-8")


@csrf_exempt
def readyz(request: HttpRequest) -> HttpResponse:
    """This process can do its work; ?verbose says what was looked at. `apps.api.shell` answers before it comes here."""
    status, text = HEALTH.report().response(verbose=go_bool("verbose", request.GET.get("verbose")))
    return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")
