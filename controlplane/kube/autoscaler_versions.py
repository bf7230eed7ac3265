"""HorizontalPodAutoscalers in autoscaling/v1 and autoscaling/v2, converted as a kube-apiserver converts them.

autoscaling/v1 has one field for the share of CPU. What else autoscaling/v2 has is kept there in annotations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

import orjson

from controlplane.kube import walk
from controlplane.wire import document_check
from controlplane.wire.prune import prune

Document = dict[str, Any]

V1, V2 = "autoscaling/v1", "autoscaling/v2"
_PREFIX: Final = "autoscaling.alpha.kubernetes.io"
METRICS, BEHAVIOR = f"{_PREFIX}/metrics", f"{_PREFIX}/behavior"
CONDITIONS, CURRENT_METRICS = f"{_PREFIX}/conditions", f"{_PREFIX}/current-metrics"
_KEPT: Final = (METRICS, BEHAVIOR, CONDITIONS, CURRENT_METRICS)
DEFAULT_SHARE: Final = 80  # percent of the requested CPU, where no metric is given
_NO_REPLICAS: Final = ("currentReplicas",)  # 0, which autoscaling/v2 leaves out
_SOURCES: Final = ("object", "pods", "resource", "containerResource", "external")
_RULES: Final = ("ScaleUp", "ScaleDown")
_RULE_FIELDS: Final = ("StabilizationWindowSeconds", "SelectPolicy", "Policies")
_POLICY_FIELDS: Final = ("Type", "Value", "PeriodSeconds")


def converted(document: Document, api_version: str) -> Document:
    """Return an autoscaler in one of its two versions. The annotations of autoscaling/v1 exist in that version only."""
    if document.get("apiVersion") == api_version:
        return document
    made = _as_v1(document) if api_version == V1 else _as_v2(document)
    return {**made, "apiVersion": api_version}


def _as_v1(document: Document) -> Document:
    spec, status = _map(document.get("spec")), _map(document.get("status"))
    metrics, current = _maps(spec.get("metrics")), _maps(status.get("currentMetrics"))
    kept: dict[str, Any] = {
        METRICS: [_v1_metric(metric) for metric in metrics if _cpu_share(metric) is None],
        CURRENT_METRICS: [_v1_current(metric) for metric in current],
        BEHAVIOR: _v1_behavior(spec["behavior"]) if isinstance(spec.get("behavior"), dict) else None,
        CONDITIONS: _maps(status.get("conditions")),
    }
    made = _with_annotations(document, {key: orjson.dumps(value).decode() for key, value in kept.items() if value})
    if "spec" in document:
        made["spec"] = _without(spec, "metrics", "behavior")
        shares = [share for share in map(_cpu_share, metrics) if share is not None]
        if shares:
            made["spec"]["targetCPUUtilizationPercentage"] = shares[0]
    if "status" in document:
        made["status"] = {
            "currentReplicas": 0,
            "desiredReplicas": 0,
            **_without(status, "currentMetrics", "conditions"),
        }
        shares = [share for share in map(_current_cpu_share, current) if share is not None]
        if shares:
            made["status"]["currentCPUUtilizationPercentage"] = shares[-1]
    return made


def _as_v2(document: Document) -> Document:
    annotations = _map(_map(document.get("metadata")).get("annotations"))
    made = _with_annotations(document, {})
    if "spec" in document:
        spec = _map(document["spec"])
        made["spec"] = _without(spec, "targetCPUUtilizationPercentage")
        share = spec.get("targetCPUUtilizationPercentage")
        own = [] if share is None else [_cpu_metric(share)]
        others = _read(annotations.get(METRICS), _v2_metrics, "spec", "metrics") or []
        metrics = [*others, *own]
        if not metrics and METRICS not in annotations:
            metrics = [_cpu_metric(DEFAULT_SHARE)]
        made["spec"] |= {"metrics": metrics} if metrics else {}
        behavior = _read(annotations.get(BEHAVIOR), _v2_behavior, "spec", "behavior")
        made["spec"] |= {"behavior": behavior} if behavior else {}
    status = _map(document.get("status"))
    found = _without(
        status, "currentCPUUtilizationPercentage", *(() if status.get("currentReplicas") else _NO_REPLICAS)
    )
    if (share := status.get("currentCPUUtilizationPercentage")) is not None:
        found["currentMetrics"] = [
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": share}}}
        ]
    current = _read(annotations.get(CURRENT_METRICS), _v2_currents, "status", "currentMetrics")
    found |= {"currentMetrics": current} if current else {}
    conditions = _read(annotations.get(CONDITIONS), _all_maps, "status", "conditions")
    found |= {"conditions": conditions} if conditions else {}
    if found or "status" in document:
        made["status"] = found
    return made


def _cpu_metric(share: Any) -> Document:
    target = {"type": "Utilization", "averageUtilization": share}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _cpu_share(metric: Document) -> Any:
    """Return the share of CPU that a metric aims at; None: it is another metric."""
    source = _map(metric.get("resource"))
    if metric.get("type") != "Resource" or source.get("name") != "cpu":
        return None
    return _map(source.get("target")).get("averageUtilization")


def _current_cpu_share(metric: Document) -> Any:
    source = _map(metric.get("resource"))
    if metric.get("type") != "Resource" or source.get("name") != "cpu":
        return None
    return _map(source.get("current")).get("averageUtilization")


def _v1_metric(metric: Document) -> Document:
    """Return a metric in the form of the annotation."""
    made: Document = {"type": metric.get("type", "")}
    for name in _SOURCES:
        source = _map(metric.get(name))
        if not source:
            continue
        target = _map(source.get("target"))
        share, value, average = (target.get(field) for field in ("averageUtilization", "value", "averageValue"))
        if name == "object":
            named = _object_metric(source)
            made[name] = _some({**named, "targetValue": value or "0", **_selector(source), "averageValue": average})
        elif name == "pods":
            made[name] = _some({"metricName": _name(source), "targetAverageValue": average, **_selector(source)})
        elif name == "external":
            named = {"metricName": _name(source), "metricSelector": _map(source.get("metric")).get("selector")}
            made[name] = _some({**named, "targetValue": value, "targetAverageValue": average})
        else:
            shares = {"targetAverageUtilization": share, "targetAverageValue": average}
            made[name] = _some({"name": source.get("name"), **shares, "container": source.get("container")})
    return made


def _v1_current(metric: Document) -> Document:
    """Return the present value of a metric in the form of the annotation."""
    made: Document = {"type": metric.get("type", "")}
    for name in _SOURCES:
        source = _map(metric.get(name))
        if not source:
            continue
        now = _map(source.get("current"))
        share, value, average = (now.get(field) for field in ("averageUtilization", "value", "averageValue"))
        if name == "object":
            named = _object_metric(source)
            made[name] = _some({**named, "currentValue": value or "0", **_selector(source), "averageValue": average})
        elif name == "pods":
            made[name] = _some(
                {"metricName": _name(source), "currentAverageValue": average or "0", **_selector(source)}
            )
        elif name == "external":
            named = {"metricName": _name(source), "metricSelector": _map(source.get("metric")).get("selector")}
            made[name] = _some({**named, "currentValue": value or "0", "currentAverageValue": average})
        else:
            shares = {"currentAverageUtilization": share, "currentAverageValue": average or "0"}
            made[name] = _some({"name": source.get("name"), **shares, "container": source.get("container")})
    return made


def _object_metric(source: Document) -> Document:
    about = _map(source.get("describedObject"))
    target = _some({field: about.get(field) for field in ("kind", "name", "apiVersion")})
    return {"target": target, "metricName": _name(source)}


def _name(source: Document) -> Any:
    return _map(source.get("metric")).get("name", "")


def _selector(source: Document) -> Document:
    return {"selector": _map(source.get("metric")).get("selector")}


def _v2_metrics(found: Any) -> list[Document]:
    return [_v2_metric(metric) for metric in _all_maps(found)]


def _v2_metric(metric: Document) -> Document:
    made: Document = {"type": metric.get("type", "")}
    for name in _SOURCES:
        source = _map(metric.get(name))
        if not source:
            continue
        if name == "object":
            average = source.get("averageValue")
            value = None if average is not None and source.get("targetValue") in (0, "0") else source.get("targetValue")
            target = {"type": "Value" if average is None else "AverageValue", "value": value, "averageValue": average}
            made[name] = {"describedObject": source.get("target"), **_metric(source, "selector")}
        elif name == "pods":
            target = {"type": "AverageValue", "averageValue": source.get("targetAverageValue")}
            made[name] = _metric(source, "selector")
        elif name == "external":
            value, average = source.get("targetValue"), source.get("targetAverageValue")
            target = {"type": "AverageValue" if value is None else "Value", "value": value, "averageValue": average}
            made[name] = _metric(source, "metricSelector")
        else:
            share, average = source.get("targetAverageUtilization"), source.get("targetAverageValue")
            kind = "AverageValue" if share is None else "Utilization"
            target = {"type": kind, "averageUtilization": share, "averageValue": average}
            made[name] = _some({"name": source.get("name"), "container": source.get("container")})
        made[name]["target"] = _some(target)
    return made


def _v2_currents(found: Any) -> list[Document]:
    return [_v2_current(metric) for metric in _all_maps(found)]


def _v2_current(metric: Document) -> Document:
    made: Document = {"type": metric.get("type", "")}
    for name in _SOURCES:
        source = _map(metric.get(name))
        if not source:
            continue
        value, average = source.get("currentValue"), source.get("currentAverageValue")
        average = source.get("averageValue") if name == "object" else average
        value = None if average is not None and value in (0, "0") else value
        if name == "object":
            made[name] = {"describedObject": source.get("target"), **_metric(source, "selector")}
        elif name in ("pods", "external"):
            made[name] = _metric(source, "selector" if name == "pods" else "metricSelector")
        else:
            made[name] = _some({"name": source.get("name"), "container": source.get("container")})
        share = source.get("currentAverageUtilization")
        made[name]["current"] = _some({"value": value, "averageValue": average, "averageUtilization": share})
    return made


def _metric(source: Document, selector: str) -> Document:
    return {"metric": _some({"name": source.get("metricName", ""), "selector": source.get(selector)})}


def _v1_behavior(behavior: Document) -> Document:
    """Return the behavior in the form of the annotation, which has the field names of Go."""
    return {rule: _in_go(behavior.get(_lower(rule)), _RULE_FIELDS) for rule in _RULES}


def _in_go(value: Any, fields: Iterable[str]) -> Any:
    if not isinstance(value, dict):
        return None
    made: Document = {field: value.get(_lower(field)) for field in fields}
    if isinstance(made.get("Policies"), list):
        made["Policies"] = [_in_go(policy, _POLICY_FIELDS) for policy in made["Policies"]]
    return made


def _v2_behavior(found: Any) -> Any:
    if isinstance(found, dict):
        return {_lower(key): _v2_behavior(value) for key, value in found.items() if value is not None}
    return [_v2_behavior(value) for value in found] if isinstance(found, list) else found


def _lower(name: str) -> str:
    return name[:1].lower() + name[1:]


def _read(text: Any, make: Callable[[Any], Any], part: str, field: str) -> Any:
    """Return what an annotation says about a field of autoscaling/v2; None: it is missing or cannot be read."""
    if not isinstance(text, str):
        return None
    try:
        document = {part: {field: make(orjson.loads(text))}}
    except (ValueError, TypeError, AttributeError):
        return None
    if any(cause.field.startswith(f"{part}.{field}") for cause in document_check.faults(document, _schema())):
        return None
    return prune(document, _schema())[part][field]


@cache
def _schema() -> Any:
    return walk.checked_schema("autoscaling", "v2", "HorizontalPodAutoscaler")


def _with_annotations(document: Document, kept: Document) -> Document:
    """Return a copy of a document in which `kept` are the annotations that stand for fields of the other version."""
    metadata = _map(document.get("metadata"))
    own = {key: value for key, value in _map(metadata.get("annotations")).items() if key not in _KEPT}
    annotations = {**own, **kept}
    return {
        **document,
        "metadata": {**_without(metadata, "annotations"), **({"annotations": annotations} if annotations else {})},
    }


def _map(value: Any) -> Document:
    return value if isinstance(value, dict) else {}


def _maps(value: Any) -> list[Document]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _all_maps(value: Any) -> list[Document]:
    """Return a list of objects. Raises TypeError if it is something else."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise TypeError("not a list of objects")
    return value


def _some(value: Document) -> Document:
    return {key: found for key, found in value.items() if found is not None}


def _without(value: Document, *fields: str) -> Document:
    return {key: found for key, found in value.items() if key not in fields}
