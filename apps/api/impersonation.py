"""Impersonation: a request that is decided and recorded as another user's (`kubectl --as`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from rest_framework.request import Request

from apps.api import authorization
from apps.api.authorization import Attributes
from apps.api.identity import Identity
from apps.api.service_accounts import groups_of
from controlplane.apimachinery.errors import BadRequest
from controlplane.authorization.attributes import ANONYMOUS, AUTHENTICATED, SERVICE_ACCOUNT, UNAUTHENTICATED, Caller

USER, GROUP, UID, EXTRA = "impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-"
_GROUP_OF_IDS = "authentication.k8s.io"


def impersonated(request: Request) -> Identity | None:
    """Return the user whom a request impersonates; None: it impersonates no user.

    Raises BadRequest for headers without a user, and Forbidden unless the user of the request has the verb
    `impersonate` on every part: the user, each group, the uid and each extra value.
    """
    headers = {name.lower(): value for name, value in request.headers.items()}
    if not any(name.startswith("impersonate-") and (value or name != USER) for name, value in headers.items()):
        return None
    caller = _caller(headers)
    for attributes in _asked(request.user, caller, headers):
        authorization.check(attributes)
    return Identity(_complete(caller))


def _caller(headers: Mapping[str, str]) -> Caller:
    """Return the user that the headers describe. Several groups are separated by commas. Raises BadRequest."""
    unknown = [
        name for name in headers if name.startswith("impersonate-") and not name.startswith((USER, GROUP, UID, EXTRA))
    ]
    if unknown:
        raise BadRequest(f"the header {unknown[0]} is not known; use Impersonate-User, -Group, -Uid and -Extra-<key>")
    if not headers.get(USER):
        raise BadRequest("a request that impersonates groups, a uid or extra values must name a user: Impersonate-User")
    extra = {
        unquote(name.removeprefix(EXTRA)): _values(value) for name, value in headers.items() if name.startswith(EXTRA)
    }
    return Caller(headers[USER], _values(headers.get(GROUP, "")), headers.get(UID, ""), extra)


def _values(header: str) -> tuple[str, ...]:
    return tuple(value.strip() for value in header.split(",") if value.strip())


def _asked(user: Any, caller: Caller, headers: Mapping[str, str]) -> Iterator[Attributes]:
    """Yield what the user of the request has to be allowed."""
    if (account := _account(caller.name)) is not None:
        namespace, name = account
        yield Attributes(user, "impersonate", "", "serviceaccounts", "", namespace, name)
    else:
        yield Attributes(user, "impersonate", "", "users", name=caller.name)
    for group in caller.groups:
        yield Attributes(user, "impersonate", "", "groups", name=group)
    if caller.uid:
        yield Attributes(user, "impersonate", _GROUP_OF_IDS, "uids", name=caller.uid)
    for key, values in caller.extra.items():
        for value in values:
            yield Attributes(user, "impersonate", _GROUP_OF_IDS, "userextras", key, name=value)


def _account(user: str) -> tuple[str, str] | None:
    """Return namespace and name of the ServiceAccount that a user is; None: another user."""
    namespace, _, name = user.removeprefix(SERVICE_ACCOUNT).partition(":")
    return (namespace, name) if user.startswith(SERVICE_ACCOUNT) and namespace and name else None


def _complete(caller: Caller) -> Caller:
    """Return the user with the groups that every such user is in."""
    groups = caller.groups
    if not groups and (account := _account(caller.name)) is not None:
        groups = groups_of(account[0])
    if caller.name == ANONYMOUS:
        groups = (*groups, UNAUTHENTICATED)
    elif AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups = (*groups, AUTHENTICATED)
    return Caller(caller.name, groups, caller.uid, caller.extra)
