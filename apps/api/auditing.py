"""Middleware: begins the audit trail of each request, and records requests that stored nothing [audit-events]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson
from django.contrib.auth import get_user_model
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.api.authorization import Attributes, Decision
from apps.api.handed_over import HandedOver
from apps.objects import audit
from apps.objects.access import caller_of
from apps.objects.audit_queue import QUEUE
from controlplane.apimachinery.errors import StatusError, Unauthorized
from controlplane.authorization.attributes import Caller
from controlplane.authorization.audit_event import Answered
from controlplane.authorization.audit_policy import NONE

PASSED_ON: Final = 101  # a stream, or a request to a member: the event loop answers
HEADER: Final = "Audit-Id"
_WITH_VALUES: Final = frozenset((400, 422))
_STATUS_BYTES: Final = 64 * 1024  # a longer answer is no Status


class Auditing:
    """Begins and ends the trail. Stands before the middlewares that may refuse a request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        trail = trail_of(request.META)
        audit.begin(trail)
        try:
            response = self.get_response(request)
        finally:
            audit.begin(None)
        if trail.caller is None:
            trail.caller = _session_user(request)
        response[HEADER] = trail.audit_id
        if isinstance(response, HandedOver):
            response.trail = trail
        if not trail.stored:
            record(trail, trail.outcome or _answered(response))
        return response


def _session_user(request: HttpRequest) -> Caller | None:
    """Return the user of a page if the request has read its session. None: it has not, or the user is not logged in.

    Nothing is read here, because the database may be away: then the answer is the last page that was made.
    """
    user: Any = getattr(request, "_cached_user", None)
    return Caller(user.get_username()) if user is not None and user.is_authenticated else None


def trail_of(environ: Mapping[str, Any]) -> audit.Trail:
    """Return the trail of a request with this WSGI environment."""
    query = environ.get("QUERY_STRING", "")
    path = environ.get("PATH_INFO", "")
    return audit.Trail(
        method=environ.get("REQUEST_METHOD", ""),
        uri=f"{path}?{query}" if query else path,
        path=path,
        source=environ.get("REMOTE_ADDR", ""),
        user_agent=environ.get("HTTP_USER_AGENT", ""),
    )


def note_user(user: Any, impersonated: Any = None) -> None:
    """Note who sends the present request, and as whom it is decided (None: the same)."""
    if (trail := audit.requested()) is not None:
        trail.caller = caller_of(user)
        trail.impersonated = None if impersonated is None else caller_of(impersonated)


def note_decision(attributes: Attributes, decision: Decision) -> None:
    """Note what the present request attempts, and which rule decided. Later questions of the request are not noted."""
    trail = audit.requested()
    if trail is not None and not trail.decision:
        trail.attempted(attributes.request, allowed=decision.allowed, reason=decision.reason)


def note_failed_login(name: str) -> None:
    """Note that the present request is a login by password that failed. Its page has the status 200.

    `name`: what was written as the name. It is recorded if a user has it; it may be a password otherwise.
    """
    if (trail := audit.requested()) is not None:
        known = "\0" not in name and get_user_model().objects.filter(username=name).exists()
        who = f'of user "{name}"' if known else "of a user who does not exist"
        trail.decision, trail.reason = "forbid", f"the login {who} by password failed"
        trail.outcome = Answered(Unauthorized.code, Unauthorized.reason, trail.reason)


def record(trail: audit.Trail, answered: Answered) -> None:
    """Record a request that stored nothing, if the policy asks for that or the request was refused."""
    if trail.level(trail.request, answered.code) != NONE:
        QUEUE.put(trail, answered)


def record_refused(scope: Mapping[str, Any], error: StatusError) -> None:
    """Record a request that was refused before Django had it: without a valid login, too large, or one too many."""
    client = scope.get("client")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    query = scope["query_string"].decode("latin-1")
    trail = audit.Trail(
        method=scope["method"],
        uri=f"{scope['path']}?{query}" if query else scope["path"],
        path=scope["path"],
        source=client[0] if client else "",
        user_agent=headers.get("user-agent", ""),
    )
    record(trail, refusal(error))


def record_late(trail: audit.Trail | None, error: StatusError) -> None:
    """Record that the shell refused a request which its view had authorised, for example a watch that is one too
    many. `trail` None: no request was audited."""
    if trail is not None:
        record(trail, refusal(error))


def refusal(error: StatusError) -> Answered:
    """Return the status of a request that was refused with this error, without values of its document."""
    causes = "; ".join(f"{cause.field}: {cause.reason}" for cause in error.details.causes)
    return Answered(error.code, error.reason, causes if error.code in _WITH_VALUES else error.message)


def _answered(response: Any) -> Answered:
    """Return the status of an answer. The reason of a refusal is in its Status document."""
    if isinstance(response, HandedOver):
        return Answered(PASSED_ON)
    code = response.status_code
    if code < 400:
        return Answered(code)
    status = _status_in(response)
    message = str(status.get("message", "")) or response.reason_phrase
    if code in _WITH_VALUES:  # the message repeats values of the document, which may be secret
        causes = (status.get("details") or {}).get("causes") or []
        message = "; ".join(f"{cause.get('field')}: {cause.get('reason')}" for cause in causes)
    return Answered(code, str(status.get("reason", "")), message)


def _status_in(response: Any) -> dict[str, Any]:
    if response.streaming or len(response.content) > _STATUS_BYTES:
        return {}
    if not response.get("Content-Type", "").startswith("application/json"):
        return {}
    try:
        found = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
