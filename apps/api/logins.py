"""What a stream was opened with: a token or a browser's session, and whether that still counts.

A request is authenticated once, a watch lasts up to an hour. Its login is therefore looked at again every few seconds:
the stream ends with its token or session, with its user, and where the user's rights changed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.db.models.functions import Now
from rest_framework.request import Request

from apps.api import tokens


class Login(msgspec.Struct, frozen=True):
    """A token's digest, or the key of a session with a hash that changes with the user's password."""

    key: str
    user_id: int
    is_superuser: bool
    session_hash: str = ""  # "": a token


def login_of(request: Request) -> Login:
    """Return what an authenticated request was let in with."""
    user: Any = request.user
    if isinstance(request.auth, str):
        return Login(request.auth, user.pk, user.is_superuser)
    key: str = request.session.session_key or ""
    return Login(key, user.pk, user.is_superuser, user.get_session_auth_hash())


def ended(logins: Collection[Login]) -> set[Login]:
    """Return the logins that no longer count, in a constant number of queries. Raises django.db.Error."""
    sessions = {one.key for one in logins if one.session_hash}
    by_token = tokens.valid([one.key for one in logins if not one.session_hash])
    alive, users = set[str](), dict[int, Any]()
    if sessions:
        found = Session.objects.filter(session_key__in=sessions, expire_date__gt=Now())
        alive = set(found.values_list("session_key", flat=True))
        users = get_user_model().objects.in_bulk({one.user_id for one in logins if one.session_hash})

    def counts(one: Login) -> bool:
        if not one.session_hash:
            return by_token.get(one.key) == one.is_superuser
        user = users.get(one.user_id)
        if user is None or not user.is_active or user.is_superuser != one.is_superuser:
            return False
        return one.key in alive and user.get_session_auth_hash() == one.session_hash

    return {one for one in logins if not counts(one)}
