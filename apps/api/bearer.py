"""Bearer tokens of a request: of users, of ServiceAccounts, or of members that register themselves."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection
from typing import Any, NamedTuple

from django.conf import settings
from django.http import HttpRequest

from apps.api import bootstrap_tokens, oidc, oidc_users, service_accounts, tokens
from apps.api.clock import ticks
from apps.api.login_throttle import MAX_COUNTED, Attempts, address_of
from controlplane.apimachinery.errors import TooManyRequests


class Credential(NamedTuple):
    """The user of a valid bearer token, and the key under which a stream finds out whether the token is still valid."""

    user: Any
    key: str


def credential_of(secret: str, request: HttpRequest) -> Credential | None:
    """Return the credential of a bearer token; None: the token is not valid.

    Raises TooManyRequests for a bootstrap token from an address that has sent too many wrong ones, because
    such a token is shorter than all others.
    """
    if bootstrap_tokens.is_one(secret):
        user = _throttled(secret, address_of(request))
        return None if user is None else Credential(user, bootstrap_tokens.key_of(secret))
    if oidc.is_one(secret):
        found = oidc.PROVIDER.find(secret)
        if found is None or oidc_users.is_deactivated(found.user.caller.uid):
            return None
        return Credential(*found)
    user = service_accounts.find(secret) if secret.startswith(service_accounts.PREFIX) else tokens.find(secret)
    return None if user is None else Credential(user, tokens.digest_of(secret))


def valid(keys: Collection[str]) -> dict[str, bool]:
    """Return the keys of valid tokens, each with whether its user is a superuser. The number of queries is constant."""
    bootstrap = [key for key in keys if key.startswith(bootstrap_tokens.KEY)]
    digests = [key for key in keys if ":" not in key]
    return tokens.valid(digests) | service_accounts.valid(digests) | bootstrap_tokens.valid(bootstrap)


_wrong = Attempts(burst=settings.LOGINS_PER_MINUTE, seconds_each=60 / settings.LOGINS_PER_MINUTE, most=MAX_COUNTED)
_lock = threading.Lock()


def _throttled(secret: str, address: str) -> Any:
    """Return the user of a bootstrap token. Raises TooManyRequests; only wrong tokens are counted."""
    with _lock:
        wait = _wrong.wait_of(address, now=ticks())
    if wait:
        raise TooManyRequests(
            f"too many wrong bootstrap tokens from this address; try again in {math.ceil(wait)} s",
            retry_after_seconds=math.ceil(wait),
        )
    user = bootstrap_tokens.find(secret)
    if user is None:
        with _lock:
            _wrong.wait(address, now=ticks())
    return user
