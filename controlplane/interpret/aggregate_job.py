"""The status of a Job template, computed from the statuses that member clusters report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from controlplane.apimachinery.meta import to_seconds
from controlplane.interpret.interpreter import Document
from controlplane.kinds.binding import AggregatedStatusItem

COMPLETE, FAILED, CRITERIA_MET = "Complete", "Failed", "SuccessCriteriaMet"


def job(doc: Document, items: Sequence[AggregatedStatusItem], now: datetime) -> Document:
    """Return the sums of active, succeeded and failed pods, with times and conditions.

    The Job is Failed if it failed on any member, and Complete if it is complete on every member. The status of a Job
    that has ended is returned unchanged. Its start is the first one of all members, once it has started on each of
    them; it never changes after that, whichever members are lost or get a part of the Job later.
    """
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
    conditions = _conditions(items, failed=failed, done=done, now=now)
    started = [report["startTime"] for report in reports if report.get("startTime")]
    start = old.get("startTime") or (min(started) if started and len(started) == len(items) else None)
    ended = [report["completionTime"] for report in reports if report.get("completionTime")]
    if start:
        status["startTime"] = start
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
    now: datetime,
) -> list[Document]:
    if failed:
        message = f"Job executed failed in member clusters {','.join(failed)}"
        return [_condition(FAILED, "JobFailed", message, now=now)]
    if not done or len(done) < len(items):
        return []
    found = [_condition(COMPLETE, "Completed", "Job completed", now=now)]
    if all(_is(report, CRITERIA_MET) for report in done):
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
    """Return Complete or Failed, whichever condition of a Job's status is true; "" while the Job runs."""
    conditions = status.get("conditions")
    reported = [one for one in conditions if isinstance(one, Mapping)] if isinstance(conditions, list | tuple) else []
    ended = (one for one in reported if one.get("type") in (COMPLETE, FAILED) and one.get("status") == "True")
    return next((str(one["type"]) for one in ended), "")


def _is(status: dict[str, Any], type_: str) -> bool:
    return any(
        condition.get("type") == type_ and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
