"""A certificate in a header counts only if a trusted proxy sends it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from apps.api.client_certificates import PEER, certificate_of
from apps.worker.signing import new_authority


@pytest.mark.parametrize(
    ("mode", "peer", "names", "expected"),
    [
        ("proxy", "192.0.2.7", ["x-ssl-client-cert"], True),
        ("proxy", "::ffff:192.0.2.7", ["x-ssl-client-cert"], True),
        ("proxy", "192.0.2.8", ["x-ssl-client-cert"], False),
        ("proxy", "", ["x-ssl-client-cert"], False),
        ("proxy", "192.0.2.7", ["x-ssl-client-cert", "x-ssl-client-cert"], False),
        ("proxy", "192.0.2.7", ["client-cert"], False),
        ("tls", "192.0.2.7", ["x-ssl-client-cert"], False),
        ("off", "192.0.2.7", ["x-ssl-client-cert"], False),
    ],
    ids=["trusted", "trusted, IPv4 in IPv6", "untrusted", "unknown", "twice", "another header", "tls", "off"],
)
def test_a_header_counts_only_from_a_trusted_proxy(
    settings: Any, mode: str, peer: str, names: list[str], expected: bool
) -> None:
    settings.CLIENT_CERTIFICATES, settings.CLIENT_CERTIFICATE_PROXIES = mode, ("192.0.2.7/32",)
    value = quote(new_authority().certificate).encode()
    scope: Any = {"extensions": {PEER: peer}, "headers": [(name.encode(), value) for name in names]}

    assert (certificate_of(scope) is not None) is expected
