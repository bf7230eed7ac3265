"""Logins with bootstrap tokens: `Authorization: Bearer <id>.<secret>` of a Secret in kube-system."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from apps.api.clock import wall_now
from apps.api.identity import Identity
from apps.api.tokens import digest_of
from apps.objects.store import store
from controlplane.authentication import bootstrap_tokens
from controlplane.authorization.attributes import AUTHENTICATED, Caller
from controlplane.engine.state import Unreadable

log: Final = logging.getLogger(__name__)

KEY = "bootstrap:"
"""Begins the key of a login with a bootstrap token: its id and its digest follow."""


def is_one(secret: str) -> bool:
    """Test whether a bearer token has the form of a bootstrap token."""
    return bootstrap_tokens.parts_of(secret) is not None


def key_of(secret: str) -> str:
    """Return the key of a login with this token, which does not contain its secret."""
    return f"{KEY}{secret.partition('.')[0]}:{digest_of(secret)}"


def find(secret: str) -> Identity | None:
    """Return the user of a valid bootstrap token, in the groups of the token; None: the token is not valid."""
    parts = bootstrap_tokens.parts_of(secret)
    token = None if parts is None else _usable([parts[0]]).get(parts[0])
    if parts is None or token is None or not token.has_secret(parts[1]):
        return None
    return Identity(Caller(bootstrap_tokens.USER_PREFIX + token.id, (*token.groups, AUTHENTICATED)))


def valid(keys: Collection[str]) -> dict[str, bool]:
    """Return the valid logins among these keys. False, in each: the user is no superuser of Django.

    The login of a token whose Secret this process cannot decrypt is not valid. No caller can log in with it here.
    """
    ids = {key.split(":")[1] for key in keys}
    try:
        found = [_usable(ids)]
    except Unreadable:
        found = [_usable_if_readable(token_id) for token_id in ids]
    current = {key_of(f"{token.id}.{token.secret}") for tokens in found for token in tokens.values()}
    return dict.fromkeys(current.intersection(keys), False)


def _usable_if_readable(token_id: str) -> dict[str, bootstrap_tokens.BootstrapToken]:
    try:
        return _usable([token_id])
    except Unreadable as error:
        log.warning("the logins with a bootstrap token end: %s", error)
        return {}


def _usable(ids: Collection[str]) -> dict[str, bootstrap_tokens.BootstrapToken]:
    """Return the tokens with these ids with which a caller may log in now. Makes one query; none for no ids.

    Raises Unreadable if this process cannot decrypt the Secret of one of them.
    """
    found = store().get([bootstrap_tokens.ref_of(token_id) for token_id in ids]) if ids else {}
    tokens = (bootstrap_tokens.usable(secret, now=wall_now()) for secret in found.values())
    return {token.id: token for token in tokens if token is not None}
