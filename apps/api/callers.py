"""Callers: the user who sends a request, found from its headers before its body is read."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.core.handlers.wsgi import WSGIRequest
from django.db import Error, close_old_connections

from apps.api.bearer import credential_of
from apps.api.budget import ANONYMOUS
from apps.api.client_certificates import CertificateRefused, login_of
from apps.api.error_mapping import status_error
from controlplane.apimachinery.errors import Unauthorized

CALLER = "lifeboat.user"  # key of the WSGI environment; the view stores the name of the authenticated user there
BAD_TOKEN = (
    "the bearer token is unknown, expired, revoked or of a deleted cluster; create a new token: manage.py token create"
)


def name_of(environ: Mapping[str, Any]) -> str:
    """Return the name of the user of a request's token or session; ANONYMOUS if the request has neither.

    Runs in a thread and closes the thread's database connection. The view authenticates the request again, then with
    the CSRF check. Raises Unauthorized for an invalid token, TooManyRequests after too many of them, and
    ServiceUnavailable if the database cannot be read.
    """
    request = WSGIRequest({**environ, "wsgi.input": io.BytesIO()})
    try:
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            credential = credential_of(secret.strip(), request)
            if credential is None:
                raise Unauthorized(BAD_TOKEN)
            user = credential.user
        elif (login := login_of(environ)) is not None:
            user = login.user
        else:
            key = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
            if key is None:
                return ANONYMOUS
            request.session = SessionStore(key)
            user = get_user(request)
        return str(user.get_username()) if user.is_active else ANONYMOUS
    except CertificateRefused as error:
        raise Unauthorized(f"the client certificate is not accepted: {error}") from error
    except Error as error:
        raise status_error(error) from error
    finally:
        close_old_connections()
