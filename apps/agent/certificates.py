"""Certificates of an agent: asked for with a CertificateSigningRequest, and renewed before they expire."""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from apps.agent.control_plane import REQUESTS, ControlPlane
from controlplane.authentication.signing_requests import OWN_AGENT_PREFIX, OWN_AGENTS_GROUP
from controlplane.kinds.template.signing_request import CLIENT_SIGNER, DENIED, FAILED

log = logging.getLogger(__name__)

USAGES: Final = ("client auth", "digital signature")
ASK_SECONDS: Final = 1.0


class NoCertificate(Exception):
    """The control plane does not give a certificate. The message says why, and what to do."""


async def certificate_for(control_plane: ControlPlane, *, lasts: timedelta, within: timedelta) -> tuple[str, str]:
    """Return a new certificate and its private key, in PEM. `lasts`: how long it is to be valid.

    Waits for `within` until the request is approved and signed. Raises NoCertificate.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = f"lifeboat-agent-{control_plane.cluster}-{secrets.token_hex(3)}"
    spec = {
        "request": _request(key, control_plane.cluster),
        "signerName": CLIENT_SIGNER,
        "usages": list(USAGES),
        "expirationSeconds": int(lasts.total_seconds()),
    }
    document = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    sent = await control_plane.post(REQUESTS, {**document, "metadata": {"name": name}, "spec": spec})
    if not sent.ok:
        raise NoCertificate(f"the request for a certificate was not accepted: {sent.problem}")
    certificate = await _signed(control_plane, name, until=datetime.now(UTC) + within)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return certificate, private


async def _signed(control_plane: ControlPlane, name: str, *, until: datetime) -> str:
    """Return the certificate of a request as soon as it is signed."""
    asked = False
    while datetime.now(UTC) < until:
        found = await control_plane.get(f"{REQUESTS}/{name}")
        status: Any = found.body.get("status") or {} if found.ok else {}
        for condition in status.get("conditions") or ():
            if condition["type"] in (DENIED, FAILED):
                raise NoCertificate(f"the request {name} was {condition['type'].lower()}: {condition.get('message')}")
        if status.get("certificate"):
            return base64.b64decode(status["certificate"]).decode()
        if not asked and not status.get("conditions"):
            log.info("waiting for the certificate of the request %s", name)
            asked = True
        await asyncio.sleep(ASK_SECONDS)
    raise NoCertificate(
        f"the request {name} was not approved in time; it is approved at once if {control_plane.cluster} is joined "
        "with --pull and never had an agent, otherwise approve the next one by hand: kubectl certificate approve NAME"
    )


def renewal(valid: tuple[datetime, datetime], share: float) -> datetime:
    """Return when a certificate is renewed: after this share of its time."""
    begin, end = valid
    return begin + (end - begin) * share


def _request(key: ec.EllipticCurvePrivateKey, cluster: str) -> str:
    """Return the request for the certificate of an agent, in base64."""
    names = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, OWN_AGENTS_GROUP),
        x509.NameAttribute(NameOID.COMMON_NAME, OWN_AGENT_PREFIX + cluster),
    ]
    signed = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    return base64.b64encode(signed.public_bytes(Encoding.PEM)).decode()
