"""The Status document, which reports an error or a completed deletion."""

from __future__ import annotations

from typing import Any

import msgspec

from controlplane.apimachinery.errors import StatusError

Document = dict[str, Any]


def status_of(error: StatusError) -> Document:
    """Return the Status document of an error, without empty details."""
    status: Document = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": error.message,
    }
    if error.reason:
        status["reason"] = error.reason
    details = msgspec.to_builtins(error.details)
    if details:
        status["details"] = details
    status["code"] = error.code
    return status


def success(*, kind: str, name: str, group: str = "", uid: str = "") -> Document:
    """Return the Status for a deletion that removed its object at once."""
    details = {"name": name, "kind": kind}
    if group:
        details["group"] = group
    if uid:
        details["uid"] = uid
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
