"""What controllers ask of the world when they issue credentials: random tokens, and the authority of the API."""

from __future__ import annotations

import msgspec


class NewTokens(msgspec.Struct, frozen=True):
    """The question for a number of new bearer tokens. Controllers use no random numbers of their own."""

    count: int


class Issued(msgspec.Struct, frozen=True):
    """The answer: as many tokens as were asked for, and the PEM of the authority that signed the API's certificate.

    `authority` "": clients need none, because the certificate is signed by an authority that every host trusts.
    """

    tokens: tuple[str, ...]
    authority: str = ""
