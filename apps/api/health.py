"""Health checks: /livez and /readyz, for load balancers and operators. They need no login.

The database is checked on a separate connection, because all connections of the pool may be waiting. Every step has a
time limit, so that the whole answer has a time limit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import psycopg
import redis
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from apps.api.clock import ticks as clock
from apps.failover.bucket import RedisBucket, refusal
from apps.failover.redis_client import redis_client
from apps.objects import origin
from apps.objects.configuration import base
from apps.objects.refusal import CAUSES, LOCKED, READ_ONLY, cause, sqlstate
from apps.worker.beat_presence import BEAT
from apps.worker.groups import GROUPS, MEMBERS, tick_names
from apps.worker.watchdog import STOPPED
from controlplane.wire.negotiate import go_bool

FRESH_SECONDS: Final = 1.0  # a report is reused for this long
CONNECT_SECONDS: Final = 2
STATEMENT_SECONDS: Final = 2
LOCK_SECONDS: Final = 1
WAIT_SECONDS: Final = 5.0  # a request waits this long for the checks of another request
HELD_SECONDS: Final = 15.0  # a returned lease may be free for this long: between two turns of a group, or two beats
EXPIRED_SECONDS: Final = 3.0  # as HELD_SECONDS, if the holder did not return the lease: it was killed, or it hangs
LATE_SECONDS: Final = 60.0  # a group whose oldest due object is older does not keep up
REFUSED_SECONDS: Final = 60.0  # a refused write is reported for this long

_MIGRATED = "SELECT app, name FROM django_migrations"
_READ_ONLY = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'"
_LOCK = "SELECT 1 FROM objects_counter WHERE id = 1 FOR UPDATE"
# The session that began to write first is the session that all others wait for.
_WRITER = """
    SELECT pid, application_name, state, extract(epoch FROM clock_timestamp() - xact_start) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xid IS NOT NULL
    ORDER BY xact_start LIMIT 1"""
_LEASES = """
    SELECT name, shard, extract(epoch FROM clock_timestamp() - until), holder FROM objects_lease"""
_WAITS = """
    SELECT w.name, extract(epoch FROM clock_timestamp() - (
        SELECT due_at FROM objects_due WHERE lower(controller) = w.name AND due_at <= clock_timestamp()
          AND (lease_until IS NULL OR lease_until <= clock_timestamp()) ORDER BY due_at LIMIT 1
    )) FROM unnest(%s::text[]) AS w(name)"""


LATE: Final = "late"  # the process runs, and what is due for it waits for too long
UNKNOWN: Final = "unknown"  # the check itself could not be made


class Line(NamedTuple):
    """The result of one check. `problem` "": the check passed. `needed`: if it fails, this process is not ready.

    `why`: LATE or UNKNOWN if a check that failed does not mean that something does not run.
    """

    name: str
    problem: str
    note: str = ""
    needed: bool = False
    why: str = ""

    def __str__(self) -> str:
        if self.problem:
            return f"[-]{self.name} {'failed: ' if self.needed else ''}{self.problem}"
        return f"[+]{self.name} ok{': ' if self.note else ''}{self.note}"


class HealthReport(NamedTuple):
    """The results of all checks at one moment."""

    lines: tuple[Line, ...]

    @property
    def ready(self) -> bool:
        return not any(line.needed and line.problem for line in self.lines)

    @property
    def well(self) -> bool:
        return not any(line.problem for line in self.lines)

    def response(self, *, verbose: bool) -> tuple[int, str]:
        """Return the HTTP status and the text. Problems are reported also if the request is not verbose."""
        end = f"readyz check {'passed' if self.ready else 'failed'}"
        text = "\n".join([*map(str, self.lines), end]) + "\n" if verbose or not self.well else "ok"
        return 200 if self.ready else 503, text


class Health:
    """The health of one process. May be used from any thread; only one thread at a time runs the checks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own: psycopg.Connection[Any] | None = None
        self._report: tuple[float, HealthReport] | None = None
        self._refused: tuple[float, str] | None = None

    def note_refused(self, why: str) -> None:
        """Remember why the database refused a write, for the check `writes`."""
        self._refused = (clock(), why)

    def report(self) -> HealthReport:
        """Return a report that is at most one second old."""
        if not self._lock.acquire(timeout=WAIT_SECONDS):
            return unanswered(WAIT_SECONDS, self._report and self._report[1])
        try:
            if self._report is None or clock() - self._report[0] > FRESH_SECONDS:
                self._report = (clock(), HealthReport(tuple(self._run_checks())))
            return self._report[1]
        finally:
            self._lock.release()

    def database_problem(self) -> str:
        """Return why the database cannot be reached on a separate connection. "": it can be reached."""
        return next(line.problem for line in self.report().lines if line.name == "database")

    def _run_checks(self) -> Iterator[Line]:
        own, problem = self._connected()
        yield Line("database", problem, needed=True)
        missing = "not checked: the database does not answer"
        why = "" if own else UNKNOWN
        yield Line("migrations", _problem(migrations, own) if own else missing, needed=True, why=why)
        yield Line("writes", self._writes(own) if own else missing, why=why)
        yield Line("redis", broker())
        if own is None:
            yield from (Line(name, missing, why=UNKNOWN) for name in ("workers", "members", "beat", "restore"))
            return
        try:
            yield from groups(own)
        except psycopg.Error as error:
            yield from (Line(name, cause(error), why=UNKNOWN) for name in ("workers", "members", "beat"))
        yield Line("restore", _problem(restore, own))

    def _connected(self) -> tuple[psycopg.Connection[Any] | None, str]:
        """Return a connection that has just answered, or why there is none. A broken connection is replaced."""
        kept = self._own is not None
        try:
            if self._own is None:
                self._own = _connect()
            self._own.execute("SELECT 1")
            return self._own, ""
        except psycopg.Error as error:
            self.close()
            return self._connected() if kept else (None, cause(error))

    def close(self) -> None:
        """Close the connection of the checks. The next report opens another."""
        if self._own is not None:
            self._own.close()
            self._own = None

    def _writes(self, own: psycopg.Connection[Any]) -> str:
        if problem := _problem(writes, own):
            return problem
        if self._refused is not None and (ago := clock() - self._refused[0]) < REFUSED_SECONDS:
            return f"a write was refused {ago:.0f} s ago: {self._refused[1]}"
        return ""


def _connect() -> psycopg.Connection[Any]:
    given: dict[str, Any] = connection.get_connection_params()
    limits = f"-c statement_timeout={STATEMENT_SECONDS}s -c lock_timeout={LOCK_SECONDS}s"
    mine = {"autocommit": True, "connect_timeout": CONNECT_SECONDS, "application_name": "lifeboat health"}
    return psycopg.connect(**{**given, **mine, "options": f"{given.get('options', '')} {limits}"})


def _problem(check: Callable[[psycopg.Connection[Any]], str], own: psycopg.Connection[Any]) -> str:
    """Return the problem that a check reports, or the database error it ends with. "": the check passed."""
    try:
        return check(own)
    except psycopg.Error as error:
        return cause(error)


def migrations(own: psycopg.Connection[Any]) -> str:
    """Return how many migrations are missing. "": all migrations are applied."""
    missing = _known() - set(own.execute(_MIGRATED).fetchall())
    return f"{len(missing)} migrations are not applied; run manage.py prepare" if missing else ""


@lru_cache(maxsize=1)
def _known() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None).graph.nodes)


def writes(own: psycopg.Connection[Any]) -> str:
    """Return why nothing can be written. "": the write lock could be taken; it is released at once."""
    (read_only,) = own.execute(_READ_ONLY).fetchone() or (False,)
    if read_only:
        return CAUSES[READ_ONLY]
    try:
        own.execute(_LOCK)
    except psycopg.Error as error:
        return _writer(own) if sqlstate(error) == LOCKED else cause(error)
    return ""


def _writer(own: psycopg.Connection[Any]) -> str:
    """Return which session holds the write lock, and how to end that session."""
    found = own.execute(_WRITER).fetchone()
    if found is None or found[3] is None:  # the login may lack the right to see the sessions of others
        return "another session holds the write lock"
    pid, application, state, seconds = found
    session = f"session {pid}" + (f" ({application})" if application else "")
    return (
        f"{session} has held the write lock for up to {seconds:.0f} s and is {state}; "
        f"to end it: SELECT pg_terminate_backend({pid})"
    )


def broker() -> str:
    """Return why Redis accepts no writes. "": it does. Without Redis nothing is evicted."""
    client = redis_client()
    try:
        RedisBucket(client).probe()
    except redis.RedisError as error:
        return f"no eviction tokens: {refusal(error)}"
    finally:
        client.close()
    return ""


def groups(own: psycopg.Connection[Any]) -> Iterator[Line]:
    """Yield a line for each controller group that workers run, and for main processes of workers, members and beat."""
    ended = {(name, shard): Ended(float(ago), holder) for name, shard, ago, holder in own.execute(_LEASES)}
    enabled = [
        controller.name for group in GROUPS.values() for controller in group.controllers if base().runs(controller.name)
    ]
    waits = {name: float(seconds or 0) for name, seconds in own.execute(_WAITS, [enabled])}
    for place in tick_names():
        name, _, shard = place.partition("/")
        yield _line(f"workers {place}", name, ended.get((name, int(shard))), waits, "worker")
    yield _stopped([one for (name, _), one in ended.items() if name == STOPPED])
    yield _line("members", MEMBERS, _latest(ended, MEMBERS), waits, "members process")
    yield _beat(_latest(ended, BEAT))


class Ended(NamedTuple):
    """When a lease ended, in seconds before now; negative: it is held. `holder` "": the holder returned it."""

    ago: float
    holder: str

    @property
    def is_missing(self) -> bool:
        """Test whether the lease is free for longer than the change from one holder to the next takes."""
        return self.ago > (EXPIRED_SECONDS if self.holder else HELD_SECONDS)


def _latest(ended: dict[tuple[str, int], Ended], name: str) -> Ended | None:
    return min((one for (lease, _), one in ended.items() if lease == name), default=None)


def _stopped(leases: Sequence[Ended]) -> Line:
    """Return the line about main processes of workers that do not run, as their pools report them.

    A process of a pool renews the lease between two turns, so it may be late. When the main process is back, it returns
    the lease.
    """
    held = sorted(one.holder for one in leases if one.ago <= 0 or (one.holder and one.ago <= HELD_SECONDS))
    if not held:
        return Line("worker", "", "every main process runs")
    host, _, pid = held[0].partition(":")
    return Line(
        "worker",
        f"process {pid} on {host} is stopped or was killed: its pool goes on without ticks, and is not replaced if it "
        f"fails; end it with kill -KILL {pid} and start a worker",
    )


def _beat(ended: Ended | None) -> Line:
    """Return the line of beat. `ended`: when the presence lease of beat ended."""
    without = "is beat running? Workers run without it, but take over from each other later"
    if ended is None:
        return Line("beat", f"never seen: {without}")
    if ended.is_missing:
        return Line("beat", f"last seen {ended.ago:.0f} s ago: {without}")
    return Line("beat", "", "seen now" if ended.ago <= 0 else f"seen {ended.ago:.0f} s ago")


def _line(title: str, group: str, ended: Ended | None, waits: dict[str, float], process: str) -> Line:
    """Return the line of a controller group. `ended`: when its lease ended; None: the lease was never held."""
    oldest = max((waits.get(controller.name, 0.0) for controller in GROUPS[group].controllers), default=0.0)
    waiting = f"the oldest due object waits for {oldest:.0f} s" if oldest >= 1 else "nothing waits"
    if ended is None:
        return Line(title, f"never seen, {waiting}: is a {process} running?")
    if ended.is_missing:
        return Line(title, f"not held, last held {ended.ago:.0f} s ago, {waiting}: is a {process} running?")
    held = "held now" if ended.ago <= 0 else f"held {ended.ago:.0f} s ago"
    if oldest > LATE_SECONDS:
        return Line(title, f"{held}, but {waiting}: it does not keep up, or fails; see its log", why=LATE)
    return Line(title, "", f"{held}, {waiting}")


def unanswered(seconds: float, before: HealthReport | None = None) -> HealthReport:
    """Return the report for checks that did not end in time. Problems of the report `before` are kept."""
    line = Line("database", f"no answer within {seconds:g} s", needed=True)
    known = before.lines if before is not None else ()
    return HealthReport((line, *(one for one in known if one.problem and one.name != line.name)))


def restore(own: psycopg.Connection[Any]) -> str:
    """Return why nothing is written to members after a restore of the database. "": members are written to."""
    row = own.execute(origin.HELD).fetchone()
    return "" if row is None else origin.RestoreHold(*row).message


HEALTH: Final = Health()


@csrf_exempt
def livez(request: HttpRequest) -> HttpResponse:
    """Answer 200: this process is alive. Behind `apps.api.shell` the shell answers instead, without a thread."""
    return HttpResponse("ok", content_type="text/plain; charset=utf-8")


@csrf_exempt
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer 200 if this process can serve requests, else 503. `?verbose` lists all checks.

    Behind `apps.api.shell` the shell answers instead, within a time limit.
    """
    status, text = HEALTH.report().response(verbose=go_bool("verbose", request.GET.get("verbose")))
    return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")
