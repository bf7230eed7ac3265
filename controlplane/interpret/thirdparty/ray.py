"""Ray (ray.io/v1): clusters, jobs and services that run on a head and groups of workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from controlplane.apimachinery.quantities import Quantity
from controlplane.interpret.interpreter import Demand, Dependency, Document, Interpreter
from controlplane.interpret.thirdparty import pods
from controlplane.interpret.thirdparty.fields import (
    Items,
    at,
    latest,
    listed,
    number,
    only_report,
    reports,
    status_of,
    total,
)
from controlplane.interpret.thirdparty.rollout import ends_as, is_true
from controlplane.kinds.binding import Component
from controlplane.kinds.template.pods import referenced_objects

_CLUSTER_COUNTERS = (
    *("readyWorkerReplicas", "availableWorkerReplicas", "maxWorkerReplicas"),
    *("minWorkerReplicas", "desiredWorkerReplicas"),
)
_JOB_PHASES = ("Initializing", "Waiting", "Suspending", "Retrying", "Running", "Complete", "ValidationFailed", "Failed")
_JOB_RESULTS = ("PENDING", "RUNNING", "SUCCEEDED", "STOPPED", "FAILED")
_APPLICATIONS = ("RUNNING", "NOT_STARTED", "DEPLOYING", "DELETING", "UNHEALTHY", "DEPLOY_FAILED")


def components_at(*path: str) -> Callable[[Document], tuple[Component, ...]]:
    """Return the component rule of kinds with a Ray cluster at this path: the head, and each group of workers."""

    def components(doc: Document) -> tuple[Component, ...]:
        cluster = at(doc, *path)
        head = at(cluster, "headGroupSpec", "template")
        found = [] if head is None else [pods.component("ray-head", 1, head)]
        for index, group in enumerate(listed(at(cluster, "workerGroupSpecs")), start=1):
            name = group.get("groupName") or f"worker-{index}"
            found.append(pods.component(name, group.get("replicas"), group.get("template"), 0))
        return tuple(found)

    return components


def needs_at(*paths: tuple[str, ...]) -> Callable[[Document], Sequence[Dependency]]:
    """Return the dependency rule: what the pods of a Ray cluster, or of a single template, at these paths need."""

    def dependencies(doc: Document) -> Sequence[Dependency]:
        names: dict[str, list[str]] = {kind: [] for kind in pods.KINDS}
        for path in paths:
            for template in _templates(at(doc, *path)):
                for kind, name in referenced_objects(at(template, "spec") or {}):
                    names[kind].append(name)
        return pods.named(doc, names)

    return dependencies


def _templates(part: Any) -> Iterator[Any]:
    """Yield the pod templates of a Ray cluster; a part that is itself a template is yielded."""
    if at(part, "spec") is not None:
        yield part
    yield at(part, "headGroupSpec", "template")
    for group in listed(at(part, "workerGroupSpecs")):
        yield group.get("template")


def service_replicas(doc: Document) -> Demand:
    """Return the head and all workers; each requests the largest cpu and memory of any, on the nodes of the head."""
    cluster = at(doc, "spec", "rayClusterConfig")
    head, groups = at(cluster, "headGroupSpec", "template"), listed(at(cluster, "workerGroupSpecs"))
    if head is None:
        return Demand(0, None)
    count = 1 + sum(int(number(group.get("replicas"), 0)) for group in groups)
    wanted = pods.requested(head)
    workers = [pods.requested(group["template"]) for group in groups if group.get("template") is not None]
    if wanted is None:
        return Demand(count, None)
    request = dict(wanted.resource_request)
    for other in workers:
        for name in ("cpu", "memory"):
            amount = other.resource_request.get(name) if other is not None else None
            if amount is not None and (name not in request or Quantity.of(amount) > Quantity.of(request[name])):
                request[name] = amount
    return Demand(count, replace(wanted, resource_request=request))


def service_revised(doc: Document, replicas: int) -> Document:
    """Return the service with `replicas` pods: 1 head, and workers in the present proportion of their groups.

    Groups without workers get equal parts. The last group gets what is left.
    """
    cluster = at(doc, "spec", "rayClusterConfig") or {}
    groups = listed(cluster.get("workerGroupSpecs"))
    if not groups:
        return doc
    parts = _divided(max(0, replicas - 1), [int(number(group.get("replicas"), 0)) for group in groups])
    revised = [{**group, "replicas": part} for group, part in zip(groups, parts, strict=True)]
    return {**doc, "spec": {**doc["spec"], "rayClusterConfig": {**cluster, "workerGroupSpecs": revised}}}


def _divided(workers: int, present: Sequence[int]) -> list[int]:
    if len(present) == 1 or workers == 0:
        return [workers] * len(present)
    all_present = sum(present)
    parts = list[int]()
    for index, count in enumerate(present[:-1]):
        if all_present == 0:
            part = workers // len(present) + (index < workers % len(present))
        else:
            part = math.floor(workers * (count / all_present) + 0.5)
        parts.append(min(part, workers - sum(parts)))  # each is rounded, so that they may be more than all workers
    return [*parts, workers - sum(parts)]


def cluster_healthy(doc: Document) -> bool:
    """Test whether the head is ready, the cluster was provisioned, and no replica failed."""
    ready = is_true(doc, "HeadPodReady") and is_true(doc, "RayClusterProvisioned")
    return ready and not is_true(doc, "RayClusterReplicaFailure")


def job_healthy(doc: Document) -> bool:
    """Test whether a job runs, or is complete and succeeded."""
    deployment, result = at(doc, "status", "jobDeploymentStatus"), at(doc, "status", "jobStatus")
    return bool(deployment == "Running" or (deployment == "Complete" and result == "SUCCEEDED"))


def cluster_status(doc: Document, items: Items, now: datetime) -> Document:
    """Return added counters and resources of all members; head and endpoints are those of the first member that has
    them. A cluster on one member has the status that this member reports."""
    if not items:
        return status_of(doc)
    if (only := only_report(items)) is not None:
        return only
    found = list(reports(items))
    status: Document = {
        **status_of(doc),
        "conditions": [condition for report in found for condition in listed(report.get("conditions"))],
        **{field: total(items, field) for field in _CLUSTER_COUNTERS},
        "lastUpdateTime": latest(items, "lastUpdateTime"),
        **{field: _first(found, field) for field in ("endpoints", "head", "state")},
    }
    with_state = [report for report in found if report.get("state") is not None]
    status["stateTransitionTimes"] = with_state[0].get("stateTransitionTimes") if with_state else None
    for field in ("desiredCPU", "desiredMemory"):
        amounts = [Quantity.of(report[field]) for report in found if report.get(field) not in (None, "")]
        status[field] = str(sum(amounts[1:], amounts[0])) if amounts else "0"
    for field in ("desiredGPU", "desiredTPU"):
        status[field] = str(sum(_device_count(report.get(field), field) for report in found))
    return {name: value for name, value in status.items() if value is not None}


def _device_count(value: Any, field: str) -> Any:
    if value in (None, ""):
        return 0
    amount = number(value)
    if amount is None:
        raise ValueError(f"status.{field}: {value!r} is not a number")
    return amount


def job_status(doc: Document, items: Items, now: datetime) -> Document:
    """Return the furthest deployment status and result that a member reports; failures are the furthest.

    A job on one cluster has the status that this cluster reports.
    """
    if not items:
        return status_of(doc)
    if (only := only_report(items)) is not None:
        return only
    found = list(reports(items))
    phases = [report for report in found if report.get("jobDeploymentStatus") is not None]
    phase = max(phases, key=lambda report: _rank(report["jobDeploymentStatus"], _JOB_PHASES), default={})
    results = [report["jobStatus"] for report in found if report.get("jobStatus")]
    furthest = {
        "jobStatus": max(results, key=lambda result: _rank(result, _JOB_RESULTS), default=None),
        **{field: phase.get(field) for field in ("jobDeploymentStatus", "reason", "message")},
    }
    return {name: value for name, value in {**status_of(doc), **furthest}.items() if value is not None}


def service_status(doc: Document, items: Items, now: datetime) -> Document:
    """Return added endpoints, all conditions, and the worst status of each application.

    A service on one cluster has the status that this cluster reports.
    """
    if not items:
        return status_of(doc)
    if (only := only_report(items)) is not None:
        return only
    found = list(reports(items))
    status: Document = {
        **status_of(doc),
        "conditions": [condition for report in found for condition in listed(report.get("conditions"))],
        "numServeEndpoints": total(items, "numServeEndpoints"),
        "lastUpdateTime": latest(items, "lastUpdateTime"),
        "observedGeneration": max((number(report.get("observedGeneration"), 0) for report in found), default=0),
        "serviceStatus": "" if any(report.get("serviceStatus") == "" for report in found) else "Running",
    }
    active = [report["activeServiceStatus"] for report in found if report.get("activeServiceStatus") is not None]
    if active:
        status["activeServiceStatus"] = {**active[0], "applicationStatuses": _worst_applications(active)}
    pending = _first(found, "pendingServiceStatus")
    if pending is not None:
        status["pendingServiceStatus"] = pending
    return {name: value for name, value in status.items() if value is not None}


def _worst_applications(active: Sequence[Document]) -> Document:
    worst: Document = {}
    for service in active:
        for name, application in (service.get("applicationStatuses") or {}).items():
            known = worst.get(name)
            rank = _rank(application.get("status"), _APPLICATIONS)
            if known is None or rank > _rank(known.get("status"), _APPLICATIONS):
                worst[name] = application
    return worst


def _rank(value: Any, order: Sequence[str]) -> int:
    """Return the position of a status; an unknown status comes first. Suspended ranks like Suspending."""
    value = "Suspending" if value == "Suspended" else value
    return order.index(value) if value in order else (0 if order is _APPLICATIONS else -1)


def _first(found: Sequence[Document], field: str) -> Any:
    return next((report[field] for report in found if report.get(field) is not None), None)


CLUSTER = Interpreter(components=components_at("spec"), healthy=cluster_healthy, aggregate=cluster_status)
JOB = Interpreter(
    components=components_at("spec", "rayClusterSpec"),
    healthy=job_healthy,
    aggregate=job_status,
    final=ends_as(("jobDeploymentStatus",), "Complete", "Failed"),
    dependencies=needs_at(("spec", "rayClusterSpec"), ("spec", "submitterPodTemplate")),
)
SERVICE = Interpreter(
    replicas=service_replicas,
    revise=service_revised,
    healthy=lambda doc: is_true(doc, "Ready"),
    aggregate=service_status,
    dependencies=needs_at(("spec", "rayClusterConfig")),
)
