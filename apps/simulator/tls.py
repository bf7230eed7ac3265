"""A certificate authority of one run, and the server certificate it gives to the loopback."""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from apps.simulator.listener import HOST


class Authority:
    """The authority's certificate as PEM, for kubeconfigs, and the context to serve with."""

    def __init__(self, *, days: int = 30) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "simulated members")])
        server_key = ec.generate_private_key(ec.SECP256R1())
        server_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
        root = _certificate(name, name, key.public_key(), days).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        leaf = _certificate(server_name, name, server_key.public_key(), days)
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST)), x509.DNSName("localhost")])
        leaf = leaf.add_extension(names, critical=False)
        leaf = leaf.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        pem = serialization.Encoding.PEM
        self.certificate = root.sign(key, hashes.SHA256()).public_bytes(pem)
        self._chain = leaf.sign(key, hashes.SHA256()).public_bytes(pem)
        self._key = server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())

    def context(self) -> ssl.SSLContext:
        """Return the context to serve HTTPS with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory(prefix="simulator-") as folder:  # ssl reads keys from files only
            path = Path(folder) / "server.pem"
            path.touch(mode=0o600)
            path.write_bytes(self._key + self._chain)
            context.load_cert_chain(path)
        return context


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=days))
    )
