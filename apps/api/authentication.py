"""Authentication: by bearer token, by client certificate, or by a browser's session with CSRF protection."""

from __future__ import annotations

from typing import Any

from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from apps.api import agents
from apps.api.bearer import credential_of
from apps.api.callers import BAD_TOKEN
from apps.api.client_certificates import CertificateAuthentication
from apps.objects.access import caller_of


class BearerAuthentication(BaseAuthentication):
    """Authenticates `Authorization: Bearer <token>`. `request.auth` is the key of the credential."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        credential = credential_of(secret.strip(), request._request)
        if credential is None:
            raise AuthenticationFailed(BAD_TOKEN)
        return credential.user, credential.key

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="lifeboat"'


AUTHENTICATORS = (BearerAuthentication, CertificateAuthentication, SessionAuthentication)


def groups_of(user: Any) -> list[str]:
    """Return the groups of a user, with Kubernetes' names."""
    return [*([agents.GROUP] if agents.cluster_of(user) else []), *caller_of(user).groups]


def described(user: Any) -> dict[str, Any]:
    """Return a user as Kubernetes' reviews describe users: name, uid, groups and extra."""
    caller = caller_of(user)
    found: dict[str, Any] = {"username": caller.name, "uid": caller.uid, "groups": groups_of(user)}
    return found | ({"extra": {key: [*values] for key, values in caller.extra.items()}} if caller.extra else {})
