"""What becomes of a CertificateSigningRequest: who may decide, what the control plane signs, and when it is removed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import Forbidden, Invalid
from controlplane.apimachinery.meta import Struct
from controlplane.kinds.template import Template, signing_request
from controlplane.kinds.template.signing_request import APPROVED, CLIENT_SIGNER, DENIED, FAILED, Request, request_of
from controlplane.wire.resource import parse_time

GROUP: Final = "certificates.k8s.io"
PLURAL: Final = "certificatesigningrequests"
NODE_SIGNER: Final = "kubernetes.io/kube-apiserver-client-kubelet"
SIGNERS: Final = (CLIENT_SIGNER, NODE_SIGNER)
"""The signers whose certificates are logins of this API. The control plane signs for them."""
AGENT_PREFIX: Final = "system:karmada:agent:"
AGENTS_GROUP: Final = "system:karmada:agents"
OWN_AGENT_PREFIX: Final = "system:lifeboat:agent:"
"""Begins the names of agents of this product, whose rights follow from their names (decision 6)."""
OWN_AGENTS_GROUP: Final = "system:lifeboat:agents"
_GROUP_OF_PREFIX: Final = {AGENT_PREFIX: AGENTS_GROUP, OWN_AGENT_PREFIX: OWN_AGENTS_GROUP}
NODES_GROUP, NODE_PREFIX = "system:nodes", "system:node:"
DEFAULT_SECONDS: Final = 365 * 86_400
KEPT: Final = timedelta(hours=1)  # after it was decided
BACKDATED: Final = timedelta(minutes=5)  # a certificate is valid from this long before it was issued: clocks differ
CLOCKS: Final = timedelta(minutes=1)  # that the clocks of two processes may differ by
PENDING: Final = timedelta(hours=24)
_ALLOWED_USAGES: Final = frozenset(("client auth", "digital signature", "key encipherment"))
_REQUIRED_USAGES: Final = frozenset(("client auth",))


class ToSign(msgspec.Struct, frozen=True):
    """A request to sign: its PEM, its usages, and for how many seconds the certificate is valid."""

    pem: str
    usages: tuple[str, ...]
    seconds: int


class Sign(msgspec.Struct, frozen=True):
    """The question for certificates, signed by an authority (PEM of its certificate and private key)."""

    authority: str
    key: str
    requests: tuple[ToSign, ...]


class Requester(Struct, frozen=True):
    """The user who asks for a certificate, as the API found out."""

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


def requester_fields(requester: Requester) -> dict[str, Any]:
    """Return the fields of a spec that name the requester. Clients do not choose them."""
    found: dict[str, Any] = {"username": requester.username, "groups": list(requester.groups)}
    if requester.uid:
        found["uid"] = requester.uid
    if requester.extra:
        found["extra"] = {key: list(values) for key, values in requester.extra.items()}
    return found


def cluster_of(agent: str) -> str:
    """Return the cluster in the name of an agent; "": it is not the name of an agent."""
    return next((agent.removeprefix(prefix) for prefix in _GROUP_OF_PREFIX if agent.startswith(prefix)), "")


def is_outlived(agent: str, valid_from: datetime, created_at: datetime | None) -> bool:
    """Test whether the certificate of an agent was issued for an earlier cluster of the same name.

    `valid_from`: when the certificate begins. `created_at`: when the present cluster was created; None: it does not
    exist. An agent of this product gets its first certificate only after its cluster was created.
    """
    if created_at is None or not agent.startswith(OWN_AGENT_PREFIX):
        return False
    return valid_from + BACKDATED + CLOCKS < created_at


def is_agents(request: Request, usages: frozenset[str]) -> bool:
    """Test whether a request is one of an agent: its name and group, no other names, and client usages only."""
    cluster = cluster_of(request.common_name)
    prefix = request.common_name.removesuffix(cluster)
    return (
        bool(cluster)
        and request.organizations == (_GROUP_OF_PREFIX[prefix],)
        and not request.has_other_names
        and usages >= {"client auth", "digital signature"}
        and usages <= _ALLOWED_USAGES
    )


def agent_of(csr: Template) -> str:
    """Return the name of the agent that a request is for, with its prefix; "": it is not for an agent."""
    if csr.spec.get("signerName") != CLIENT_SIGNER:
        return ""
    try:
        request = request_of(csr.spec.get("request"))
    except ValueError:
        return ""
    return request.common_name if is_agents(request, frozenset(csr.spec.get("usages") or ())) else ""


def is_undecided(csr: Template) -> bool:
    """Test whether a request is neither approved, denied nor failed."""
    return not signing_request.condition_types(csr) & {APPROVED, DENIED, FAILED}


def is_to_sign(csr: Template) -> bool:
    """Test whether a request waits for a certificate of the control plane."""
    types = signing_request.condition_types(csr)
    waits = APPROVED in types and not types & {DENIED, FAILED} and not csr.status.get("certificate")
    return waits and csr.spec.get("signerName") in SIGNERS


def refusal(csr: Template) -> str:
    """Return why the control plane does not sign an approved request; "": it signs the request."""
    usages = frozenset(csr.spec.get("usages") or ())
    if not _REQUIRED_USAGES <= usages <= _ALLOWED_USAGES:
        return f"the signer signs for the usages {', '.join(sorted(_ALLOWED_USAGES))}, and needs client auth"
    try:
        request = request_of(csr.spec.get("request"))
    except ValueError as error:
        return f"spec.request {error}"
    if not request.common_name:
        return "the subject of the request has no common name, which becomes the name of the user"
    if signing_request.ADMINISTRATORS in request.organizations:
        return f"no certificate is signed for the organization {signing_request.ADMINISTRATORS}"
    if csr.spec.get("signerName") != NODE_SIGNER:
        return ""
    is_node = request.organizations == (NODES_GROUP,) and request.common_name.startswith(NODE_PREFIX)
    named = f"the organization {NODES_GROUP} and a name that begins with {NODE_PREFIX}"
    return "" if is_node and not request.has_other_names else f"the signer needs {named}"


def to_sign(csr: Template) -> ToSign:
    """Return what the control plane signs for a request: a certificate that is valid for a year at most."""
    seconds = min(int(csr.spec.get("expirationSeconds") or DEFAULT_SECONDS), DEFAULT_SECONDS)
    return ToSign(request_of(csr.spec.get("request")).pem, tuple(csr.spec.get("usages") or ()), seconds)


def removed_at(csr: Template, *, expires: datetime | None) -> datetime | None:
    """Return when a request is removed: an hour after it was decided, a day after it was made, or with its certificate.

    expires: when the certificate expires; None: there is no certificate. The result is None for a request without
    times.
    """
    made = csr.metadata.creation_timestamp
    times = [made + PENDING] if made is not None and is_undecided(csr) else []
    for found in csr.status.get("conditions") or ():
        moment = parse_time(found.get("lastUpdateTime")) or made
        if moment is not None and found.get("type") in (APPROVED, DENIED, FAILED):
            waits_for_signer = found["type"] == APPROVED and not csr.status.get("certificate")
            times.append(moment + (PENDING if waits_for_signer else KEPT))
    if expires is not None:
        times.append(expires)
    return min(times, default=None)


def conditions_with(csr: Template, type_: str, reason: str, message: str, *, now: datetime) -> list[dict[str, Any]]:
    """Return the conditions of a request with one more."""
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    new = {
        **{"type": type_, "status": "True", "reason": reason, "message": message},
        **{"lastUpdateTime": moment, "lastTransitionTime": moment},
    }
    return [*(csr.status.get("conditions") or ()), new]


def needed_verb(new: Template, old: Template) -> str:
    """Return the verb on the signer that a change of the status needs: approve, sign, or "" for neither."""
    if new.status == old.status:
        return ""
    return "approve" if _decision(new) != _decision(old) else "sign"


def check_status(new: Template, old: Template, *, approval: bool) -> None:
    """Raise Invalid if a change of the status goes beyond its subresource.

    `approval`: the subresource approval changes the conditions Approved and Denied, and nothing else. All others are
    changed by the subresource status. A decision is never taken back.
    """
    before, after = _decision(old), _decision(new)
    causes = []
    if not approval and before != after:
        rule = "the conditions Approved and Denied are changed by the subresource approval: kubectl certificate approve"
        causes.append(invalid("status.conditions", sorted(after), rule))
    if approval and (new.status.get("certificate") != old.status.get("certificate") or _others(new) != _others(old)):
        rule = "the subresource approval changes the conditions Approved and Denied only"
        causes.append(invalid("status", sorted(signing_request.condition_types(new)), rule))
    if before - after:
        causes.append(invalid("status.conditions", sorted(after), "updates may not remove a decision"))
    if old.status.get("certificate") and new.status.get("certificate") != old.status.get("certificate"):
        causes.append(invalid("status.certificate", "…", "updates may not replace a certificate"))
    if causes:
        raise Invalid.of("CertificateSigningRequest", new.metadata.name, causes, group=GROUP)


def check_requester(csr: Template, requester: Requester) -> None:
    """Raise Forbidden if a new request names another requester than the user who sends it."""
    named = {field: csr.spec[field] for field in ("username", "uid", "groups", "extra") if csr.spec.get(field)}
    expected = {field: value for field, value in requester_fields(requester).items() if value}
    if named != expected:
        raise Forbidden(
            f'{PLURAL}.{GROUP} "{csr.metadata.name}" is forbidden: spec.username, uid, groups and extra are those of '
            "the user who sends the request: send it with kubectl, which leaves them out",
            kind=PLURAL,
            group=GROUP,
            name=csr.metadata.name,
        )


def not_allowed(csr: Template, username: str, verb: str) -> Forbidden:
    """Return the error for a user who may not approve or sign requests of a signer."""
    signer = csr.spec.get("signerName")
    return Forbidden(
        f'{PLURAL}.{GROUP} "{csr.metadata.name}" is forbidden: user "{username}" may not {verb} requests with '
        f'signerName "{signer}"; give the user the verb {verb} on the resource signers with the name {signer}',
        kind=PLURAL,
        group=GROUP,
        name=csr.metadata.name,
    )


def _decision(csr: Template) -> frozenset[str]:
    return signing_request.condition_types(csr) & {APPROVED, DENIED}


def _others(csr: Template) -> frozenset[str]:
    return signing_request.condition_types(csr) - {APPROVED, DENIED}
