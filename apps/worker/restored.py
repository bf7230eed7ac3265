"""Detects that the database was restored from a backup, from what this process and Redis remember of it.

Redis keeps the newest resourceVersion of each installation. API and members processes look at it every two seconds, and
write it if it has another one. While nothing is written to members after a restore, Redis keeps it under the origin of
the database. A copy that is started beside the live installation, with the same Redis, is such a database: its versions
are no versions that the live one has lost.
Two cases are not detected: versions lost that were written after the last mark, and a restore on the same server
while Redis lost its mark. For these there is `manage.py restored`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import redis
from msgspec.structs import astuple

from apps.objects import origin
from apps.objects.store import store
from apps.worker import broker
from controlplane.controllers.reads.fleet_state import failover_configuration
from controlplane.engine.decision import Decision, Event
from controlplane.engine.restored import RestoreHold, VersionMark
from controlplane.engine.state import Actor

log = logging.getLogger(__name__)

PREFIX = "lifeboat:seen:"
ACTOR = "restore"
VERSION, AT = "version", "at"  # fields of a mark
_HELD: Final = "held"  # fields about a paused database end with this word and its origin
# Keeps the highest version, because marks of several processes arrive in any order.
_MARK = """
    if tonumber(ARGV[1]) >= tonumber(redis.call('HGET', KEYS[1], ARGV[3]) or '0') then
        redis.call('HSET', KEYS[1], ARGV[3], ARGV[1], ARGV[4], ARGV[2])
    end"""


class RestoreDetector:
    """What one process remembers of the database."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._mark: Any = client.register_script(_MARK)
        self._installation = ""
        self._seen: VersionMark | None = None  # None: this process has not read the version yet
        self._in_redis: VersionMark | None = None  # what the last look at Redis found; None: nothing, or it was away

    def check(self) -> RestoreHold | None:
        """Check the database, and raise the counter of resourceVersions if it was restored.

        Returns since when and why nothing is written to members; None: members are written to as usual.
        Raises django.db.Error if the database cannot be reached, and OriginUnknown while it is not known whether it was
        restored.
        """
        self._in_redis = None
        found = origin.look(self._remembered)
        self._remember(found.state)
        if found.finding.verdict == "Restored":
            report(found.state)
        elif found.finding.verdict == "Moved":
            log.warning("the database server is a different one; resourceVersions continue at %d", found.state.version)
        return found.state.held

    def _remembered(self, state: origin.State) -> origin.Remembered:
        own = self._seen if state.installation == self._installation else None
        try:
            fields: Any = self._client.hgetall(PREFIX + state.installation)
        except redis.RedisError:
            return origin.Remembered(own, redis_away=True)
        marks = _marks({name.decode(): value for name, value in fields.items()})
        self._in_redis = marks.get(_place(state))
        known = [mark for mark in (own, marks.get(""), self._in_redis) if mark is not None]
        newest = max(known, key=lambda mark: mark.version, default=None)
        return origin.Remembered(newest, beyond=max((mark.version for mark in marks.values()), default=0))

    def _remember(self, state: origin.State) -> None:
        self._installation, self._seen = state.installation, VersionMark(state.version, state.now)
        if self._in_redis is not None and self._in_redis.version == state.version:
            return
        names = [f"{name}{_place(state)}" for name in (VERSION, AT)]
        try:
            self._mark(keys=[PREFIX + state.installation], args=[state.version, state.now.timestamp(), *names])
        except redis.RedisError:
            pass  # Redis is away: the next check writes the mark


def _place(state: origin.State) -> str:
    """Return how the fields of a database's mark end: with its origin while nothing is written to members, else ""."""
    if state.held is None or state.kept is None:
        return ""
    return f":{_HELD}:{'/'.join(map(str, astuple(state.kept)))}"


def _marks(fields: Mapping[str, Any]) -> dict[str, VersionMark]:
    """Return the marks of an installation by how their fields end."""
    ends = [name.removeprefix(VERSION) for name in fields if name.startswith(VERSION)]
    return {
        end: VersionMark(int(fields[VERSION + end]), datetime.fromtimestamp(float(fields[AT + end]), UTC))
        for end in ends
    }


def report(state: origin.State) -> None:
    """Write an Event and a log line about a restore after which nothing is written to members."""
    assert state.held is not None, "the state is not held"
    log.error("resourceVersions continue at %d; %s", state.version, state.held.message)
    event = Event(failover_configuration(store()), "DatabaseRestored", state.held.message, warning=True)
    store().apply([(None, Decision(events=(event,)))], by=Actor(ACTOR))


@lru_cache(maxsize=1)
def detector() -> RestoreDetector:
    """Return the detector of this process."""
    return RestoreDetector(broker.client())
