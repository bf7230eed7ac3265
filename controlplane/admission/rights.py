"""What expressions of admission policies and webhooks ask about rights, through the variable `authorizer`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controlplane.authorization.attributes import SERVICE_ACCOUNT, Caller, Request

MAX_QUESTIONS: Final = 100  # of one policy or webhook about one write
_ACCOUNTS: Final = "system:serviceaccounts"


def asked_of(question: Mapping[str, str], user: Mapping[str, Any]) -> tuple[Caller, Request]:
    """Return whose rights a question is about, and what this caller would do. `user`: the userInfo of the request.

    A ServiceAccount has the groups of its tokens except system:authenticated, as in Kubernetes.
    """
    request = Request(
        question["verb"],
        question.get("group", ""),
        question.get("resource", ""),
        question.get("subresource", ""),
        question.get("namespace", ""),
        question.get("name", ""),
        question.get("path", ""),
    )
    if account := question.get("account"):
        namespace = account.partition(":")[0]
        return Caller(f"{SERVICE_ACCOUNT}{account}", (_ACCOUNTS, f"{_ACCOUNTS}:{namespace}")), request
    extra = {key: tuple(values) for key, values in user.get("extra", {}).items()}
    return Caller(user.get("username", ""), tuple(user.get("groups", ())), user.get("uid", ""), extra), request
