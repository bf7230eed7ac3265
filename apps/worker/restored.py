"""Looking whether the database was restored from a backup, with what this process and Redis remember of it.

Redis keeps the newest resourceVersion for each installation. It is marked every two seconds by API and members
processes. What is not noticed: a loss of versions that were written after the last mark, and a restore in which
neither the origin of the database changed nor Redis kept its mark; for these there is `manage.py restored`.
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
# Keeps the highest version: marks of several processes arrive in any order.
_MARK = """
    if tonumber(ARGV[1]) >= tonumber(redis.call('HGET', KEYS[1], 'version') or '0') then
        redis.call('HSET', KEYS[1], 'version', ARGV[1], 'at', ARGV[2])
    end"""


class Guard:
    """One process's memory of the database."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._mark: Any = client.register_script(_MARK)
        self._installation = ""
        self._seen: VersionMark | None = None  # None: this process has not looked yet

    def look(self) -> RestoreHold | None:
        """Raise the counter where the database was restored; return why members are left alone, None: they are not.

        Raises django.db.Error where the database cannot be asked.
        """
        found = origin.look(self._remembered)
        self._remember(found.state)
        if found.finding.verdict == "Restored":
            told(found.state)
        elif found.finding.verdict == "Moved":
            log.warning("another database server than before: resourceVersions go on at %d", found.state.version)
        return found.state.held

    def _remembered(self, installation: str) -> VersionMark | None:
        own = self._seen if installation == self._installation else None
        found = [one for one in (own, self._marked(installation)) if one is not None]
        return max(found, key=lambda one: one.version, default=None)

    def _marked(self, installation: str) -> VersionMark | None:
        try:
            found: Any = self._client.hmget(PREFIX + installation, "version", "at")
        except redis.RedisError:
            return None  # Redis is away: nothing is remembered there
        version, at = found
        return None if version is None else VersionMark(int(version), datetime.fromtimestamp(float(at), UTC))

    def _remember(self, state: origin.State) -> None:
        self._installation, self._seen = state.installation, VersionMark(state.version, state.now)
        try:
            self._mark(keys=[PREFIX + state.installation], args=[state.version, state.now.timestamp()])
        except redis.RedisError:
            pass  # Redis is away: the next look marks


def told(state: origin.State) -> None:
    """Write an Event and a line of the log about a restore."""
    assert state.held is not None, "only a restore that holds is told"
    log.error("resourceVersions go on at %d; %s", state.version, state.held.message)
    event = Event(failover_configuration(store()), "DatabaseRestored", state.held.message, warning=True)
    store().apply([(None, Decision(events=(event,)))], by=Actor(ACTOR))


@lru_cache(maxsize=1)
def guard() -> Guard:
    """Return this process's guard."""
    return Guard(broker.client())
