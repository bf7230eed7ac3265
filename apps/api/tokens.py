"""Making, finding and revoking bearer tokens."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.contrib.auth import get_user_model
from django.db import DEFAULT_DB_ALIAS, connection

from apps.api import agents
from apps.api.models import Token
from apps.objects.apply import binary_cursor

PREFIX = "lb_"  # lets scanners recognise a leaked token


def digest_of(secret: str) -> str:
    """Return what is kept of a token."""
    return hashlib.sha256(secret.encode()).hexdigest()


def create(user: Any, name: str, *, lifetime: timedelta | None = None) -> str:
    """Make a token for a user and return it, for the only time; one of the same name is replaced.

    Raises agents.NotJoined for an agent without a cluster. Tokens of agents whose cluster is gone are removed.
    """
    cluster = agents.cluster_of(user)
    cluster_uid = agents.uid_of(cluster) if cluster else None
    forget_ended()
    secret = PREFIX + secrets.token_urlsafe(32)
    expires = None if lifetime is None else _now() + lifetime
    fresh = {"digest": digest_of(secret), "expires": expires, "last_used": None, "cluster_uid": cluster_uid}
    Token.objects.update_or_create(user=user, name=name, defaults=fresh)
    return secret


def forget_ended() -> None:
    """Remove the tokens that ended with their cluster; they have let nobody in since."""
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM api_token t WHERE NOT {_LASTS}")


def find(secret: str) -> Any:
    """Return the active user whose valid token this is, None where there is none; its use is noted once a minute.

    One prepared statement: this is part of every request, and building it anew each time would cost more than the rest.
    """
    fields = get_user_model()._meta.concrete_fields
    with binary_cursor() as cursor:
        row = cursor.run(_statement(), (digest_of(secret),)).fetchone()
        if row is None:
            return None
        if row[0]:
            cursor.run(_USED, (digest_of(secret),))
    return get_user_model().from_db(DEFAULT_DB_ALIAS, [field.attname for field in fields], row[1:])


# A person's, or of an agent whose very cluster is still there.
_LASTS = "(t.cluster_uid IS NULL OR EXISTS (SELECT 1 FROM clusters_cluster c WHERE c.uid = t.cluster_uid))"
_USED = "UPDATE api_token SET last_used = date_trunc('minute', now()) WHERE digest = %s"


@cache
def _statement() -> str:
    users = get_user_model()._meta
    columns = ", ".join(f"u.{field.column}" for field in users.concrete_fields)
    return f"""
        SELECT t.last_used IS DISTINCT FROM date_trunc('minute', now()), {columns}
        FROM api_token t JOIN {users.db_table} u ON u.id = t.user_id
        WHERE t.digest = %s AND u.is_active AND (t.expires IS NULL OR t.expires > now()) AND {_LASTS}"""


def revoke(user: Any, name: str) -> bool:
    """Remove a user's token; False where there is none of that name."""
    gone, _ = Token.objects.filter(user=user, name=name).delete()
    return gone > 0


def _now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        row = cursor.fetchone()
    moment: datetime = row[0]
    return moment
