"""Logins with client certificates at a process that has not the newest encryption key."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.serialization import Encoding
from django.test import Client
from msgspec.structs import replace

from apps.api import client_certificates
from apps.api.client_authority import make_authority
from apps.api.client_certificates import CERTIFICATE
from apps.objects.access import access
from apps.objects.default_roles import make_roles
from apps.objects.namespaces import make_namespaces
from apps.objects.rotation import rotate
from apps.objects.store import store
from apps.worker.signing import Authority, new_authority, signed
from controlplane.authentication.signing_requests import Sign, ToSign
from controlplane.controllers.signing_requests import AUTHORITY
from controlplane.kinds.template import secret_data
from tests.apps.pages import change
from tests.builders.certificates import private_key, request_for

ME = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def certificate(authority: Authority, name: str) -> bytes:
    """Return the DER of a client certificate."""
    request = base64.b64decode(request_for(name, key=private_key())).decode()
    (pem,) = signed(Sign(authority.certificate, authority.key, (ToSign(request, ("client auth",), 3600),)))
    return x509.load_pem_x509_certificate(pem.encode()).public_bytes(Encoding.DER)


@pytest.fixture
def own(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """The authority of the control plane, which is read again for each login."""
    monkeypatch.setattr(client_certificates, "FRESH_SECONDS", -1.0)
    monkeypatch.setattr(client_certificates, "_known", [])
    make_namespaces(store())
    make_roles(store())
    access().policy(reread=True)
    make_authority(store())
    secret = store().get([AUTHORITY])[AUTHORITY]
    return Authority(*(secret_data.text(secret, key) for key in ("tls.crt", "tls.key")))


def login(der: bytes) -> tuple[int, Any]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    asked: dict[str, Any] = {"content_type": "application/json", CERTIFICATE: der}
    answer = Client(enforce_csrf_checks=True).post(ME, body, **asked)
    return answer.status_code, answer.json()


def rotated(settings: Any) -> None:
    """Encrypt all Secrets with a new key that this process has not."""
    old = settings.ENCRYPTION_KEYS
    settings.ENCRYPTION_KEYS = f"{Fernet.generate_key().decode()},{old}"
    rotate()
    settings.ENCRYPTION_KEYS = old


def test_a_process_that_knew_the_authority_accepts_its_certificates_after_the_keys_were_changed(
    own: Authority, settings: Any
) -> None:
    eva = certificate(own, "eva")
    assert login(eva)[0] == 201

    rotated(settings)

    assert login(eva)[1]["status"]["userInfo"]["username"] == "eva"
    assert login(certificate(new_authority(), "eva"))[0] == 401


def test_a_process_that_never_read_the_authority_says_what_it_lacks(
    own: Authority, settings: Any, tmp_path: Path
) -> None:
    company = new_authority()
    (tmp_path / "ca.crt").write_text(company.certificate)
    rotated(settings)

    alone = login(certificate(own, "eva"))
    settings.CLIENT_CA_FILE = str(tmp_path / "ca.crt")

    assert (alone[0], alone[1]["reason"]) == (503, "ServiceUnavailable")
    assert "start it again with all keys in LIFEBOAT_ENCRYPTION_KEYS" in alone[1]["message"]
    assert login(certificate(own, "eva"))[0] == 503
    assert login(certificate(company, "bob"))[1]["status"]["userInfo"]["username"] == "bob"
    trusted = client_certificates.bundle(tmp_path / "clients.crt")
    assert trusted is not None
    assert trusted.read_text() == company.certificate


def test_a_replaced_authority_that_cannot_be_read_does_not_leave_the_earlier_one_in_force(
    own: Authority, settings: Any
) -> None:
    eva = certificate(own, "eva")
    assert login(eva)[0] == 201
    old, newer = settings.ENCRYPTION_KEYS, Fernet.generate_key().decode()
    settings.ENCRYPTION_KEYS = newer + "," + old
    live, made = store().get([AUTHORITY])[AUTHORITY], new_authority()
    data = {"tls.crt": secret_data.encoded(made.certificate), "tls.key": secret_data.encoded(made.key)}
    change(live, replace(live, content={**live.content, "data": data}))
    settings.ENCRYPTION_KEYS = old

    assert login(eva)[0] == 503
