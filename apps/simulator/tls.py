"""A certificate authority for one run, and its server certificates for the loopback address: valid and expired."""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from apps.simulator.listener import HOST


class Contexts(NamedTuple):
    """The TLS contexts of a member: with a valid certificate, and with an expired one (Fault.EXPIRED)."""

    good: ssl.SSLContext
    expired: ssl.SSLContext


class Authority:
    """A certificate authority: its certificate in PEM for kubeconfigs, and TLS contexts for servers."""

    def __init__(self, *, days: int = 30) -> None:
        self._days = days
        self._signer = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "simulated members")])
        root = _certificate(self._name, self._name, self._signer.public_key(), days=days).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.certificate = root.sign(self._signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def contexts(self) -> Contexts:
        """Return the contexts to serve HTTPS with."""
        return Contexts(self._context(days=self._days), self._context(days=0))

    def _context(self, *, days: int) -> ssl.SSLContext:
        """Return a context with a new certificate that is valid for `days`; 0: it expired some minutes ago."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
        leaf = _certificate(name, self._name, key.public_key(), days=days)
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST)), x509.DNSName("localhost")])
        leaf = leaf.add_extension(names, critical=False)
        leaf = leaf.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        pem = serialization.Encoding.PEM
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        chain = leaf.sign(self._signer, hashes.SHA256()).public_bytes(pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory(prefix="simulator-") as folder:  # the ssl module reads keys from files only
            path = Path(folder) / "server.pem"
            path.touch(mode=0o600)
            path.write_bytes(private + chain)
            context.load_cert_chain(path)
        return context


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC) - timedelta(minutes=5)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=days))
    )
