"""Secrets of the type kubernetes.io/service-account-token: the ServiceAccount they name, and the index by it."""

from __future__ import annotations

from typing import Final

from controlplane.kinds.template import Template

TYPE: Final = "kubernetes.io/service-account-token"
NAME_ANNOTATION: Final = "kubernetes.io/service-account.name"
UID_ANNOTATION: Final = "kubernetes.io/service-account.uid"
ACCOUNT: Final = "account"
"""Name of the index of token Secrets by their ServiceAccount."""
EVERY: Final = "*"
"""The index value that all token Secrets have."""


def account_of(secret: Template) -> str:
    """Return the name of the ServiceAccount of a token Secret; "": the Secret is not one, or names no account."""
    if secret.content.get("type") != TYPE:
        return ""
    return secret.metadata.annotations.get(NAME_ANNOTATION, "")


def account_value(namespace: str, name: str) -> str:
    """Return the index value of the token Secrets of a ServiceAccount."""
    return f"{namespace}/{name}"


def account_keys(secret: Template) -> list[str]:
    """Return the index values of a Secret. A Secret that holds no token of a ServiceAccount has none."""
    name = account_of(secret)
    return [EVERY, account_value(secret.metadata.namespace, name)] if name else []
