"""Logins with client certificates: the common name is the user, the organizations are its groups.

LIFEBOAT_CLIENT_CERTIFICATES says where a certificate comes from: `tls` from the TLS connection to this process, `proxy`
from a header of a trusted proxy, which has checked that the client has the private key. Certificates are verified here
in both cases.
"""

from __future__ import annotations

import hashlib
import logging
import time
from datetime import datetime
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import (
    ClientVerifier,
    Criticality,
    ExtensionPolicy,
    Policy,
    PolicyBuilder,
    Store,
    VerificationError,
)
from django.conf import settings
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from apps.api.clock import wall_now
from apps.api.identity import Identity
from apps.objects.store import store
from controlplane.apimachinery.errors import ServiceUnavailable
from controlplane.apimachinery.meta import Ref
from controlplane.authentication.signing_requests import OWN_AGENT_PREFIX, cluster_of, is_outlived
from controlplane.authorization.attributes import AUTHENTICATED, CREDENTIAL_ID, Caller
from controlplane.controllers.signing_requests import AUTHORITY
from controlplane.engine.state import Unreadable
from controlplane.kinds import CLUSTER
from controlplane.kinds.template import secret_data

log = logging.getLogger(__name__)

CERTIFICATE = "lifeboat.certificate"  # key of the ASGI extensions and of the WSGI environment: DER of the certificate
PEER = "lifeboat.peer"  # ASGI extension: the address of the connection, which headers of proxies do not change
UNTIL = "until:"
"""Begins the key of a login that is valid until a time: seconds since 1970, and a digest, follow."""
FRESH_SECONDS = 5.0
RETRY_SECONDS = 5
_UNREADABLE = (
    "this process cannot check client certificates of the control plane's own authority, because it has not the "
    "encryption key of its Secret: start it again with all keys in LIFEBOAT_ENCRYPTION_KEYS"
)
_BAD = "the client certificate is not accepted: {0}; ask for another one with a CertificateSigningRequest"


class CertificateUser(NamedTuple):
    """The user of a client certificate, and the key of the login for streams."""

    user: Identity
    key: str


class CertificateAuthentication(BaseAuthentication):
    """Authenticates by the client certificate of the connection. `request.auth` is the key of the login."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        try:
            found = login_of(request.META)
        except CertificateRefused as error:
            raise AuthenticationFailed(_BAD.format(error)) from error
        return found


class CertificateRefused(Exception):
    """A client certificate is no login. The message says why."""


def certificate_of(scope: Any) -> bytes | None:
    """Return the DER of the certificate of a request; None: it has none that counts.

    A certificate in a header counts only if the connection comes from a trusted proxy.
    """
    extensions = scope.get("extensions") or {}
    if settings.CLIENT_CERTIFICATES == "tls":
        certificate: bytes | None = extensions.get(CERTIFICATE)
        return certificate
    if settings.CLIENT_CERTIFICATES != "proxy" or not _is_trusted(str(extensions.get(PEER, ""))):
        return None
    name = settings.CLIENT_CERTIFICATE_HEADER.lower().encode()
    values = [value for header, value in scope["headers"] if header == name]
    return _decoded(values[0]) if len(values) == 1 and values[0] else None


def login_of(environ: Any) -> CertificateUser | None:
    """Return the login of a request's client certificate; None: it has none.

    A request of a browser from another site is not logged in by a certificate, because browsers send it without being
    asked. Raises CertificateRefused.
    """
    der = environ.get(CERTIFICATE)
    if not der or environ.get("HTTP_SEC_FETCH_SITE", "none") not in ("none", "same-origin"):
        return None
    return find(der)


def find(der: bytes) -> CertificateUser:
    """Return the user of a client certificate that one of the authorities has signed.

    Raises CertificateRefused, and ServiceUnavailable if the authority may be one that this process cannot read.
    """
    authorities = _authorities()
    try:
        certificate = x509.load_der_x509_certificate(der)
        authorities.verifier(wall_now()).verify(certificate, [])
    except (VerificationError, x509.DuplicateExtension, ValueError) as error:
        if authorities.problem is not None:
            raise ServiceUnavailable(_UNREADABLE, retry_after_seconds=RETRY_SECONDS) from error
        raise _refusal(error) from error
    names = [str(part.value) for part in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [str(part.value) for part in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    if not names or not names[0]:
        raise CertificateRefused("its subject has no common name, which is the name of the user")
    _check_cluster(names[0], certificate)
    digest = hashlib.sha256(der).hexdigest()
    extra = {CREDENTIAL_ID: (f"X509SHA256={digest}",)}
    user = Identity(Caller(names[0], (*dict.fromkeys(groups), AUTHENTICATED), extra=extra))
    return CertificateUser(user, f"{UNTIL}{int(certificate.not_valid_after_utc.timestamp())}:{digest}")


def _refusal(error: Exception) -> CertificateRefused:
    if isinstance(error, VerificationError):
        return CertificateRefused(f"no authority of LIFEBOAT_CLIENT_CA_FILE vouches for it ({error})")
    return CertificateRefused(f"it cannot be read ({error})")


def _check_cluster(user: str, certificate: x509.Certificate) -> None:
    """Raise CertificateRefused if the user is the agent of an earlier cluster with the name of a present one."""
    if not user.startswith(OWN_AGENT_PREFIX):
        return
    ref = Ref(CLUSTER, "", cluster_of(user))
    cluster = store().get([ref]).get(ref)
    created = None if cluster is None else cluster.metadata.creation_timestamp
    if is_outlived(user, certificate.not_valid_before_utc, created):
        raise CertificateRefused(
            f"it was issued before the present cluster {ref.name} was created ({created:%Y-%m-%dT%H:%M:%SZ}): register "
            "the agent again with lifeboat-agent register and a new bootstrap token"
        )


def lasts(key: str) -> bool:
    """Test whether the key of a login states an end (`until:SECONDS:DIGEST`) that has not passed.

    False for keys of other kinds of login.
    """
    return key.startswith(UNTIL) and float(key.removeprefix(UNTIL).partition(":")[0]) > time.time()


def bundle(path: Path) -> Path | None:
    """Write the authorities of client certificates to a file, for TLS, and return its path; None: there is none.

    The own authority is left out while its Secret cannot be decrypted, so that the process starts all the same.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    pems = [certificate.public_bytes(Encoding.PEM) for certificate in _authorities().certificates]
    path.write_bytes(b"".join(pems))
    return path if pems else None


class _Authorities:
    """The authorities of client certificates: the control plane's own (`own`), and those of LIFEBOAT_CLIENT_CA_FILE.

    version: of the Secret of the own authority. problem: why the own one cannot be read; None: it can.
    """

    def __init__(self, own: bytes, version: str, problem: Unreadable | None, read_at: float) -> None:
        pem = own
        if settings.CLIENT_CA_FILE:
            pem += b"\n" + Path(settings.CLIENT_CA_FILE).read_bytes()
        self.certificates = x509.load_pem_x509_certificates(pem) if pem.strip() else []
        self.own = own
        self.version = version
        self.problem = problem
        self.read_at = read_at

    def verifier(self, now: datetime) -> ClientVerifier:
        """Return the check of a certificate at a time. Raises ValueError if there is no authority."""
        authorities = ExtensionPolicy.permit_all().require_present(x509.BasicConstraints, Criticality.AGNOSTIC, None)
        clients = ExtensionPolicy.permit_all().require_present(
            x509.ExtendedKeyUsage, Criticality.AGNOSTIC, _check_usage
        )
        builder = PolicyBuilder().store(Store(self.certificates)).time(now)
        return builder.extension_policies(ca_policy=authorities, ee_policy=clients).build_client_verifier()


_known: list[_Authorities] = []


def _authorities() -> _Authorities:
    """Return the authorities, which are read again every few seconds: an administrator may replace them."""
    now = time.monotonic()
    if not _known or now - _known[0].read_at > FRESH_SECONDS:
        _known[:] = [_read(_known[0] if _known else None, now)]
    return _known[0]


def _read(before: _Authorities | None, now: float) -> _Authorities:
    """Return the authorities as they are now. `before`: as they were known before.

    A process without the newest encryption key cannot read the own authority after the rotation of keys. It then keeps
    the one that it has read from the same version of the Secret.
    """
    found, problem = None, None
    try:
        found = store().get([AUTHORITY]).get(AUTHORITY)
    except Unreadable as error:
        log.warning("the authority of client certificates cannot be read: %s", error)
        found, problem = store().get([AUTHORITY], unopened=True).get(AUTHORITY), error
    version = "" if found is None else f"{found.metadata.uid}/{found.metadata.resource_version}"
    if problem is None:
        own = b"" if found is None else secret_data.text(found, "tls.crt").encode()
        return _Authorities(own, version, None, now)
    if before is not None and before.problem is None and before.version == version:
        return _Authorities(before.own, version, None, now)
    return _Authorities(b"", version, problem, now)


def _check_usage(policy: Policy, certificate: x509.Certificate, usage: x509.ExtendedKeyUsage | None) -> None:
    """Raise ValueError unless a certificate may be used by clients."""
    if usage is None or ExtendedKeyUsageOID.CLIENT_AUTH not in usage:
        raise ValueError("its usages do not contain client auth")


def _decoded(value: bytes) -> bytes | None:
    """Return the DER of a header: PEM with URL escapes (nginx), or base64 between colons (RFC 9440)."""
    text = value.decode("latin-1").strip()
    if text.startswith(":"):
        pem = f"-----BEGIN CERTIFICATE-----\n{text.strip(':')}\n-----END CERTIFICATE-----\n"
    else:
        pem = unquote(text)
    try:
        return x509.load_pem_x509_certificate(pem.encode()).public_bytes(Encoding.DER)
    except ValueError:
        return None


def _is_trusted(peer: str) -> bool:
    """Test whether a connection comes from a proxy of LIFEBOAT_CLIENT_CERTIFICATE_PROXIES."""
    try:
        address = ip_address(peer)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return any(mapped in ip_network(network) for network in settings.CLIENT_CERTIFICATE_PROXIES)
