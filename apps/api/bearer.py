"""Bearer tokens of a request: of users, or of ServiceAccounts."""

from __future__ import annotations

from typing import Any

from apps.api import service_accounts, tokens


def user_of(secret: str) -> Any:
    """Return the user or ServiceAccount of a bearer token; None: the token is not valid."""
    return service_accounts.find(secret) if secret.startswith(service_accounts.PREFIX) else tokens.find(secret)
