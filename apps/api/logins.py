"""Logins of streams: the token or browser session that opened a watch, and whether it is still valid.

A watch lasts up to an hour, so its login is checked again every few seconds. The stream ends when its token or session
is no longer valid, when its user is deactivated, or when the user gains or loses administrator rights.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.db.models.functions import Now
from rest_framework.request import Request

from apps.api import bearer, oidc_users
from apps.api.client_certificates import lasts

LOGIN_USER = "lifeboat.login_user"  # key of the WSGI environment: the user of the login, if another is impersonated


class Login(msgspec.Struct, frozen=True):
    """The login of a stream: the key of a token (`bearer.Credential`), or of a session.

    A session also has a hash that changes with the password.
    """

    key: str
    user_id: int | None  # None: not a user of Django
    is_superuser: bool
    session_hash: str = ""  # "": the login is a token


def login_of(request: Request) -> Login:
    """Return the token or session of an authenticated request."""
    user: Any = request.META.get(LOGIN_USER, request.user)
    if isinstance(request.auth, str):
        return Login(request.auth, user.pk, user.is_superuser)
    key: str = request.session.session_key or ""
    return Login(key, user.pk, user.is_superuser, user.get_session_auth_hash())


def ended(logins: Collection[Login]) -> set[Login]:
    """Return the logins that are no longer valid. The number of queries is constant. Raises django.db.Error."""
    sessions = {login.key for login in logins if login.session_hash}
    by_token = bearer.valid({login.key for login in logins if not login.session_hash})
    lasting = {login.key: login.is_superuser for login in logins if lasts(login.key)}
    deactivated = oidc_users.ended(lasting)
    by_token |= {key: is_superuser for key, is_superuser in lasting.items() if key not in deactivated}
    alive, users = set[str](), dict[int, Any]()
    if sessions:
        current = Session.objects.filter(session_key__in=sessions, expire_date__gt=Now())
        alive = set(current.values_list("session_key", flat=True))
        users = get_user_model().objects.in_bulk({login.user_id for login in logins if login.session_hash})

    def is_valid(login: Login) -> bool:
        if not login.session_hash:
            return by_token.get(login.key) == login.is_superuser
        user = None if login.user_id is None else users.get(login.user_id)
        if user is None or not user.is_active or user.is_superuser != login.is_superuser:
            return False
        return login.key in alive and user.get_session_auth_hash() == login.session_hash

    return {login for login in logins if not is_valid(login)}
