"""kstatus, the rules by which Flux waits: the status of an object, as far as they judge what this control plane serves.

Written after the rules in kubernetes-sigs/cli-utils: pkg/kstatus/status/generic.go, core.go and status.go, with the
condition Ready of later releases. A kind without a rule is Current once its generation is observed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.interpret.interpreter import Document

CURRENT, IN_PROGRESS, FAILED, TERMINATING = "Current", "InProgress", "Failed", "Terminating"


def status(doc: Document) -> str:
    """Return the status of an object."""
    metadata, reported, spec = doc.get("metadata") or {}, doc.get("status") or {}, doc.get("spec") or {}
    if metadata.get("deletionTimestamp"):
        return TERMINATING
    observed = reported.get("observedGeneration")
    if "generation" in metadata and observed is not None and observed != metadata["generation"]:
        return IN_PROGRESS
    conditions = {one["type"]: one for one in reported.get("conditions") or ()}
    if _is(conditions, "Reconciling"):
        return IN_PROGRESS
    if _is(conditions, "Stalled"):
        return FAILED
    group = str(doc["apiVersion"]).rpartition("/")[0]
    rule = _RULES.get((group, doc["kind"]))
    if rule is not None:
        return rule(spec, reported, conditions)
    ready = conditions.get("Ready")
    return CURRENT if ready is None or ready["status"] == "True" else IN_PROGRESS


def _is(conditions: dict[str, Document], type_: str, value: str = "True") -> bool:
    return (conditions.get(type_) or {}).get("status") == value


def _current(*holds: bool) -> str:
    return CURRENT if all(holds) else IN_PROGRESS


def _counts(reported: Document, *fields: str) -> list[int]:
    return [int(reported.get(field) or 0) for field in fields]


def _deployment(spec: Document, reported: Document, conditions: dict[str, Document]) -> str:
    progressing = conditions.get("Progressing") or {}
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return FAILED
    wanted = spec.get("replicas", 1)
    fields = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    replicas, updated, ready, available = _counts(reported, *fields)
    complete = _is(conditions, "Progressing") and progressing.get("reason") == "NewReplicaSetAvailable"
    return _current(
        wanted == replicas,
        wanted <= updated <= available,
        wanted <= ready,
        complete or "progressDeadlineSeconds" not in spec,
        _is(conditions, "Available"),
    )


def _stateful_set(spec: Document, reported: Document, conditions: dict[str, Document]) -> str:
    strategy, wanted = spec.get("updateStrategy") or {}, spec.get("replicas", 1)
    if strategy.get("type") == "OnDelete":
        return CURRENT
    fields = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas")
    replicas, ready, current, updated = _counts(reported, *fields)
    partition = (strategy.get("rollingUpdate") or {}).get("partition")
    if partition is not None:
        return _current(wanted == replicas, wanted <= ready, updated >= wanted - partition)
    same = reported.get("currentRevision", "") == reported.get("updateRevision", "")
    return _current(wanted == replicas, wanted <= ready, wanted <= current, same)


def _daemon_set(spec: Document, reported: Document, conditions: dict[str, Document]) -> str:
    wanted = reported.get("desiredNumberScheduled")
    if wanted is None or reported.get("observedGeneration") is None:
        return IN_PROGRESS
    fields = ("currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady")
    return _current(min(_counts(reported, *fields)) >= wanted)


def _job(spec: Document, reported: Document, conditions: dict[str, Document]) -> str:
    if _is(conditions, "Failed"):
        return FAILED
    return _current(_is(conditions, "Complete") or _is(conditions, "Suspended") or bool(reported.get("startTime")))


def _claim(spec: Document, reported: Document, conditions: dict[str, Document]) -> str:
    return _current(reported.get("phase") == "Bound")


def _service(spec: Document, reported: Document, conditions: dict[str, Document]) -> str:
    return _current(spec.get("type") != "LoadBalancer" or bool(spec.get("clusterIP")))


_RULES: dict[tuple[str, str], Callable[[Any, Any, Any], str]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): lambda spec, reported, conditions: CURRENT,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Service"): _service,
}
