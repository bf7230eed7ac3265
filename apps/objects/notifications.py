"""A connection of one's own that hears notices for as long as it lives: Django's go back to the pool."""

from __future__ import annotations

from typing import Any

import psycopg
from django.db import connection


def listening(channel: str) -> psycopg.Connection[Any]:
    """Return a connection that hears a channel, made as Django's are: with all DATABASE_URL says of TLS and the rest.

    Raises psycopg.OperationalError where the database is away.
    """
    given: dict[str, Any] = connection.get_connection_params()
    own = psycopg.connect(**{**given, "autocommit": True, "prepare_threshold": 5})
    own.execute(f"LISTEN {channel}")
    return own
