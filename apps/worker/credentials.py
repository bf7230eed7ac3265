"""Credentials that controllers issue: random tokens, and the authority that clients of the API trust."""

from __future__ import annotations

import secrets
from pathlib import Path

from django.conf import settings

from controlplane.authentication.questions import Issued, NewTokens

PREFIX = "lbsa_"  # of tokens of ServiceAccounts, so that scanners recognise a token that leaked


def issued(question: NewTokens) -> Issued:
    """Return new tokens of 256 random bits each, and the authority of the API."""
    return Issued(tuple(PREFIX + secrets.token_urlsafe(32) for _ in range(question.count)), authority())


def authority() -> str:
    """Return the PEM of the authority that signed the API's certificate, from the file LIFEBOAT_API_AUTHORITY.

    "": there is no such file, so clients trust what their host trusts.
    """
    path = Path(settings.API_AUTHORITY)
    return path.read_text() if settings.API_AUTHORITY and path.is_file() else ""
