"""Events in v1 and events.k8s.io/v1: the same object with other names of fields, and the rules of the newer version."""

from __future__ import annotations

from typing import Any, Final

from controlplane.apimachinery import causes, selectors
from controlplane.apimachinery.errors import Cause

Document = dict[str, Any]

CORE, NEWER = "v1", "events.k8s.io/v1"
_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_CORE_NAMES: Final = {newer: core for core, newer in _NAMES.items()}
_UNSET: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
_FIXED: Final = (
    *("involvedObject", "reason", "reportingComponent", "reportingInstance", "action", "related"),
    *(*_UNSET, "type", "eventTime"),
)
_LIMITS: Final = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}


def converted(document: Document, api_version: str) -> Document:
    """Return an Event in one of its two versions."""
    if document.get("apiVersion") == api_version:
        return document
    names = _NAMES if api_version == NEWER else _CORE_NAMES
    made = {names.get(field, field): value for field, value in document.items()}
    if api_version == NEWER:
        made.setdefault("eventTime", None)
    return {**made, "apiVersion": api_version}


def faults(new: Document, old: Document | None) -> list[Cause]:
    """Return the causes to refuse a write through the newer version. Both Events are in the form of v1."""
    found = [*_common(new)]
    if old is None or new.get("series") != old.get("series"):
        found += _series(new.get("series"))
    if old is not None:
        fixed = (field for field in _FIXED if new.get(field) != old.get(field))
        return [*found, *(causes.immutable(_said(field), new.get(field)) for field in fixed)]
    if not new.get("eventTime"):
        found.append(causes.required("eventTime"))
    kind = new.get("type") or ""
    if kind not in ("Normal", "Warning"):
        found.append(causes.invalid("type", "", f"has invalid value: {kind}"))
    return [*found, *(causes.invalid(field, "", "needs to be unset") for field in _UNSET if new.get(field))]


def _common(new: Document) -> list[Cause]:
    namespace = new["metadata"].get("namespace") or ""
    about = (new.get("involvedObject") or {}).get("namespace") or ""
    differs = "does not match event.namespace"
    if not new.get("eventTime"):
        fits = about == namespace if about else namespace in ("", "default")
        return [] if fits else [causes.invalid("involvedObject.namespace", about, differs)]
    found = []
    if not about and namespace not in ("default", "kube-system"):
        found.append(causes.invalid("involvedObject.namespace", about, differs))
    controller = new.get("reportingComponent") or ""
    if not controller:
        found.append(causes.required("reportingController"))
    found += [causes.invalid("reportingController", controller, why) for why in selectors.label_key_errors(controller)]
    found += [causes.required(field) for field in ("reportingInstance", "action", "reason") if not new.get(field)]
    for field, limit in _LIMITS.items():
        if len(new.get(field) or "") > limit:
            found.append(causes.invalid(field, "", f"can have at most {limit} characters"))
    return found


def _series(series: Document | None) -> list[Cause]:
    if series is None:
        return []
    found = []
    if (series.get("count") or 0) < 2:
        found.append(causes.invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        found.append(causes.required("series.lastObservedTime"))
    return found


def _said(field: str) -> str:
    return "reportingController" if field == "reportingComponent" else field
