"""Writes of CertificateSigningRequests: the requester is the user of the login; approving or signing needs a right."""

from __future__ import annotations

from functools import partial
from typing import Any

from apps.api.authorization import Attributes, authorize
from apps.objects.access import caller_of, check_grant
from apps.objects.writer import Restriction
from controlplane.authentication import signing_requests
from controlplane.authentication.signing_requests import Requester, requester_fields
from controlplane.kind import Kind
from controlplane.kinds.template import Template, signing_request

Document = dict[str, Any]

APPROVAL = "approval"
"""The subresource of a CertificateSigningRequest that approves or denies it."""


def stamped(user: Any, kind: Kind, document: Document) -> Document:
    """Return the document of a new object. A CertificateSigningRequest gets the user who sends it."""
    spec = document.get("spec")
    if kind.key != signing_request.KEY or not isinstance(spec, dict):
        return document
    chosen = {field: value for field, value in spec.items() if field not in ("username", "uid", "groups", "extra")}
    caller = caller_of(user)
    requester = Requester(caller.name, caller.uid, caller.groups, caller.extra)
    return {**document, "spec": {**chosen, **requester_fields(requester)}}


def restriction(user: Any, subresource: str) -> Restriction:
    """Return the check of what a user may write, by a subresource of the object or to the object itself."""
    return partial(_check, user, subresource)


def _check(user: Any, subresource: str, kind: Kind, new: Any, old: Any) -> None:
    """Raise Forbidden or Invalid if a user writes more than the user may."""
    check_grant(user, kind, new, old)
    if kind.key == signing_request.KEY and old is not None:
        signing_requests.check_status(new, old, approval=subresource == APPROVAL)
        if verb := signing_requests.needed_verb(new, old):
            _check_signer(user, verb, old)


def _check_signer(user: Any, verb: str, csr: Template) -> None:
    """Raise Forbidden unless a user has a verb on the signer of a request, or on all signers of its domain."""
    signer = str(csr.spec.get("signerName") or "")
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        attributes = Attributes(user, verb, signing_requests.GROUP, "signers", name=name)
        if authorize(attributes).allowed:
            return
    raise signing_requests.not_allowed(csr, user.get_username(), verb)
