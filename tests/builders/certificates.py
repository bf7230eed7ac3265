"""Private keys, certificate requests, and authorities for tests."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey


def private_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def pem_of(key: Key) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def request_for(name: str, *groups: str, key: Key | None = None, other_names: Sequence[str] = ()) -> str:
    """Return a certificate request in base64, as a CertificateSigningRequest has it."""
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*parts, *([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if other_names:
        names = x509.SubjectAlternativeName([x509.DNSName(other) for other in other_names])
        builder = builder.add_extension(names, critical=False)
    signed = builder.sign(key or private_key(), hashes.SHA256())
    return base64.b64encode(signed.public_bytes(Encoding.PEM)).decode()
