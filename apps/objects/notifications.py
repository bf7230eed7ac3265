"""Connections for LISTEN. They are not taken from Django's pool, because they stay open as long as a process runs."""

from __future__ import annotations

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
