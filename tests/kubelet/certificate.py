"""A certificate with which a kube-apiserver and a kubelet of one run know each other. It signs itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.kubelet.server import HOST


class Pair(NamedTuple):
    """The files of a certificate and of its key."""

    certificate: Path
    key: Path


def written(folder: Path) -> Pair:
    """Make a certificate that is valid for a day, for servers on the loopback and for clients."""
    signer, pem = ec.generate_private_key(ec.SECP256R1()), serialization.Encoding.PEM
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubelet of a test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(signer.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), critical=False)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    pair = Pair(folder / "kubelet.crt", folder / "kubelet.key")
    pair.key.touch(mode=0o600)
    pair.key.write_bytes(signer.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    pair.certificate.write_bytes(made.public_bytes(pem))
    return pair
