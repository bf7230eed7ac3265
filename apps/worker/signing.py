"""Signing of client certificates: the authority of an installation, and the certificates that it signs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controlplane.authentication.signing_requests import BACKDATED, Sign, ToSign

AUTHORITY_VALID = timedelta(days=3650)


class Authority(NamedTuple):
    """The certificate and the private key of an authority, as PEM."""

    certificate: str
    key: str


def new_authority() -> Authority:
    """Return a new authority, which is valid for ten years."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lifeboat clients")])
    now = datetime.now(UTC)
    signs = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + AUTHORITY_VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(signs, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Authority(certificate.public_bytes(Encoding.PEM).decode(), secret.decode())


def signed(question: Sign) -> tuple[str, ...]:
    """Return the certificates that a controller asks for, as PEM, in its order.

    A certificate has the subject and the public key of its request, and nothing else of it. It never outlives its
    authority.
    """
    authority = x509.load_pem_x509_certificate(question.authority.encode())
    key = load_pem_private_key(question.key.encode(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise TypeError("the private key of the authority is neither an elliptic curve key nor an RSA key")
    return tuple(_certificate(request, authority, key) for request in question.requests)


def _certificate(
    request: ToSign, authority: x509.Certificate, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
) -> str:
    asked, now = x509.load_pem_x509_csr(request.pem.encode()), datetime.now(UTC)
    usage = x509.KeyUsage(
        digital_signature=True,  # a client proves by a signature that it has the key
        key_encipherment="key encipherment" in request.usages,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    issued = (
        x509.CertificateBuilder()
        .subject_name(asked.subject)
        .issuer_name(authority.subject)
        .public_key(asked.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(min(now + timedelta(seconds=request.seconds), authority.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(_issuer_key(authority), critical=False)
        .sign(key, hashes.SHA256())
    )
    return issued.public_bytes(Encoding.PEM).decode()


def _issuer_key(authority: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    public = authority.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
        raise TypeError("the key of the authority is neither an elliptic curve key nor an RSA key")
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(public)
