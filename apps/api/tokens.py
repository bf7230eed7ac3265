"""Bearer tokens: creation, look-up, renewal and revocation.

A token is valid for LIFEBOAT_TOKEN_DAYS unless it is created with another lifetime. Every use renews an agent's token,
so it stays valid as long as its cluster exists and reports.
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
    """Return the digest under which a token is stored."""
    return hashlib.sha256(secret.encode()).hexdigest()


def lifetime_of(days: int | None) -> timedelta | None:
    """Return how long a token is valid; None: until revoked.

    days: None is LIFEBOAT_TOKEN_DAYS, 0 is until revoked.
    """
    days = settings.TOKEN_DAYS if days is None else days
    return timedelta(days=days) if days else None


def create(user: Any, name: str, *, days: int | None = None) -> str:
    """Create a token for a user and return its secret, which cannot be read again. It replaces one of the same name.

    days: see `lifetime_of`. Tokens of agents whose cluster was deleted are removed at the same time. Raises
    agents.NotJoined for an agent without a cluster.
    """
    cluster = agents.cluster_of(user)
    cluster_uid = agents.uid_of(cluster) if cluster else None
    forget_ended()
    secret = PREFIX + secrets.token_urlsafe(32)
    lifetime = lifetime_of(days)
    values = {"digest": digest_of(secret), "last_used": None, "cluster_uid": cluster_uid, **_until(lifetime)}
    Token.objects.update_or_create(user=user, name=name, defaults=values)
    return secret


def renew(token: Token, *, days: int | None = None) -> datetime | None:
    """Make a token valid from now for its lifetime, or for `days`; return when it expires. None: until revoked.

    A token without a lifetime gets the default lifetime. The secret stays the same. days: see `lifetime_of`.
    """
    lifetime = token.lifetime if days is None and token.lifetime is not None else lifetime_of(days)
    for name, value in _until(lifetime).items():
        setattr(token, name, value)
    token.save(update_fields=["lifetime", "expires"])
    return token.expires


def _until(lifetime: timedelta | None) -> dict[str, Any]:
    return {"lifetime": lifetime, "expires": None if lifetime is None else _now() + lifetime}


def validity(token: Token) -> str:
    """Return the validity of a token as text: "until 2026-03-14 02:36", "expired …" or "until revoked"."""
    if token.expires is None:
        return "until revoked"
    if token.expires <= _now():
        return f"expired {token.expires:%Y-%m-%d %H:%M}"
    by_use = ", renewed by use" if token.cluster_uid else ""
    return f"until {token.expires:%Y-%m-%d %H:%M}{by_use}"


def valid(digests: Sequence[str]) -> dict[str, bool]:
    """Return the valid tokens among these digests, each with whether its user is an administrator."""
    if not digests:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_valid("t.digest, u.is_superuser", "t.digest = ANY(%s)"), [list(digests)])
        return dict(cursor.fetchall())


def forget_ended() -> None:
    """Delete the tokens of agents whose cluster was deleted. Such tokens are invalid already."""
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM api_token t WHERE NOT {_LASTS}")


def find(secret: str) -> Any:
    """Return the active user of a valid token; None: the token is not valid. The use is stored once a minute.

    This runs for every request. It is one prepared statement, because building a query would cost more than the query.
    """
    fields = get_user_model()._meta.concrete_fields
    with binary_cursor() as cursor:
        row = cursor.run(_statement(), (digest_of(secret),)).fetchone()
        if row is None:
            return None
        if row[0]:
            _note_use(cursor, secret)
    user = get_user_model().from_db(DEFAULT_DB_ALIAS, [field.attname for field in fields], row[3:])
    user.group_names = tuple(row[1])  # type: ignore[attr-defined]  # read by access.caller_of
    user.credential_id = f"JTI={row[2]}"  # type: ignore[attr-defined]  # read by access.caller_of
    return user


def _note_use(cursor: BinaryCursor, secret: str) -> None:
    """Store that a token was used. If the database accepts no writes, only this is skipped; the request goes on."""
    try:
        cursor.run(_USED, (digest_of(secret),))
    except psycopg.Error as error:
        log.warning("the last use of a token could not be stored: %s", cause(error))


# Not an agent's token, or the token of an agent whose Cluster, with the same uid, still exists.
_LASTS = "(t.cluster_uid IS NULL OR EXISTS (SELECT 1 FROM clusters_cluster c WHERE c.uid = t.cluster_uid))"
# SKIP LOCKED: a request does not wait for another session that holds the row. An agent's token is renewed for its
# lifetime. NULL, valid until revoked, stays NULL.
_USED = """
    UPDATE api_token SET last_used = date_trunc('minute', now()),
        expires = CASE WHEN cluster_uid IS NULL THEN expires ELSE now() + lifetime END
    WHERE id = (SELECT id FROM api_token WHERE digest = %s FOR UPDATE SKIP LOCKED)"""


_GROUPS = """
    ARRAY(SELECT g.name FROM auth_group g JOIN auth_user_groups m ON m.group_id = g.id WHERE m.user_id = u.id
          ORDER BY g.name)"""


@cache
def _statement() -> str:
    columns = ", ".join(f"u.{field.column}" for field in get_user_model()._meta.concrete_fields)
    used = "t.last_used IS DISTINCT FROM date_trunc('minute', now())"
    return _valid(f"{used}, {_GROUPS}, t.id, {columns}", "t.digest = %s")


def _valid(columns: str, which: str) -> str:
    """Return the query for valid tokens of active users."""
    return f"""
        SELECT {columns} FROM api_token t JOIN {get_user_model()._meta.db_table} u ON u.id = t.user_id
        WHERE {which} AND u.is_active AND (t.expires IS NULL OR t.expires > now()) AND {_LASTS}"""


def revoke(user: Any, name: str) -> bool:
    """Delete a user's token. False: the user has no token of that name."""
    deleted, _ = Token.objects.filter(user=user, name=name).delete()
    return deleted > 0


def _now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        row = cursor.fetchone()
    moment: datetime = row[0]
    return moment
