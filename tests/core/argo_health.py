"""Argo CD's rules of health, as far as they judge what this control plane serves.

Written after the Lua rules that argoproj/argo-cd publishes in resource_customizations (master, where they have replaced
gitops-engine/pkg/health/health_*.go); Ingress after the Go rule. A kind without a rule has no health; Argo CD then
counts it as healthy.
"""

from __future__ import annotations

from typing import Any

from controlplane.interpret.interpreter import Document

HEALTHY, PROGRESSING, DEGRADED = "Healthy", "Progressing", "Degraded"
SUSPENDED, UNKNOWN, NO_RULE = "Suspended", "Unknown", "no rule"

_SCALER_DEGRADED = {
    ("AbleToScale", "FailedGetScale"),
    ("AbleToScale", "FailedUpdateScale"),
    ("ScalingActive", "FailedGetResourceMetric"),
    ("ScalingActive", "FailedGetObjectMetric"),
    ("ScalingActive", "FailedGetPodsMetric"),
    ("ScalingActive", "FailedGetExternalMetric"),
    ("ScalingActive", "FailedComputeMetricsReplicas"),
    ("ScalingActive", "InvalidSelector"),
}


def health(doc: Document) -> str:
    """Return the health of an object."""
    if (doc.get("metadata") or {}).get("deletionTimestamp"):
        return PROGRESSING
    group, _, _ = str(doc["apiVersion"]).rpartition("/")
    rule = _RULES.get((group, doc["kind"]))
    return NO_RULE if rule is None else rule(doc.get("spec") or {}, doc.get("status"), _generation(doc))


def _generation(doc: Document) -> int:
    return int((doc.get("metadata") or {}).get("generation") or 0)


def _count(status: Document | None, field: str) -> int:
    return int((status or {}).get(field) or 0)


def _conditions(status: Document | None) -> list[Document]:
    return list((status or {}).get("conditions") or ())


def _deployment(spec: Document, status: Document | None, generation: int) -> str:
    if spec.get("paused"):
        return SUSPENDED
    if generation > _count(status, "observedGeneration"):
        return PROGRESSING
    first = next((one for one in _conditions(status) if one["type"] == "Progressing"), {})
    if first.get("reason") == "ProgressDeadlineExceeded":
        return DEGRADED
    updated = _count(status, "updatedReplicas")
    waits = "replicas" in spec and updated < spec["replicas"]
    behind = _count(status, "replicas") > updated or _count(status, "availableReplicas") < updated
    return PROGRESSING if waits or behind else HEALTHY


def _stateful_set(spec: Document, status: Document | None, generation: int) -> str:
    observed = _count(status, "observedGeneration")
    if not observed or generation > observed or _count(status, "readyReplicas") < spec.get("replicas", 0):
        return PROGRESSING
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") if strategy.get("type") == "RollingUpdate" else None
    if rolling is not None:
        partition = rolling.get("partition")
        behind = partition is not None and _count(status, "updatedReplicas") < spec.get("replicas", 0) - partition
        return PROGRESSING if behind else HEALTHY
    revisions = [(status or {}).get(field) for field in ("updateRevision", "currentRevision")]
    return HEALTHY if strategy.get("type") == "OnDelete" or revisions[0] == revisions[1] else PROGRESSING


def _daemon_set(spec: Document, status: Document | None, generation: int) -> str:
    if generation > _count(status, "observedGeneration"):
        return PROGRESSING
    if (spec.get("updateStrategy") or {}).get("type") == "OnDelete":
        return HEALTHY
    least = min(_count(status, "updatedNumberScheduled"), _count(status, "numberAvailable"))
    return PROGRESSING if least < _count(status, "desiredNumberScheduled") else HEALTHY


def _job(spec: Document, status: Document | None, generation: int) -> str:
    types = {one["type"]: one.get("status") for one in _conditions(status)}
    if "Failed" in types:
        return DEGRADED
    if types.get("Suspended") == "True":
        return SUSPENDED
    return HEALTHY if types.keys() & {"Complete", "Suspended"} else PROGRESSING


def _cron_job(spec: Document, status: Document | None, generation: int) -> str:
    if spec.get("suspend"):
        return SUSPENDED
    if status is None:
        return PROGRESSING
    scheduled, succeeded = status.get("lastScheduleTime"), status.get("lastSuccessfulTime")
    if scheduled and succeeded and not status.get("active") and succeeded < scheduled:
        return DEGRADED
    return HEALTHY


def _scaler(spec: Document, status: Document | None, generation: int) -> str:
    conditions = _conditions(status)
    if any((one["type"], one.get("reason")) in _SCALER_DEGRADED for one in conditions):
        return DEGRADED
    able = [one for one in conditions if one["type"] in ("AbleToScale", "ScalingLimited")]
    return HEALTHY if any(one.get("status") == "True" for one in able) else PROGRESSING


def _service(spec: Document, status: Document | None, generation: int) -> str:
    return _ingress(spec, status, generation) if spec.get("type") == "LoadBalancer" else HEALTHY


def _ingress(spec: Document, status: Document | None, generation: int) -> str:
    return HEALTHY if ((status or {}).get("loadBalancer") or {}).get("ingress") else PROGRESSING


def _claim(spec: Document, status: Document | None, generation: int) -> str:
    # Pending without an annotation of a provisioner waits for its first pod: Healthy since 3.4, Progressing before.
    known = {"Lost": DEGRADED, "Pending": PROGRESSING, "Bound": HEALTHY}
    return known.get(str((status or {}).get("phase")), UNKNOWN)


def _binding(spec: Document, status: Document | None, generation: int) -> str:
    clusters, items = spec.get("clusters") or [], (status or {}).get("aggregatedStatus")
    if not clusters or items is None or len(clusters) != len(items):
        return PROGRESSING
    bad = (
        one.get("health") == "Unhealthy" or (one.get("health") == "Unknown" and not one.get("applied")) for one in items
    )
    return DEGRADED if any(bad) else HEALTHY


_RULES: dict[tuple[str, str], Any] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("autoscaling", "HorizontalPodAutoscaler"): _scaler,
    ("", "Service"): _service,
    ("networking.k8s.io", "Ingress"): _ingress,
    ("", "PersistentVolumeClaim"): _claim,
    ("work.karmada.io", "ResourceBinding"): _binding,
    ("work.karmada.io", "ClusterResourceBinding"): _binding,
}
