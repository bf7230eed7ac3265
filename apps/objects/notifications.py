"""Connections for LISTEN. They are not taken from Django's pool, because they stay open as long as a process runs."""

from __future__ import annotations

import select
from typing import Any

import psycopg
from django.db import connection

LISTENER = "lifeboat listens to"


def listening(channel: str) -> psycopg.Connection[Any]:
    """Return a new connection that listens on a channel. It has the same parameters as Django's, TLS included.

    Raises psycopg.OperationalError if the database cannot be reached.
    """
    given: dict[str, Any] = connection.get_connection_params()
    named = {"application_name": f"{LISTENER} {channel}"}  # in pg_stat_activity, unless the URL names another
    own = psycopg.connect(**{**named, **given, "autocommit": True, "prepare_threshold": 5})
    own.execute(f"LISTEN {channel}")
    return own


def received(own: psycopg.Connection[Any], seconds: float) -> list[psycopg.Notify]:
    """Return the notifications that have arrived. If there are none, wait at most `seconds` for something to arrive.

    Empty: nothing arrived, or something that is no notification. Raises psycopg.OperationalError if the connection is
    closed. The wait is a single call of the kernel. psycopg's own wait looks at the connection ten times a second,
    which costs an idle process about 0.1 % of a core.
    """
    found = list(own.notifies(timeout=0))
    if not found and _is_readable(own, seconds):
        found = list(own.notifies(timeout=0))
    return found


def _is_readable(own: psycopg.Connection[Any], seconds: float) -> bool:
    readable = select.poll()
    readable.register(own.fileno(), select.POLLIN)
    return bool(readable.poll(seconds * 1000))
