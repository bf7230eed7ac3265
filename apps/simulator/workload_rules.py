"""The rules of kube-apiserver for workloads and Pods that concern several fields."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from typing import Any

from apps.simulator.checks import found, is_nothing, is_share
from apps.simulator.pod_rules import pod_causes
from controlplane.apimachinery import causes
from controlplane.apimachinery.errors import Cause

Document = dict[str, Any]

_ALWAYS = ("Always",)
_ENDING = ("OnFailure", "Never")
_CRON = {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
_NUMBER = "must be a number of at least 0 or a percentage up to 100%"


def template(document: Document) -> Iterator[Cause]:
    """Yield the causes to refuse the pod template of a workload."""
    spec = document.get("spec") or {}
    restarts = _ENDING if document["kind"] == "Job" else _ALWAYS
    names = found(document, "spec.volumeClaimTemplates[].metadata.name")
    claims = frozenset(str(name) for _, name in names)
    inner = (spec.get("template") or {}).get("spec") or {}
    yield from pod_causes(inner, "spec.template.spec", restarts=restarts, claims=claims)


def alone(document: Document) -> Iterator[Cause]:
    """Yield the causes to refuse a Pod."""
    yield from pod_causes(document.get("spec") or {}, "spec", restarts=(*_ALWAYS, *_ENDING), claims=frozenset())


def selected(document: Document) -> Iterator[Cause]:
    """Yield the cause to refuse a workload whose selector does not match its pod template."""
    spec = document.get("spec") or {}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if not spec.get("selector"):
        yield causes.required("spec.selector")
    elif any(labels.get(key) != value for key, value in (spec["selector"].get("matchLabels") or {}).items()):
        text = "`selector` does not match template `labels`"
        yield causes.invalid("spec.template.metadata.labels", labels, text)


def deployment(document: Document) -> Iterator[Cause]:
    """Yield the causes to refuse the strategy and the deadline of a Deployment."""
    spec = document.get("spec") or {}
    strategy = spec.get("strategy") or {}
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind not in ("Recreate", "RollingUpdate"):
        yield causes.unsupported("spec.strategy.type", kind, ("Recreate", "RollingUpdate"))
    if kind == "Recreate" and rolling is not None:
        yield causes.forbidden("spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    if kind == "RollingUpdate":
        yield from _rolling(rolling or {}, "spec.strategy.rollingUpdate")
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if isinstance(deadline, int) and deadline <= ready:
        yield causes.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def daemon_set(document: Document) -> Iterator[Cause]:
    """Yield the causes to refuse the update strategy of a DaemonSet."""
    strategy = (document.get("spec") or {}).get("updateStrategy") or {}
    if strategy.get("type") == "RollingUpdate":
        yield from _rolling(strategy.get("rollingUpdate") or {}, "spec.updateStrategy.rollingUpdate")


def _rolling(rolling: Document, at: str) -> Iterator[Cause]:
    surge, missing = rolling.get("maxSurge"), rolling.get("maxUnavailable")
    for field, value in (("maxSurge", surge), ("maxUnavailable", missing)):
        if value is not None and not is_share(value):
            yield causes.invalid(f"{at}.{field}", value, _NUMBER)
    if is_nothing(surge) and is_nothing(missing):
        yield causes.invalid(f"{at}.maxUnavailable", missing, "may not be 0 when `maxSurge` is 0")


def job(document: Document) -> Iterator[Cause]:
    """Yield the causes to refuse the selector of a Job. Unless it is manual, kube-apiserver generates it."""
    spec = document.get("spec") or {}
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    chosen = (spec.get("selector") or {}).get("matchLabels") or {}
    uid = document["metadata"].get("uid")
    if not spec.get("selector"):
        yield causes.required("spec.selector")
    elif any(labels.get(key) != value for key, value in chosen.items()):
        yield causes.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if not spec.get("manualSelector") and chosen != {"batch.kubernetes.io/controller-uid": uid}:
        yield causes.invalid("spec.selector", chosen, "`selector` not auto-generated")


def cron_job(document: Document) -> Iterator[Cause]:
    """Yield the causes to refuse the schedule, the time zone and the job template of a CronJob."""
    spec = document.get("spec") or {}
    schedule, zone = spec.get("schedule"), spec.get("timeZone")
    if not schedule:
        yield causes.required("spec.schedule")
    elif "TZ" in schedule:
        yield causes.invalid("spec.schedule", schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone")
    elif schedule not in _CRON and not schedule.startswith("@every ") and not _is_cron(schedule):
        yield causes.invalid("spec.schedule", schedule, "expected exactly 5 fields")
    if zone and zone not in zoneinfo.available_timezones():
        yield causes.invalid("spec.timeZone", zone, "unknown time zone")
    inner = (((spec.get("jobTemplate") or {}).get("spec") or {}).get("template") or {}).get("spec") or {}
    at = "spec.jobTemplate.spec.template.spec"
    yield from pod_causes(inner, at, restarts=_ENDING, claims=frozenset())


def _is_cron(schedule: str) -> bool:
    fields = schedule.split()
    return len(fields) == 5 and all(any(sign in field for sign in "*?0123456789") for field in fields)


def autoscaler(document: Document) -> Iterator[Cause]:
    """Yield the causes to refuse the bounds, the metrics and the behavior of a HorizontalPodAutoscaler."""
    spec = document.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas")
    if isinstance(least, int) and isinstance(most, int) and most < least:
        yield causes.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    for where, metric in found(document, "spec.metrics[]"):
        kind = str(metric.get("type", ""))
        source = metric.get(kind[:1].lower() + kind[1:])
        if not source:
            yield causes.required(f"{where}.{kind[:1].lower() + kind[1:]}", "must populate information for the metric")
        elif kind == "Resource" and not {"averageUtilization", "averageValue"} & set(source.get("target") or ()):
            yield causes.required(f"{where}.resource.target.averageUtilization", "must set a target value")
    for where, rules in (*found(document, "spec.behavior.scaleUp"), *found(document, "spec.behavior.scaleDown")):
        if rules is not None and not rules.get("policies"):
            yield causes.required(f"{where}.policies", "must specify at least one Policy")
