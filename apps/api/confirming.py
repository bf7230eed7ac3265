"""Dangerous writes from the browsable API: they need a reason, and the typed name if they concern many workloads.

The rules are those of the console and the admin (`apps/objects/confirmation.py`). The page sends the answers in the
query, because the body is the object. Clients that are no browsers get the same effects as Warnings, and are not asked.
"""

from __future__ import annotations

from rest_framework.request import Request

from apps.api.pages import PageRenderer
from apps.objects.confirmation import REASON_LENGTH, Confirmation, no_confirmation, problems
from apps.objects.preview import Preview
from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import Invalid


def confirmation(request: Request, subject: str, kubectl: str) -> Confirmation:
    """Return what a write of this request asks before it is stored.

    `subject`: what is typed to confirm it. `kubectl`: a command that does the same.
    """
    if not isinstance(request.accepted_renderer, PageRenderer):
        return no_confirmation

    def check(found: Preview) -> None:
        """Raise Invalid if a person has not confirmed these effects."""
        if not found.texts:
            return
        wrong = problems(request.query_params, subject=subject, concerned=found.concerned)
        if wrong:
            effects = "; ".join(found.texts)
            causes = [
                invalid(f"query.{name}", request.query_params.get(name, ""), text) for name, text in wrong.items()
            ]
            causes.append(
                invalid("effects", "", f"nothing has happened yet; {effects}; the same with kubectl: {kubectl}")
            )
            raise Invalid.of("Confirmation", subject, causes)

    return check


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
