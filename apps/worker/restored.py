"""Detects that the database was restored from a backup, from what this process and Redis remember of it.

Redis keeps the newest resourceVersion of each installation. API and members processes look at it every two seconds, and
write it if it has another one.
Two cases are not detected: versions lost that were written after the last mark, and a restore on the same server
while Redis lost its mark. For these there is `manage.py restored`.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import redis

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
# Keeps the highest version, because marks of several processes arrive in any order.
_MARK = """
    if tonumber(ARGV[1]) >= tonumber(redis.call('HGET', KEYS[1], 'version') or '0') then
        redis.call('HSET', KEYS[1], 'version', ARGV[1], 'at', ARGV[2])
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

    def _remembered(self, installation: str) -> origin.Remembered:
        own = self._seen if installation == self._installation else None
        try:
            self._in_redis = self._marked(installation)
        except redis.RedisError:
            return origin.Remembered(own, redis_away=True)
        marks = [mark for mark in (own, self._in_redis) if mark is not None]
        return origin.Remembered(max(marks, key=lambda mark: mark.version, default=None))

    def _marked(self, installation: str) -> VersionMark | None:
        """Return what Redis remembers. Raises redis.RedisError."""
        found: Any = self._client.hmget(PREFIX + installation, "version", "at")
        version, at = found
        return None if version is None else VersionMark(int(version), datetime.fromtimestamp(float(at), UTC))

    def _remember(self, state: origin.State) -> None:
        self._installation, self._seen = state.installation, VersionMark(state.version, state.now)
        if self._in_redis is not None and self._in_redis.version == state.version:
            return
        try:
            self._mark(keys=[PREFIX + state.installation], args=[state.version, state.now.timestamp()])
        except redis.RedisError:
            pass  # Redis is away: the next check writes the mark


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
