"""Making, finding, renewing and revoking bearer tokens.

A token is valid for LIFEBOAT_TOKEN_DAYS unless its maker says otherwise. An agent's is renewed by every use: as long as
its cluster is there and reports, nobody has to think of it.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import psycopg
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import DEFAULT_DB_ALIAS, connection

from apps.api import agents
from apps.api.models import Token
from apps.objects.apply import binary_cursor
from apps.objects.arrays import BinaryCursor
from apps.objects.refusal import cause

log = logging.getLogger(__name__)

PREFIX = "lb_"  # lets scanners recognise a leaked token


def digest_of(secret: str) -> str:
    """Return what is kept of a token."""
    return hashlib.sha256(secret.encode()).hexdigest()


def lifetime_of(days: int | None) -> timedelta | None:
    """Return how long a token is valid. days: None is the default of the setting, 0 is until revoked (None)."""
    days = settings.TOKEN_DAYS if days is None else days
    return timedelta(days=days) if days else None


def create(user: Any, name: str, *, days: int | None = None) -> str:
    """Make a token for a user and return it, for the only time; one of the same name is replaced.

    days: see `lifetime_of`. Tokens of agents whose cluster is gone are removed. Raises agents.NotJoined for an agent
    without a cluster.
    """
    cluster = agents.cluster_of(user)
    cluster_uid = agents.uid_of(cluster) if cluster else None
    forget_ended()
    secret = PREFIX + secrets.token_urlsafe(32)
    lifetime = lifetime_of(days)
    fresh = {"digest": digest_of(secret), "last_used": None, "cluster_uid": cluster_uid, **_until(lifetime)}
    Token.objects.update_or_create(user=user, name=name, defaults=fresh)
    return secret


def renew(token: Token, *, days: int | None = None) -> datetime | None:
    """Let a token be valid from now on for its lifetime, or for `days`; return until when, None: until revoked.

    A token that has none gets the default one. The secret stays the same. days: see `lifetime_of`.
    """
    lifetime = token.lifetime if days is None and token.lifetime is not None else lifetime_of(days)
    for name, value in _until(lifetime).items():
        setattr(token, name, value)
    token.save(update_fields=["lifetime", "expires"])
    return token.expires


def _until(lifetime: timedelta | None) -> dict[str, Any]:
    return {"lifetime": lifetime, "expires": None if lifetime is None else _now() + lifetime}


def validity(token: Token) -> str:
    """Return until when a token is valid, as people read it."""
    if token.expires is None:
        return "until revoked"
    if token.expires <= _now():
        return f"expired {token.expires:%Y-%m-%d %H:%M}"
    by_use = ", renewed by use" if token.cluster_uid else ""
    return f"until {token.expires:%Y-%m-%d %H:%M}{by_use}"


def valid(digests: Sequence[str]) -> dict[str, bool]:
    """Return which of these tokens are valid now, and for each whether its user is an administrator."""
    if not digests:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_valid("t.digest, u.is_superuser", "t.digest = ANY(%s)"), [list(digests)])
        return dict(cursor.fetchall())


def forget_ended() -> None:
    """Remove the tokens that ended with their cluster; they have let nobody in since."""
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM api_token t WHERE NOT {_LASTS}")


def find(secret: str) -> Any:
    """Return the active user whose valid token this is, None if there is none; its use is noted once a minute.

    One prepared statement: this is part of every request, and building it anew each time would cost more than the rest.
    """
    fields = get_user_model()._meta.concrete_fields
    with binary_cursor() as cursor:
        row = cursor.run(_statement(), (digest_of(secret),)).fetchone()
        if row is None:
            return None
        if row[0]:
            _note_use(cursor, secret)
    return get_user_model().from_db(DEFAULT_DB_ALIAS, [field.attname for field in fields], row[1:])


def _note_use(cursor: BinaryCursor, secret: str) -> None:
    """Note that a token was used. A database that takes no writes refuses that note, and not the request."""
    try:
        cursor.run(_USED, (digest_of(secret),))
    except psycopg.Error as error:
        log.warning("the use of a token is not noted: %s", cause(error))


# A person's, or of an agent whose very cluster is still there.
_LASTS = "(t.cluster_uid IS NULL OR EXISTS (SELECT 1 FROM clusters_cluster c WHERE c.uid = t.cluster_uid))"
# Another request that notes the same, and whoever else holds the row, is not waited for. An agent's token is valid anew
# for its lifetime; NULL, until revoked, stays NULL.
_USED = """
    UPDATE api_token SET last_used = date_trunc('minute', now()),
        expires = CASE WHEN cluster_uid IS NULL THEN expires ELSE now() + lifetime END
    WHERE id = (SELECT id FROM api_token WHERE digest = %s FOR UPDATE SKIP LOCKED)"""


@cache
def _statement() -> str:
    columns = ", ".join(f"u.{field.column}" for field in get_user_model()._meta.concrete_fields)
    return _valid(f"t.last_used IS DISTINCT FROM date_trunc('minute', now()), {columns}", "t.digest = %s")


def _valid(columns: str, which: str) -> str:
    """Return the query for valid tokens of active users."""
    return f"""
        SELECT {columns} FROM api_token t JOIN {get_user_model()._meta.db_table} u ON u.id = t.user_id
        WHERE {which} AND u.is_active AND (t.expires IS NULL OR t.expires > now()) AND {_LASTS}"""


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
