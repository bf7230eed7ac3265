"""Volcano Job (batch.volcano.sh/v1alpha1): a batch of tasks, each with its own pod template."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from controlplane.interpret import prune
from controlplane.interpret.interpreter import Document, Interpreter
from controlplane.interpret.thirdparty import pods
from controlplane.interpret.thirdparty.fields import (
    Items,
    at,
    listed,
    number,
    only_report,
    reports,
    status_of,
    total,
    without_empty,
)
from controlplane.interpret.thirdparty.rollout import ends_as, in_seconds
from controlplane.kinds.binding import Component

_COUNTERS = ("minAvailable", "pending", "running", "succeeded", "failed", "terminating", "unknown", "retryCount")
_WORKING = frozenset(
    ("Running", "Completed", "Pending", "Aborting", "Aborted", "Restarting", "Completing", "Terminating", "Terminated")
)
_FAILED = frozenset(("Failed", "Aborted", "Aborting", "Terminated", "Terminating"))
_DURATION = re.compile(r"([\d.]+)([hms])")
_SECONDS = {"h": 3600, "m": 60, "s": 1}


def components(doc: Document) -> tuple[Component, ...]:
    """Return a component for each task, with its minAvailable as replicas. A task without a name is `task-<index>`.

    Raises ValueError if a task has no pod template.
    """
    return tuple(
        Component(
            name=str(task.get("name") or f"task-{index}"),
            replicas=int(number(task.get("minAvailable"), 1)),
            replica_requirements=pods.requested(task.get("template")),
        )
        for index, task in enumerate(listed(at(doc, "spec", "tasks")))
    )


def aggregate(doc: Document, items: Items, now: datetime) -> Document:
    """Return added counters, the longest duration, and the state Failed or Completed once the job has ended.

    A job on one cluster has the status that this cluster reports.
    """
    if not items:
        return status_of(doc)
    if (only := only_report(items)) is not None:
        return only
    found = list(reports(items))
    controlled = {name: value for report in found for name, value in (report.get("controlledResources") or {}).items()}
    status = {
        **{field: total(items, field) for field in _COUNTERS},
        "version": max((number(report.get("version"), 0) for report in found), default=0),
        "runningDuration": max((report.get("runningDuration") for report in found), key=_seconds, default="0s"),
        "taskStatusCount": _tasks(items),
        "controlledResources": controlled,
        "conditions": _conditions(items),
        "state": _state(doc, items, now=now),
    }
    return without_empty(status) or {}


def reflect(doc: Document) -> Document | None:
    """Return the counters, tasks, state and conditions; None if there is no status."""
    status = doc.get("status")
    if not isinstance(status, dict):
        return None
    fields = (*_COUNTERS, "version", "runningDuration", "taskStatusCount", "controlledResources", "state", "conditions")
    return {field: status[field] for field in fields if status.get(field) is not None}


def _tasks(items: Items) -> Document:
    """Return the pods of each task by phase, added up."""
    tasks: dict[str, dict[str, Any]] = {}
    for report in reports(items):
        for name, task in (report.get("taskStatusCount") or {}).items():
            phases = tasks.setdefault(name, {"phase": {}})["phase"]
            for phase, count in (task.get("phase") or {}).items():
                phases[phase] = phases.get(phase, 0) + count
    return tasks


def _conditions(items: Items) -> list[Document]:
    """Return the conditions of the first member that failed, else the newest condition with each status.

    A condition without a time is the oldest.
    """
    newest: dict[Any, Document] = {}
    for report in reports(items):
        conditions = listed(report.get("conditions"))
        if any(condition.get("status") in _FAILED for condition in conditions):
            return conditions
        for condition in conditions:
            known = newest.get(condition.get("status"))
            if known is None or _changed(condition) > _changed(known):
                newest[condition.get("status")] = condition
    return list(newest.values())


def _changed(condition: Document) -> str:
    return str(condition.get("lastTransitionTime") or "")


def _state(doc: Document, items: Items, *, now: datetime) -> Document:
    """Return the state of a job that has ended; empty while it runs. A state that the template has keeps its time."""
    phases = [(item.cluster_name, at(item.status or {}, "state", "phase")) for item in items]
    failed = [name for name, phase in phases if phase in ("Failed", "Aborted")]
    if all(phase == "Completed" for _, phase in phases):
        state = {"phase": "Completed", "reason": "Completed", "message": "Job completed successfully"}
    elif failed:
        message = f"Job failed in clusters: {','.join(failed)}"
        state = {"phase": "Failed", "reason": "VolcanoJobFailed", "message": message}
    else:
        return {}
    old = status_of(doc).get("state") or {}
    same = all(old.get(name) == value for name, value in state.items())
    return {**state, "lastTransitionTime": old.get("lastTransitionTime") if same else in_seconds(now)}


def _seconds(duration: Any) -> float:
    """Return a duration such as "1h2m35.6s" in seconds; 0 if it is missing."""
    if isinstance(duration, str):
        parts = sum(float(amount) * _SECONDS[unit] for amount, unit in _DURATION.findall(duration))
        return float(parts or number(duration, 0))
    return float(number(duration, 0))


JOB = Interpreter(
    prune=prune.without_time_to_live,
    final=ends_as(("state", "phase"), "Completed", "Failed", "Terminated"),
    components=components,
    healthy=lambda doc: at(doc, "status", "state", "phase") in _WORKING,
    aggregate=aggregate,
    reflect=reflect,
)
