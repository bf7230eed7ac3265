"""A certificate in a header counts only if a trusted proxy sends it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cryptography.fernet import Fernet
from django.test import Client

from apps.api import client_certificates
from apps.api.client_authority import make_authority
from apps.api.client_certificates import PEER, bundle, certificate_of
from apps.objects.namespaces import make_namespaces
from apps.objects.store import store
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


def test_another_authority_counts_and_a_process_starts_although_the_key_of_the_own_authority_is_lost(
    root: Client, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_namespaces(store())
    make_authority(store())
    settings.ENCRYPTION_KEYS = Fernet.generate_key().decode()
    monkeypatch.setattr(client_certificates, "FRESH_SECONDS", 0.0)

    assert bundle(tmp_path / "clients.crt") is None

    company = tmp_path / "company.crt"
    company.write_text(new_authority().certificate)
    settings.CLIENT_CA_FILE = str(company)
    found = bundle(tmp_path / "clients.crt")
    assert found is not None
    assert found.read_text() == company.read_text()
