"""Dangerous writes from the browsable API: they need a reason, and the typed name if they concern many workloads.

The rules are those of the console and the admin (`apps/objects/confirmation.py`). The page sends the answers in the
query, because the body is the object. Clients that are no browsers get the same effects as Warnings, and are not asked.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Final

from rest_framework.request import Request

from apps.api import bodies
from apps.api.pages import KUBECTL, PageRenderer
from apps.api.target import Target
from apps.objects.confirmation import REASON_LENGTH, THRESHOLD, Confirmation, no_confirmation, problems
from apps.objects.kubectl_lines import resource_name, write_line
from apps.objects.preview import Preview
from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import Invalid
from controlplane.wire.negotiate import media_type_of
from controlplane.wire.patch import APPLY_PATCH, JSON_PATCH, STRATEGIC_MERGE_PATCH

PATCH_TYPES: Final = {JSON_PATCH: "json", STRATEGIC_MERGE_PATCH: "strategic"}  # for kubectl; others are merge
NO_WORKLOADS: Final = "effects: no workload moves, stops or changes"


def confirmation(request: Request, subject: str, kubectl: Callable[[], str]) -> Confirmation:
    """Return what a write of this request asks before it is stored. A deletion is always confirmed.

    `subject`: what is typed to confirm it, unless its effects name another subject. `kubectl` returns a command that
    does the same.
    """
    if not isinstance(request.accepted_renderer, PageRenderer):
        return no_confirmation

    def check(found: Preview) -> None:
        """Raise Invalid if a person has not confirmed these effects."""
        if not found.texts and request.method != "DELETE":
            return
        wrong = problems(
            request.query_params,
            subject=found.subject or subject,
            concerned=found.concerned,
            threshold=-1 if found.is_final else THRESHOLD,
        )
        if wrong:
            effects = "; ".join(found.texts or (NO_WORKLOADS,))
            causes = [
                invalid(f"query.{name}", request.query_params.get(name, ""), text) for name, text in wrong.items()
            ]
            causes.append(invalid("effects", "", f"nothing has happened yet; {effects}"))
            setattr(request, KUBECTL, kubectl())  # beside the YAML, which would double its quotes
            raise Invalid.of("Confirmation", subject, causes)

    return check


def kubectl_line(request: Request, target: Target) -> str:
    """Return a command that does what a request asks. It is read from the request only when a person has to confirm."""
    if request.method == "DELETE":
        within = f" -n {target.namespace}" if target.namespace else ""
        name = shlex.quote(target.name) if target.name else "--all"
        return f"kubectl delete {resource_name(target.kind.key)}{within} {name}"
    if request.method == "PATCH":
        return _patch_line(request, target)
    document = bodies.decode(request.content_type, request.body).document
    return write_line(bodies.about(target, document), is_new=request.method == "POST")


def _patch_line(request: Request, target: Target) -> str:
    body, type_ = shlex.quote(request.body.decode()), media_type_of(request.content_type or "")
    if type_ == APPLY_PATCH:
        manager = request.query_params.get("fieldManager", "kubectl")
        return f"kubectl apply --server-side --field-manager={shlex.quote(manager)} -f - <<< {body}"
    within = f" -n {target.namespace}" if target.namespace else ""
    part = f" --subresource={target.subresource}" if target.subresource else ""
    name = f"{resource_name(target.kind.key)}{within} {shlex.quote(target.name)}{part}"
    return f"kubectl patch {name} --type={PATCH_TYPES.get(type_, 'merge')} -p {body}"


def lifeboat_line(target: Target, *, reason: bool = False) -> str:
    """Return the command that gives an order or does an action. `reason`: it needs one."""
    within = f" -n {target.namespace}" if target.namespace else ""
    why = " --reason …" if reason else ""
    return f"kubectl lifeboat {target.subresource} {shlex.quote(target.name)}{within}{why}"


def reason_of(request: Request, way: str) -> str:
    """Return the reason of a write for the change log: the way in, and the `reason` of the query, if there is one.

    Pages and `lifeboat --reason` send it. Raises Invalid if it is longer than REASON_LENGTH or contains control
    characters.
    """
    written = request.query_params.get("reason", "").strip()
    if not written:
        return way
    if len(written) > REASON_LENGTH or not written.isprintable():
        rule = f"must have at most {REASON_LENGTH} characters, on one line and without control characters"
        raise Invalid.of("Reason", "", [invalid("query.reason", written[:REASON_LENGTH], rule)])
    return f"{way}: {written}"
