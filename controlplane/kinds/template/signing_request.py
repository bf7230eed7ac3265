"""CertificateSigningRequests: their rules, and what is read of the request inside."""

from __future__ import annotations

import base64
import re
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.x509.oid import NameOID

from controlplane.apimachinery.causes import duplicate, forbidden, invalid, repeated, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Struct
from controlplane.kinds.template import Template
from controlplane.settings import Settings

KEY: Final = "certificates.k8s.io/CertificateSigningRequest"
CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"
ADMINISTRATORS: Final = "system:masters"
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
LEAST_SECONDS: Final = 600
USAGES: Final = (
    *("any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment"),
    *("decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel"),
    *("ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime"),
    *("server auth", "signing", "timestamping"),
)
_SIGNER: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?")
_BLOCK: Final = "CERTIFICATE REQUEST"


class Request(Struct, frozen=True):
    """What is read of the PEM inside: the subject, and whether it names other subjects."""

    common_name: str
    organizations: tuple[str, ...]
    has_other_names: bool
    pem: str


def request_of(text: Any) -> Request:
    """Return what a base64 PEM asks for. Raises ValueError with the reason if it is not a signed request."""
    try:
        pem = base64.b64decode(str(text or ""), validate=True)
    except ValueError:
        raise ValueError("must be base64") from None
    if f"-----BEGIN {_BLOCK}-----".encode() not in pem:
        raise ValueError(f"PEM block type must be {_BLOCK}")
    try:
        request = x509.load_pem_x509_csr(pem)
        names = list(request.subject)
        is_signed = request.is_signature_valid
        extensions = [extension.oid for extension in request.extensions]
    except (ValueError, InvalidSignature, UnsupportedAlgorithm, x509.DuplicateExtension) as error:
        raise ValueError(f"must be a certificate request: {error}") from None
    if not is_signed:
        raise ValueError("must be signed with the private key of the request")
    common = [str(name.value) for name in names if name.oid == NameOID.COMMON_NAME]
    organizations = tuple(str(name.value) for name in names if name.oid == NameOID.ORGANIZATION_NAME)
    others = x509.SubjectAlternativeName.oid in extensions
    return Request(common[-1] if common else "", organizations, others, pem.decode())


def kept(new: Template, old: Template | None, settings: Settings) -> Template:
    """Return a CertificateSigningRequest with the spec that it was created with, which never changes."""
    if old is None or new.spec == old.spec:
        return new
    return new.with_content({**new.content, "spec": old.spec}).with_meta(generation=new.metadata.generation)


def validate(new: Template, old: Template | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a new CertificateSigningRequest."""
    if old is not None:
        return []
    spec, causes = new.spec, list[Cause]()
    try:
        request = request_of(spec.get("request"))
    except ValueError as error:
        causes.append(invalid("spec.request", "…", str(error)))
    else:
        if spec.get("signerName") == CLIENT_SIGNER and ADMINISTRATORS in request.organizations:
            rule = f"a certificate of the signer {CLIENT_SIGNER} may not have the organization {ADMINISTRATORS}"
            causes.append(forbidden("spec.request", rule))
    signer = str(spec.get("signerName") or "")
    if not signer:
        causes.append(required("spec.signerName"))
    elif not _SIGNER.fullmatch(signer):
        causes.append(invalid("spec.signerName", signer, 'must be a domain and a path of the form "domain/path"'))
    causes += _usage_causes(spec.get("usages") or [])
    seconds = spec.get("expirationSeconds")
    if isinstance(seconds, int) and seconds < LEAST_SECONDS:
        rule = "may not specify a duration less than 600 seconds (10 minutes)"
        causes.append(invalid("spec.expirationSeconds", seconds, rule))
    return causes


def _usage_causes(usages: list[Any]) -> list[Cause]:
    if not usages:
        return [required("spec.usages")]
    causes = []
    twice = repeated(map(str, usages))
    for index, usage in enumerate(usages):
        if usage not in USAGES:
            causes.append(unsupported(f"spec.usages[{index}]", usage, USAGES))
        elif index in twice:
            causes.append(duplicate(f"spec.usages[{index}]", usage))
    return causes


def condition_types(request: Template) -> frozenset[str]:
    """Return the types of the conditions that a request has: Approved, Denied, Failed."""
    conditions = request.status.get("conditions") or ()
    return frozenset(str(found.get("type", "")) for found in conditions if isinstance(found, dict))


def validate_status(new: Template) -> list[Cause]:
    """Return every cause to refuse a status: a request is approved or denied, and not both."""
    if {APPROVED, DENIED} <= condition_types(new):
        return [invalid("status.conditions", DENIED, "Approved and Denied conditions are mutually exclusive")]
    causes = []
    for index, found in enumerate(new.status.get("conditions") or ()):
        if found.get("type") in (APPROVED, DENIED, FAILED) and found.get("status") not in ("True", None, ""):
            causes.append(unsupported(f"status.conditions[{index}].status", found.get("status"), ("True",)))
    return causes
