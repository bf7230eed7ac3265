"""One status for a Job that runs in several clusters (semantics 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from controlplane.apimachinery.meta import to_seconds
from controlplane.interpret.interpreter import Document
from controlplane.kinds.binding import AggregatedStatusItem

COMPLETE, FAILED, CRITERIA_MET = "Complete", "Failed", "SuccessCriteriaMet"


def job(doc: Document, items: Sequence[AggregatedStatusItem], now: datetime) -> Document:
    """Return the sums; Failed where it failed anywhere, Complete where it is done everywhere. Finished stays so."""
    old: Document = doc.get("status") or {}
    if finished(old):
        return old
    reports = [item.status for item in items if item.status is not None]
    status: Document = {
        field: total
        for field in ("active", "succeeded", "failed")
        if (total := sum(int(report.get(field) or 0) for report in reports))
    }
    failed = [item.cluster_name for item in items if item.status is not None and finished(item.status) == FAILED]
    done = [report for report in reports if finished(report) == COMPLETE]
    conditions = _conditions(items, failed=failed, done=done, reports=reports, now=now)
    started = [report["startTime"] for report in reports if report.get("startTime")]
    ended = [report["completionTime"] for report in reports if report.get("completionTime")]
    if started:
        status["startTime"] = min(started)
    if ended and len(ended) == len(items):
        status["completionTime"] = max(ended)
    if conditions:
        status["conditions"] = conditions
    return status


def _conditions(
    items: Sequence[AggregatedStatusItem],
    *,
    failed: Sequence[str],
    done: Sequence[Document],
    reports: Sequence[Document],
    now: datetime,
) -> list[Document]:
    if failed:
        message = f"Job executed failed in member clusters {','.join(failed)}"
        return [_condition(FAILED, "JobFailed", message, now=now)]
    found = []
    if done and len(done) == len(items):
        found.append(_condition(COMPLETE, "Completed", "Job completed", now=now))
    if reports and len(reports) == len(items) and all(_is(report, CRITERIA_MET) for report in reports):
        met = "All member clusters have met success criteria"
        found.append(_condition(CRITERIA_MET, "CompletionsReached", met, now=now))
    return found


def _condition(type_: str, reason: str, message: str, *, now: datetime) -> Document:
    moment = to_seconds(now).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": type_,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": moment,
        "lastTransitionTime": moment,
    }


def finished(status: Mapping[str, Any]) -> str:
    """Return how a Job ended, Complete or Failed, by the first condition that says so; empty while it runs."""
    ended = (one for one in status.get("conditions") or () if one.get("type") in (COMPLETE, FAILED))
    return next((str(one["type"]) for one in ended if one.get("status") == "True"), "")


def _is(status: dict[str, Any], type_: str) -> bool:
    return any(one.get("type") == type_ and one.get("status") == "True" for one in status.get("conditions") or ())
