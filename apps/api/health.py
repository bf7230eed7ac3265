"""Alive and ready: asked by load balancers and by people, without a login."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import redis
from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from apps.api.clock import ticks
from apps.objects import origin
from controlplane.wire.negotiate import go_bool

LEASE_FRESH = timedelta(seconds=60)  # workers renew theirs every few seconds
_PLAN_SECONDS = 60.0
_LEASES = """
    SELECT count(*) FILTER (WHERE until > clock_timestamp() - %s * interval '1 second'), count(*) FROM objects_lease
    WHERE (name = 'members') = %s AND name <> 'api'"""


def database() -> str:
    """Ask the database anything; "" is well."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return ""


def broker() -> str:
    """Ask Redis."""
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1)
    try:
        client.ping()
    finally:
        client.close()
    return ""


_planned: tuple[float, str] | None = None


def migrations() -> str:
    """Look whether the database has the shape the code wants; remembered for a minute once it has."""
    global _planned
    if _planned is not None and ticks() - _planned[0] < _PLAN_SECONDS:
        return _planned[1]
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if missing:
        return f"{len(missing)} migrations are not applied; run manage.py migrate"
    _planned = (ticks(), "")
    return ""


def workers() -> str:
    """Look whether the leases of workers are fresh: without workers nothing moves, but reading works."""
    return _stale("worker", members=False)


def members() -> str:
    """Look whether a process talks to members: without one nothing is observed and nothing applied."""
    return _stale("members process", members=True)


def _stale(who: str, *, members: bool) -> str:
    with connection.cursor() as cursor:
        cursor.execute(_LEASES, [LEASE_FRESH.total_seconds(), members])
        fresh, known = cursor.fetchone()
    if known and not fresh:
        return f"none of {known} leases was renewed within {LEASE_FRESH.seconds} s; is a {who} running?"
    return ""


def restore() -> str:
    """Look whether members are left alone because the database was restored."""
    found = origin.held()
    return "" if found is None else found.told


# What has to be well for this process to be sent requests; the rest is told and does not make it unready.
NEEDED: dict[str, Callable[[], str]] = {"database": database, "migrations": migrations}
TOLD: dict[str, Callable[[], str]] = {"redis": broker, "workers": workers, "members": members, "restore": restore}
_ELSEWHERE = frozenset({"redis"})  # the others ask the database: where it is away, waiting for it once is enough


@csrf_exempt
def livez(request: HttpRequest) -> HttpResponse:
    """This process answers."""
    return HttpResponse("ok", content_type="text/plain; charset=utf-8")


@csrf_exempt
def readyz(request: HttpRequest) -> HttpResponse:
    """This process can do its work; ?verbose says what was looked at."""
    problems: dict[str, str] = {}
    for name, check in (NEEDED | TOLD).items():
        asked = name in _ELSEWHERE or not problems.get("database")
        problems[name] = _problem(check) if asked else "not looked at: the database does not answer"
    ready = not any(problems[name] for name in NEEDED)
    lines = [f"[{'-' if problem else '+'}]{name} {problem or 'ok'}" for name, problem in problems.items()]
    lines.append(f"readyz check {'passed' if ready else 'failed'}")
    verbose = go_bool("verbose", request.GET.get("verbose")) or not ready
    text = "\n".join(lines) + "\n" if verbose else "ok"
    return HttpResponse(text, status=200 if ready else 503, content_type="text/plain; charset=utf-8")


def _problem(check: Callable[[], str]) -> str:
    try:
        return check()
    except Exception as error:  # noqa: BLE001  # whatever it is, the check has failed
        return f"failed: {type(error).__name__}"
