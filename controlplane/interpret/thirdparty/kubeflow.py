"""Kubeflow (kubeflow.org): notebooks and training jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from controlplane.interpret import prune
from controlplane.interpret.interpreter import Demand, Dependency, Document, Interpreter
from controlplane.interpret.thirdparty import pods
from controlplane.interpret.thirdparty.fields import (
    Items,
    at,
    earliest,
    latest,
    listed,
    needed,
    number,
    only_report,
    reports,
    status_of,
    total,
    without_empty,
)
from controlplane.interpret.thirdparty.rollout import ended, ends_with, is_true
from controlplane.kinds.binding import Component

_TIMES = ("startTime", "completionTime", "lastReconcileTime")
_COUNTS = ("active", "failed", "succeeded")
_SUCCEEDS, _FAILS, _ENDS = ends_with("Succeeded"), ends_with("Failed"), ends_with("Succeeded", "Failed")
_WITHOUT_TIME_TO_LIVE = prune.without_field("spec", "runPolicy", "ttlSecondsAfterFinished")


def notebook_healthy(doc: Document) -> bool:
    """Test whether the container runs, is being created, or ended without an error.

    One that waits for another reason, such as an image that cannot be pulled, may never run.
    """
    state = at(doc, "status", "containerState")
    if not isinstance(state, dict):
        return False
    if state.get("running") is not None:
        return True
    if state.get("waiting") is not None:
        return bool(at(state, "waiting", "reason") == "ContainerCreating")
    ending = state.get("terminated")
    if ending is None:
        return False
    failed = ending.get("reason") in ("Error", "OOMKilled", "ContainerCannotRun")
    return not failed and not ending.get("exitCode")


def notebook_status(doc: Document, items: Items, now: datetime) -> Document:
    """Return the ready replicas of all members and the worst state of their containers, with a condition.

    A notebook on one cluster has the status that this cluster reports.
    """
    if not items:
        return status_of(doc)
    if (only := only_report(items)) is not None:
        return only
    failed, running, state = [], 0, None
    for item in items:
        if item.status is None:
            continue
        container = item.status.get("containerState") or {}
        if not container or container.get("terminated") is not None or container.get("waiting") is not None:
            failed.append(item.cluster_name)
            state = container or {"waiting": {"reason": "Unschedulable"}}
        elif container.get("running") is not None and not failed:
            running += 1
            started = {"startedAt": container["running"].get("startedAt")}
            newer = state is None or str(started["startedAt"] or "") > str(at(state, "running", "startedAt") or "")
            state = {"running": started} if newer else state
    conditions = []
    if failed:
        message = f"Notebook executed failed in member clusters: {', '.join(failed)}"
        conditions.append(ended("Failed", "NotebookFailed", message, doc=doc, now=now))
    if running == len(items):
        conditions.append(ended("Ready", "Ready", "All notebooks are ready", doc=doc, now=now))
    return {"readyReplicas": total(items, "readyReplicas"), "containerState": state or {}, "conditions": conditions}


def notebook_reflected(doc: Document) -> Document | None:
    """Return the ready replicas, the state of the container and the conditions; None if there is no status."""
    status = doc.get("status")
    if not isinstance(status, dict):
        return None
    return {
        "readyReplicas": status.get("readyReplicas") or 0,
        "containerState": status.get("containerState") or {},
        "conditions": listed(status.get("conditions")),
    }


def job_healthy(doc: Document) -> bool:
    """Test whether a training job has conditions, and did not fail."""
    return at(doc, "status", "conditions") is not None and not is_true(doc, "Failed")


def mpi_healthy(doc: Document) -> bool:
    """Test as `job_healthy`; an empty list of conditions is not healthy."""
    return bool(listed(at(doc, "status", "conditions"))) and not is_true(doc, "Failed")


def training_job(kind: str, field: str, *types: str) -> Interpreter:
    """Return the rules of a training job with replica specs of these types in this field of its spec."""

    def components(doc: Document) -> tuple[Component, ...]:
        return tuple(
            pods.component(type_.lower(), spec.get("replicas"), spec.get("template")) for type_, spec in _specs(doc)
        )

    def dependencies(doc: Document) -> Sequence[Dependency]:
        return pods.needs_of(doc, [spec["template"] for _, spec in _specs(doc) if spec.get("template") is not None])

    def _specs(doc: Document) -> Iterator[tuple[str, Document]]:
        for type_ in types:
            spec = at(doc, "spec", field, type_)
            if spec is not None:
                yield type_, spec

    return Interpreter(
        components=components,
        dependencies=dependencies,
        healthy=job_healthy,
        aggregate=job_status(kind, *types),
        prune=_WITHOUT_TIME_TO_LIVE,
        final=_ENDS,
    )


def job_status(kind: str, *types: str) -> Callable[[Document, Items, datetime], Document]:
    """Return the rule of training jobs: counts by replica type, the first start, and a condition once it has ended.

    The job failed if it failed on any member, and succeeded if it succeeded on all.
    """

    def aggregate(doc: Document, items: Items, now: datetime) -> Document:
        old = status_of(doc)
        if not items:
            cleared = {"startTime", "completionTime", "replicaStatuses", "conditions"}
            return {name: value for name, value in old.items() if name not in cleared}
        results = [(item.cluster_name, _result(item.status or {})) for item in items]
        failed = [name for name, result in results if result == "Failed"]
        status = {**old, "startTime": earliest(items, "startTime"), "conditions": []}
        status["lastReconcileTime"] = latest(items, "lastReconcileTime")
        status["replicaStatuses"] = {type_: _counts(items, type_) for type_ in types}
        if failed:
            message = f"{kind} executed failed in member clusters: {', '.join(failed)}"
            status["conditions"].append(ended("Failed", f"{kind}Failed", message, doc=doc, now=now))
        if all(result == "Succeeded" for _, result in results):
            message = f"{kind} completed successfully"
            status["conditions"].append(ended("Succeeded", "Completed", message, doc=doc, now=now))
            status["completionTime"] = latest(items, "completionTime")
        return without_empty(status) or {}

    return aggregate


def mpi_components(doc: Document) -> tuple[Component, ...]:
    """Return a component for each replica spec with a template. Workers default to 0, others to 1."""
    specs = at(doc, "spec", "mpiReplicaSpecs") or {}
    return tuple(
        pods.component(name, spec.get("replicas"), spec["template"], 0 if name.lower() == "worker" else 1)
        for name, spec in specs.items()
        if spec is not None and spec.get("template") is not None
    )


def mpi_status(doc: Document, items: Items, now: datetime) -> Document:
    """Return counts by replica type, the widest times, and the newest condition of each type.

    A job on one cluster has the status that this cluster reports.
    """
    if not items:
        return status_of(doc)
    if (only := only_report(items)) is not None:
        return only
    types = dict.fromkeys(type_ for report in reports(items) for type_ in report.get("replicaStatuses") or {})
    conditions: dict[Any, Document] = {}
    for report in reports(items):
        for condition in listed(report.get("conditions")):
            known = conditions.get(condition.get("type"))
            if _changed(condition) and (known is None or _changed(condition) > _changed(known)):
                conditions[condition.get("type")] = condition
    status = {
        "replicaStatuses": {type_: _counts(items, type_) for type_ in types},
        "conditions": list(conditions.values()),
        "startTime": earliest(items, "startTime"),
        **{field: latest(items, field) for field in _TIMES[1:]},
    }
    return {name: value for name, value in status.items() if value}


def mpi_reflected(doc: Document) -> Document | None:
    """Return the counts by replica type, the conditions and the times; None if there is no status."""
    status = doc.get("status")
    if not isinstance(status, dict):
        return None
    counts = {
        type_: {field: count[field] for field in (*_COUNTS, "selector") if count.get(field) is not None}
        for type_, count in (status.get("replicaStatuses") or {}).items()
        if count is not None
    }
    times = {field: status[field] for field in _TIMES if status.get(field) is not None}
    return {"replicaStatuses": counts, "conditions": listed(status.get("conditions")), **times}


def mpi_ended(status: Mapping[str, Any]) -> bool:
    """Test whether a job succeeded, or failed for good. One without the time of its end begins again."""
    return _SUCCEEDS(status) or (_FAILS(status) and bool(status.get("completionTime")))


def _changed(condition: Document) -> str:
    return str(condition.get("lastUpdateTime") or condition.get("lastTransitionTime") or "")


def _counts(items: Items, type_: str) -> Document:
    found = [at(report, "replicaStatuses", type_) or {} for report in reports(items)]
    return {field: sum(number(count.get(field), 0) for count in found) for field in _COUNTS}


def _result(report: Document) -> str:
    """Return the type of the last condition with which a job ended; "" while it runs."""
    ends = [
        str(condition["type"])
        for condition in listed(report.get("conditions"))
        if condition.get("type") in ("Succeeded", "Failed") and condition.get("status") == "True"
    ]
    return ends[-1] if ends else ""


NOTEBOOK = Interpreter(
    replicas=lambda doc: Demand(1, pods.requested(needed(doc, "spec", "template"))),
    healthy=notebook_healthy,
    aggregate=notebook_status,
    reflect=notebook_reflected,
)
PYTORCH_JOB = training_job("PyTorchJob", "pytorchReplicaSpecs", "Master", "Worker")
TF_JOB = training_job("TFJob", "tfReplicaSpecs", "PS", "Worker", "Chief", "Master", "Evaluator")
OTHER_JOB = Interpreter(prune=_WITHOUT_TIME_TO_LIVE, final=_ENDS)
"""Jobs of the training operator of which Karmada knows nothing."""
TRAIN_JOB = Interpreter(final=ends_with("Complete", "Failed"))
MPI_JOB = Interpreter(
    components=mpi_components,
    healthy=mpi_healthy,
    aggregate=mpi_status,
    reflect=mpi_reflected,
    prune=_WITHOUT_TIME_TO_LIVE,
    final=mpi_ended,
)
