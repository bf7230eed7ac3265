"""Callers without a login: the only object that they may ask for, if a role allows it."""

from __future__ import annotations

from rest_framework.request import Request

from apps.api.identity import Identity
from controlplane.authorization.attributes import ANONYMOUS, UNAUTHENTICATED, Caller

PATHS = frozenset(("/api/v1/namespaces/kube-public/configmaps/cluster-info",))
"""A member that registers itself reads there how to reach the API. Roles decide about it, as about every request."""


def anonymous(request: Request) -> Identity | None:
    """Return the user system:anonymous for a request that roles may allow without a login; None: it needs a login."""
    if request.method != "GET" or request.path_info not in PATHS:
        return None
    return Identity(Caller(ANONYMOUS, (UNAUTHENTICATED,)))
