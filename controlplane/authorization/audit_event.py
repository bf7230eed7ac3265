"""Audit events: a request, its user and its result as documents of audit.k8s.io/v1 [audit-events]."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from controlplane.authorization.attributes import Caller, Request

API_VERSION, KIND, LIST_KIND = "audit.k8s.io/v1", "Event", "EventList"
STAGE: Final = "ResponseComplete"
DECISION, REASON = "authorization.k8s.io/decision", "authorization.k8s.io/reason"
LONGEST_TEXT: Final = 1024  # code points of a URL, user agent or message


class Answered(msgspec.Struct, frozen=True):
    """The answer to a request: its status, and why it was refused ("" if it was not)."""

    code: int
    reason: str = ""
    message: str = ""


class Sent(msgspec.Struct, frozen=True):
    """A request: who sent it, as whom, from where, and what it attempted.

    `caller` is the user of the login, `impersonated` the user as whom the request was decided; None: the same.
    `decision` "" means that no rule was asked, because the request ended before.
    """

    audit_id: str
    caller: Caller
    request: Request
    received: datetime
    api_version: str = ""
    impersonated: Caller | None = None
    uri: str = ""
    source: str = ""
    user_agent: str = ""
    decision: str = ""
    reason: str = ""


def event(
    sent: Sent,
    answered: Answered,
    *,
    level: str,
    now: datetime,
    annotations: Mapping[str, str] | None = None,
    request_object: Any = None,
    response_object: Any = None,
) -> dict[str, Any]:
    """Return the document of an event. Times are those of the database, in UTC.

    `annotations`: what the write changed. The objects are in events of the levels Request and RequestResponse.
    """
    request = sent.request
    made: dict[str, Any] = {
        "kind": KIND,
        "apiVersion": API_VERSION,
        "level": level,
        "auditID": sent.audit_id,
        "stage": STAGE,
        "requestURI": sent.uri[:LONGEST_TEXT],
        "verb": request.verb,
        "user": user_info(sent.caller),
    }
    if sent.impersonated is not None:
        made["impersonatedUser"] = user_info(sent.impersonated)
    if sent.source:
        made["sourceIPs"] = [sent.source]
    if sent.user_agent:
        made["userAgent"] = sent.user_agent[:LONGEST_TEXT]
    if request.resource:
        made["objectRef"] = object_ref(request, api_version=sent.api_version)
    status: dict[str, Any] = {"metadata": {}, "code": answered.code}
    if answered.code >= 400:
        status |= {"status": "Failure", "reason": answered.reason, "message": answered.message[:LONGEST_TEXT]}
    made["responseStatus"] = status
    if request_object is not None:
        made["requestObject"] = request_object
    if response_object is not None:
        made["responseObject"] = response_object
    made["requestReceivedTimestamp"] = _micro_time(sent.received)
    made["stageTimestamp"] = _micro_time(now)
    decided = {DECISION: sent.decision, REASON: sent.reason} if sent.decision else {}
    if notes := {**decided, **(annotations or {})}:
        made["annotations"] = notes
    return made


def user_info(caller: Caller) -> dict[str, Any]:
    """Return a user as authentication.k8s.io/v1 describes users. Empty fields are left out."""
    extra = {key: list(values) for key, values in caller.extra.items()}
    info = {"username": caller.name, "uid": caller.uid, "groups": list(caller.groups), "extra": extra}
    return {key: value for key, value in info.items() if value}


def object_ref(request: Request, *, api_version: str) -> dict[str, str]:
    """Return the objectRef of an event. Empty fields are left out."""
    ref = {
        "resource": request.resource,
        "namespace": request.namespace,
        "name": request.name,
        "apiGroup": request.api_group,
        "apiVersion": api_version,
        "subresource": request.subresource,
    }
    return {key: value for key, value in ref.items() if value}


def event_list(events: list[Any]) -> dict[str, Any]:
    """Return the document that a webhook gets."""
    return {"kind": LIST_KIND, "apiVersion": API_VERSION, "metadata": {}, "items": events}


def _micro_time(moment: datetime) -> str:
    """Return a time as Kubernetes writes a MicroTime: 2026-03-14T02:36:26.000000Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
