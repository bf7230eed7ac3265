"""OpenKruise (apps.kruise.io): workloads like those of Kubernetes, jobs on every node, sidecars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from controlplane.interpret import prune
from controlplane.interpret.interpreter import Demand, Dependency, Document, Interpreter
from controlplane.interpret.thirdparty import pods
from controlplane.interpret.thirdparty.fields import (
    Items,
    at,
    copied,
    counted,
    last,
    listed,
    needed,
    number,
    reports,
    status_of,
    total,
)
from controlplane.interpret.thirdparty.rollout import caught_up, ends_with, with_generations

Aggregate = Callable[[Document, Items, datetime], Document]

_CLONES = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "updatedReadyReplicas")
_CLONE_NAMES = ("updateRevision", "currentRevision", "labelSelector")
_STATEFUL = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
_STATEFUL_NAMES = ("updateRevision", "currentRevision")
_DAEMONS = (
    *("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"),
    *("updatedNumberScheduled", "numberAvailable", "numberUnavailable"),
)
_UNITED = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
_BROADCAST = ("active", "succeeded", "failed", "desired")
_SIDECARS = ("matchedPods", "updatedPods", "readyPods")


def counters(*fields: str, named: Sequence[str] = ()) -> Aggregate:
    """Return the rule of workloads: counters are added up; names are those of the last member."""

    def aggregate(doc: Document, items: Items, now: datetime) -> Document:
        status = {**status_of(doc), **{field: total(items, field) for field in fields}}
        status["observedGeneration"] = caught_up(doc, items)
        return {**status, **{field: last(items, field, "") for field in named}}

    return aggregate


def rolled_out(doc: Document) -> bool:
    """Test whether the spec was observed, all replicas are updated, and the updated ones are available."""
    status, wanted = doc.get("status"), needed(doc, "spec", "replicas")
    if needed(doc, "status", "observedGeneration") != at(doc, "metadata", "generation"):
        return False
    updated = needed(doc, "status", "updatedReplicas")
    if wanted is not None and counted(updated, "status.updatedReplicas") < counted(wanted, "spec.replicas"):
        return False
    available = counted(at(status, "availableReplicas"), "status.availableReplicas")
    return bool(available >= counted(updated, "status.updatedReplicas"))


def united_rolled_out(doc: Document) -> bool:
    """Test as `rolled_out`. An object without spec or status is not healthy."""
    return isinstance(doc.get("status"), dict) and isinstance(doc.get("spec"), dict) and rolled_out(doc)


def daemons_available(doc: Document) -> bool:
    """Test whether the spec was observed, and the pods of all nodes are updated and available."""
    if needed(doc, "status", "observedGeneration") != at(doc, "metadata", "generation"):
        return False
    names = ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable")
    desired, updated, available = (counted(doc["status"].get(name), f"status.{name}") for name in names)
    return bool(desired <= updated <= available)


def united_status(doc: Document, items: Items, now: datetime) -> Document:
    """Return added counters, the last condition of each type, and the generation once all members caught up."""
    status: Document = {**status_of(doc), **{field: total(items, field) for field in _UNITED}}
    status["observedGeneration"] = caught_up(doc, items)
    conditions = {
        condition.get("type"): condition for report in reports(items) for condition in listed(report.get("conditions"))
    }
    if conditions:
        status["conditions"] = list(conditions.values())
    return status


def cron_status(doc: Document, items: Items, now: datetime) -> Document:
    """Return the active jobs of all members, with the type and the last time that the last member reports."""
    if not items:
        return status_of(doc)
    active = [job for report in reports(items) for job in listed(report.get("active"))]
    times = {field: last(items, field) for field in ("type", "lastScheduleTime")}
    return _set(status_of(doc), active=active or None, **times)


def cron_needs(doc: Document) -> Sequence[Dependency]:
    """Return what the pods of the job template need, or those of the template for jobs on every node."""
    template: Any = {}
    needed(doc, "spec", "template", "jobTemplate")
    for field in ("jobTemplate", "broadcastJobTemplate"):
        if at(doc, "spec", "template", field) is not None:
            template = needed(doc, "spec", "template", field, "spec", "template")
    return pods.needs_of(doc, [template])


def broadcast_healthy(doc: Document) -> bool:
    """Test whether pods are wanted, none failed, and some run or succeeded."""
    status = needed(doc, "status")
    if not isinstance(status, dict):
        raise ValueError("status: the object has no status yet")
    if status.get("desired") == 0 or status.get("failed") != 0:
        return False
    return not (status.get("succeeded") == 0 and status.get("active") == 0)


def broadcast_status(doc: Document, items: Items, now: datetime) -> Document:
    """Return added counters, and a condition once a member failed or all members completed."""
    if not items:
        return status_of(doc)
    results = [(item.cluster_name, _ended(item.status or {})) for item in items]
    failed = [name for name, result in results if result == "Failed"]
    conditions = []
    if failed:
        message = f"Job executed failed in member clusters: {', '.join(failed)}"
        conditions.append({"type": "Failed", "status": "True", "reason": "JobFailed", "message": message})
    if all(result == "Complete" for _, result in results):
        done = {"type": "Completed", "status": "True", "reason": "Completed", "message": "Job completed"}
        conditions.append(done)
    status = {**status_of(doc), **{field: total(items, field) for field in _BROADCAST}}
    return _set(status, phase=last(items, "phase"), conditions=conditions or None)


def _ended(report: Document) -> str:
    """Return Complete or Failed, whichever condition is True first; "" while the job runs."""
    ends = (condition for condition in listed(report.get("conditions")) if condition.get("status") == "True")
    return next((str(end["type"]) for end in ends if end.get("type") in ("Complete", "Failed")), "")


def broadcast_kept(desired: Document, observed: Document) -> Document:
    """Return the desired job with the pod labels that the member's controller added."""
    labels = at(observed, "spec", "template", "metadata", "labels")
    if labels is None:
        return desired
    template = at(desired, "spec", "template") or {}
    metadata = {**(template.get("metadata") or {}), "labels": labels}
    return {**desired, "spec": {**(desired.get("spec") or {}), "template": {**template, "metadata": metadata}}}


def sidecars_healthy(doc: Document) -> bool:
    """Test whether all pods that the set matches have its sidecar as it is now."""
    status = doc.get("status")
    if not isinstance(status, dict):
        return False
    matched = status.get("matchedPods") or 0
    return matched == 0 or (status.get("updatedPods") or 0) == matched


def sidecar_needs(doc: Document) -> Sequence[Dependency]:
    """Return the ConfigMaps and Secrets of the sidecars' environment and volumes."""
    config_maps: list[Any] = []
    secrets: list[Any] = []
    for container in listed(at(doc, "spec", "containers")):
        for source in [at(entry, "valueFrom") for entry in listed(container.get("env"))]:
            config_maps.append(at(source, "configMapKeyRef", "name"))
            secrets.append(at(source, "secretKeyRef", "name"))
        for source in listed(container.get("envFrom")):
            config_maps.append(at(source, "configMapRef", "name"))
            secrets.append(at(source, "secretRef", "name"))
    for volume in listed(at(doc, "spec", "volumes")):
        config_maps.append(at(volume, "configMap", "name"))
        secrets.append(at(volume, "secret", "secretName"))
        for source in listed(at(volume, "projected", "sources")):
            config_maps.append(at(source, "configMap", "name"))
            secrets.append(at(source, "secret", "name"))
    return pods.named(doc, {"ConfigMap": config_maps, "Secret": secrets})


def sidecar_counts(doc: Document) -> Document | None:
    """Return the counters of the set, 0 for those that are not set; None if it has no status."""
    status = doc.get("status")
    return {field: status.get(field) or 0 for field in _SIDECARS} if isinstance(status, dict) else None


def _set(status: Document, **fields: Any) -> Document:
    """Return a status with these fields; a field that is None is removed."""
    return {name: value for name, value in {**status, **fields}.items() if value is not None}


ADVANCED_CRON_JOB = Interpreter(aggregate=cron_status, dependencies=cron_needs)
BROADCAST_JOB = Interpreter(
    replicas=pods.replicas_at("parallelism"),
    revise=pods.with_field("parallelism"),
    healthy=broadcast_healthy,
    aggregate=broadcast_status,
    retain=broadcast_kept,
    prune=prune.without_field("spec", "completionPolicy", "ttlSecondsAfterFinished"),
    final=ends_with("Complete", "Failed"),
    reflect=copied("conditions", "startTime", "completionTime", *_BROADCAST, "phase"),
    dependencies=pods.needs_of_template("spec", "template"),
)
CLONE_SET = Interpreter(
    replicas=pods.replicas_at("replicas"),
    revise=pods.with_field("replicas"),
    healthy=rolled_out,
    aggregate=counters(*_CLONES, "expectedUpdatedReplicas", named=_CLONE_NAMES),
    reflect=with_generations(copied(*_CLONES, "expectedUpdatedReplicas", *_CLONE_NAMES, "observedGeneration")),
    dependencies=pods.needs_of_template("spec", "template"),
)
STATEFUL_SET = Interpreter(
    replicas=pods.replicas_at("replicas"),
    revise=pods.with_field("replicas"),
    healthy=rolled_out,
    aggregate=counters(*_STATEFUL, "updatedReadyReplicas", named=_STATEFUL_NAMES),
    reflect=with_generations(copied(*_STATEFUL, "updatedReadyReplicas", *_STATEFUL_NAMES, "observedGeneration")),
    dependencies=pods.needs_of_template("spec", "template"),
)
DAEMON_SET = Interpreter(
    healthy=daemons_available,
    aggregate=counters(*_DAEMONS, named=("daemonSetHash",)),
    reflect=with_generations(copied("observedGeneration", *_DAEMONS, "daemonSetHash")),
    dependencies=pods.needs_of_template("spec", "template"),
)
UNITED_DEPLOYMENT = Interpreter(
    replicas=pods.replicas_at("replicas"),
    revise=pods.with_field("replicas"),
    healthy=united_rolled_out,
    aggregate=united_status,
    reflect=with_generations(copied(*_UNITED, "observedGeneration", "conditions")),
    dependencies=pods.needs_of_template("spec", "template"),
)
SIDECAR_SET = Interpreter(
    replicas=lambda doc: Demand(0, None),
    healthy=sidecars_healthy,
    aggregate=lambda doc, items, now: {field: number(total(items, field), 0) for field in _SIDECARS},
    retain=lambda desired, observed: desired,
    reflect=sidecar_counts,
    dependencies=sidecar_needs,
)
