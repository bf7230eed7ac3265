"""Answers to access reviews and token requests. A member allows everything to every caller with a token."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.wire.resource import Resource

Document = dict[str, Any]

_USER = {"username": "simulator", "groups": ["system:masters", "system:authenticated"]}
_EVERYTHING = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def answer(resource: Resource, question: Document, tokens: set[str]) -> Document:
    """Return a review with its answer in the status."""
    if resource.kind == "TokenReview":
        known = (question.get("spec") or {}).get("token", "") in tokens
        status: Document = {"authenticated": True, "user": _USER} if known else {"authenticated": False}
    elif resource.kind == "SelfSubjectReview":
        status = {"userInfo": _USER}
    elif resource.kind == "SelfSubjectRulesReview":
        status = _EVERYTHING
    else:
        status = {"allowed": True, "reason": "a simulated member allows everything"}
    return {**question, "kind": resource.kind, "apiVersion": resource.api_version, "status": status}


def token_request(question: Document, tokens: set[str]) -> Document:
    """Return a TokenRequest with a new token, which the member accepts from now on."""
    token = secrets.token_urlsafe(24)
    tokens.add(token)
    seconds = (question.get("spec") or {}).get("expirationSeconds") or 3600
    until = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {**question, "status": {"token": token, "expirationTimestamp": until}}
