"""Answers to access reviews and token requests. A member allows everything to every caller with a token."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.wire.resource import Resource

Document = dict[str, Any]

_USER = {"username": "simulator", "groups": ["system:masters", "system:authenticated"]}
TOKEN_SECRET = "kubernetes.io/service-account-token"
_EVERYTHING = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def answer(resource: Resource, question: Document, tokens: set[str], impersonated: Mapping[str, Any]) -> Document:
    """Return a review with its answer in the status. `impersonated`: the user whom the caller impersonates."""
    if resource.kind == "TokenReview":
        known = (question.get("spec") or {}).get("token", "") in tokens
        status: Document = {"authenticated": True, "user": _USER} if known else {"authenticated": False}
    elif resource.kind == "SelfSubjectReview":
        status = {"userInfo": impersonated or _USER}
    elif resource.kind == "SelfSubjectRulesReview":
        status = _EVERYTHING
    else:
        status = {"allowed": True, "reason": "a simulated member allows everything"}
    return {**question, "kind": resource.kind, "apiVersion": resource.api_version, "status": status}


def with_token(document: Document, tokens: set[str]) -> Document:
    """Return a Secret for a ServiceAccount's token with a new token, which the member accepts from now on."""
    token = secrets.token_urlsafe(24)
    tokens.add(token)
    data = {**(document.get("data") or {}), "token": base64.b64encode(token.encode()).decode()}
    return {**document, "data": data}


def token_request(question: Document, tokens: set[str]) -> Document:
    """Return a TokenRequest with a new token, which the member accepts from now on."""
    token = secrets.token_urlsafe(24)
    tokens.add(token)
    seconds = (question.get("spec") or {}).get("expirationSeconds") or 3600
    until = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {**question, "status": {"token": token, "expirationTimestamp": until}}
