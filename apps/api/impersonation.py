"""Impersonation: a request that is decided and recorded as another user's (`kubectl --as`).

As in Kubernetes, each header is one value: groups and extra values may contain commas, and a header that is there
several times has several values. The environment of WSGI joins such headers, so the shell notes them as they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from rest_framework.request import Request

from apps.api import authorization
from apps.api.authorization import Attributes
from apps.api.identity import Identity
from apps.api.incoming import IMPERSONATION, PREFIX
from apps.api.service_accounts import groups_of
from controlplane.apimachinery.errors import BadRequest
from controlplane.authorization.attributes import ANONYMOUS, AUTHENTICATED, SERVICE_ACCOUNT, UNAUTHENTICATED, Caller

USER, GROUP, UID, EXTRA = "impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-"
_GROUP_OF_IDS = "authentication.k8s.io"

Values = Mapping[str, tuple[str, ...]]
"""The values of each header, by its name in lower case."""


def impersonated(request: Request) -> Identity | None:
    """Return the user whom a request impersonates; None: it impersonates no user.

    Raises BadRequest for headers without a user, and Forbidden unless the user of the request has the verb
    `impersonate` on every part: the user, each group, the uid and each extra value.
    """
    headers = _sent(request)
    if not any(name != USER or any(values) for name, values in headers.items()):
        return None
    caller = _caller(headers)
    for attributes in _asked(request.user, caller):
        authorization.check(attributes)
    return Identity(_complete(caller))


def _sent(request: Request) -> Values:
    """Return the headers about impersonation. A server without the shell joins values of one name by commas: they are
    one value then, which names no group that exists, and so gives no right."""
    noted = request.META.get(IMPERSONATION)
    if noted is not None:
        return _by_name(noted)
    return _by_name((name.lower(), value) for name, value in request.headers.items() if name.lower().startswith(PREFIX))


def _by_name(headers: Iterable[tuple[str, str]]) -> Values:
    found: dict[str, tuple[str, ...]] = {}
    for name, value in headers:
        found[name] = (*found.get(name, ()), _text(name, value))
    return found


def _text(name: str, value: str) -> str:
    """Return a value, which WSGI reads as Latin-1 and clients send as UTF-8. Raises BadRequest if it is not."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        raise BadRequest(f"the value of the header {name} is not UTF-8") from None


def _caller(headers: Values) -> Caller:
    """Return the user that the headers describe. Raises BadRequest."""
    unknown = [name for name in headers if name not in (USER, GROUP, UID) and not name.startswith(EXTRA)]
    if unknown:
        raise BadRequest(f"the header {unknown[0]} is not known; use Impersonate-User, -Group, -Uid and -Extra-<key>")
    for name in (USER, UID):
        if len(headers.get(name, ())) > 1:
            raise BadRequest(f"the header {name} is there more than once: a request can act as one user only")
    user, uid = ("".join(headers.get(name, ())) for name in (USER, UID))
    if not user:
        raise BadRequest("a request that impersonates groups, a uid or extra values must name a user: Impersonate-User")
    extra = {unquote(name.removeprefix(EXTRA)): values for name, values in headers.items() if name.startswith(EXTRA)}
    return Caller(user, headers.get(GROUP, ()), uid, extra)


def _asked(user: Any, caller: Caller) -> Iterator[Attributes]:
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
