"""TLS certificates for the development server, because kubectl sends tokens over https only.

In production a proxy with its own certificates stands before the API.
"""

from __future__ import annotations

import fcntl
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from apps.api.clock import wall_now
from apps.api.kubeconfig import write_private

VALID = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)


class Files(NamedTuple):
    """The paths of the certificate files, in PEM format."""

    authority: Path
    certificate: Path
    key: Path


def certificates(folder: Path, *, hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "::1")) -> Files:
    """Return the certificates in a folder. Missing and soon expiring certificates are created again.

    So are those that do not fit each other: a process was killed while it renewed them. The private key of the
    authority is not stored.
    """
    files = Files(folder / "ca.crt", folder / "server.crt", folder / "server.key")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # the server and `manage.py kubeconfig` may run at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _are_usable(files):
            _make(files, hosts)
    return files


def _are_usable(files: Files) -> bool:
    """Test whether the files are there, belong together, and do not expire soon."""
    try:
        authority = x509.load_pem_x509_certificate(files.authority.read_bytes())
        certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        key = load_pem_private_key(files.key.read_bytes(), password=None)
        certificate.verify_directly_issued_by(authority)
    except (FileNotFoundError, ValueError, InvalidSignature):
        return False
    fits = certificate.public_key() == key.public_key()
    return fits and certificate.not_valid_after_utc >= wall_now() + RENEW_BEFORE


def _make(files: Files, hosts: tuple[str, ...]) -> None:
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root_name, name = _name("lifeboat development"), _name(hosts[0])
    root = _builder(root_name, root_name, root_key.public_key())
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    leaf = _builder(name, root_name, key.public_key())
    leaf = leaf.add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
    leaf = leaf.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    for file, signed in ((files.authority, root), (files.certificate, leaf)):
        write_private(file, signed.sign(root_key, hashes.SHA256()).public_bytes(Encoding.PEM).decode())
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_private(files.key, secret.decode())


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = wall_now()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + VALID)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
