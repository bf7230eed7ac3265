"""HorizontalPodAutoscalers, PodDisruptionBudgets and PriorityClasses."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery import causes, selectors
from controlplane.kube.rules import Causes, Document, Type, at_least, dns_label, is_empty, one_of, share, sign

_KINDS = ("ContainerResource", "External", "Object", "Pods", "Resource")
_FIELDS = {kind: kind[:1].lower() + kind[1:] for kind in _KINDS}
_PROMPT = "must populate information for the given metric source"
_RESOURCES = ("cpu", "memory", "ephemeral-storage")
MAX_PERIOD, MAX_WINDOW = 1800, 3600
MAX_PRIORITY = 1_000_000_000


def _scaler(value: Document, at: str, out: Causes) -> None:
    least, most = value.get("minReplicas", 1), value.get("maxReplicas") or 0
    if most == 0:
        out.append(causes.required(f"{at}.maxReplicas", "must be set and greater than 0"))
    elif most < 1:
        out.append(causes.invalid(f"{at}.maxReplicas", most, "must be greater than or equal to 1"))
    if isinstance(least, int) and most < least:
        out.append(causes.invalid(f"{at}.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    target = value.get("scaleTargetRef") or {}
    _reference(target, f"{at}.scaleTargetRef", out)
    version = target.get("apiVersion") or ""
    if "/" not in version and version != "v1":
        out.append(causes.invalid(f"{at}.scaleTargetRef.apiVersion", version, "apiVersion must specify API group"))
    for index, metric in enumerate(value.get("metrics") or ()):
        _metric(metric, f"{at}.metrics[{index}]", out)


def _reference(value: Document, at: str, out: Causes) -> None:
    for field in ("kind", "name"):
        if not value.get(field):
            out.append(causes.required(f"{at}.{field}"))
        else:
            wrongs = [] if "/" not in value[field] and "%" not in value[field] else ["may not contain '/' or '%'"]
            out.extend(causes.invalid(f"{at}.{field}", value[field], wrong) for wrong in wrongs)


def _metric(value: Document, at: str, out: Causes) -> None:
    kind = value.get("type") or ""
    if not kind:
        out.append(causes.required(f"{at}.type", "must specify a metric source type"))
    if kind not in _KINDS:
        out.append(causes.unsupported(f"{at}.type", kind, _KINDS))
    found = [field for field in _FIELDS.values() if value.get(field) is not None]
    expected = _FIELDS.get(kind, "")
    if expected and expected not in found:
        out.append(causes.required(f"{at}.{expected}", _PROMPT))
    for field in found:
        if field != (expected or found[0]):
            out.append(causes.forbidden(f"{at}.{field}", "must populate the given metric source only"))
    for field in found:
        _SOURCES[field](value[field], f"{at}.{field}", out)


def _of_pods(value: Document, at: str, out: Causes) -> None:
    _identified(value, at, out)
    target = _target(value, at, out)
    amount = target.get("averageValue")
    if amount is None or sign(amount) != 1:
        out.append(causes.required(f"{at}.target.averageValue", "must specify a positive target averageValue"))


def _of_object(value: Document, at: str, out: Causes) -> None:
    _reference(value.get("describedObject") or {}, f"{at}.describedObject", out)
    _identified(value, at, out)
    target = _target(value, at, out)
    if target.get("value") is None and target.get("averageValue") is None:
        words = "must set either a target value or averageValue"
        out.append(causes.required(f"{at}.target.averageValue", words))


def _of_external(value: Document, at: str, out: Causes) -> None:
    _identified(value, at, out)
    target = _target(value, at, out)
    if target.get("value") is None and target.get("averageValue") is None:
        words = "must set either a target value for metric or a per-pod target"
        out.append(causes.required(f"{at}.target.averageValue", words))
    if target.get("value") is not None and target.get("averageValue") is not None:
        words = "may not set both a target value for metric and a per-pod target"
        out.append(causes.forbidden(f"{at}.target.value", words))


def _of_resource(value: Document, at: str, out: Causes) -> None:
    if not value.get("name"):
        out.append(causes.required(f"{at}.name", "must specify a resource name"))
    _of_utilization(value, at, out)


def _of_container(value: Document, at: str, out: Causes) -> None:
    name = value.get("name")
    if not name:
        out.append(causes.required(f"{at}.name", "must specify a resource name"))
    else:
        out.extend(causes.invalid(f"{at}.name", name, wrong) for wrong in selectors.label_key_errors(name))
        if "/" not in name and name not in _RESOURCES:
            out.append(causes.invalid(f"{at}.name", name, "must be a standard resource for containers"))
    if not value.get("container"):
        out.append(causes.required(f"{at}.container", "must specify a container"))
    else:
        dns_label(value["container"], f"{at}.container", out)
    _of_utilization(value, at, out)


def _of_utilization(value: Document, at: str, out: Causes) -> None:
    target = _target(value, at, out)
    share_, amount = target.get("averageUtilization"), target.get("averageValue")
    if share_ is None and amount is None:
        words = "must set either a target raw value or a target utilization"
        out.append(causes.required(f"{at}.target.averageUtilization", words))
    if share_ is not None and amount is not None:
        words = "may not set both a target raw value and a target utilization"
        out.append(causes.forbidden(f"{at}.target.averageValue", words))


def _identified(value: Document, at: str, out: Causes) -> None:
    name = (value.get("metric") or {}).get("name")
    if not name:
        out.append(causes.required(f"{at}.metric.name", "must specify a metric name"))
    elif "/" in name or "%" in name:
        out.append(causes.invalid(f"{at}.metric.name", name, "may not contain '/' or '%'"))


def _target(value: Document, at: str, out: Causes) -> Document:
    target: Document = value.get("target") or {}
    kind, where = target.get("type") or "", f"{at}.target"
    if not kind:
        out.append(causes.required(f"{where}.type", "must specify a metric target type"))
    if kind not in ("Utilization", "Value", "AverageValue"):
        out.append(causes.invalid(f"{where}.type", kind, "must be either Utilization, Value, or AverageValue"))
    share_ = target.get("averageUtilization")
    if isinstance(share_, int) and share_ < 1:
        out.append(causes.invalid(f"{where}.averageUtilization", share_, "must be greater than 0"))
    for field in ("value", "averageValue"):
        if target.get(field) is not None and sign(target[field]) != 1:
            out.append(causes.invalid(f"{where}.{field}", target[field], "must be positive"))
    return target


_SOURCES: dict[str, Any] = {
    "resource": _of_resource,
    "containerResource": _of_container,
    "pods": _of_pods,
    "object": _of_object,
    "external": _of_external,
}


def _scaling(value: Document, at: str, out: Causes) -> None:
    window = value.get("stabilizationWindowSeconds")
    if isinstance(window, int) and not 0 <= window <= MAX_WINDOW:
        words = "must be greater than or equal to zero" if window < 0 else f"must be less than or equal to {MAX_WINDOW}"
        out.append(causes.invalid(f"{at}.stabilizationWindowSeconds", window, words))
    one_of("Disabled", "Max", "Min", empty=True)(value.get("selectPolicy", "Max"), f"{at}.selectPolicy", out)
    if not value.get("policies"):
        out.append(causes.required(f"{at}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(value.get("policies") or ()):
        where, period = f"{at}.policies[{index}]", policy.get("periodSeconds") or 0
        one_of("Percent", "Pods", empty=True)(policy.get("type") or "", f"{where}.type", out)
        if (policy.get("value") or 0) <= 0:
            out.append(causes.invalid(f"{where}.value", policy.get("value") or 0, "must be greater than zero"))
        if period <= 0:
            out.append(causes.invalid(f"{where}.periodSeconds", period, "must be greater than zero"))
        elif period > MAX_PERIOD:
            words = f"must be less than or equal to {MAX_PERIOD}"
            out.append(causes.invalid(f"{where}.periodSeconds", period, words))


_UP: Document = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN: Document = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


def _scaler_filled(value: Document) -> Document:
    made = {"minReplicas": 1, **value}
    if not made.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        made["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if isinstance(made.get("behavior"), dict):
        given = made["behavior"]
        up, down = given.get("scaleUp") or {}, given.get("scaleDown") or {}
        made["behavior"] = {**given, "scaleUp": _merged(_UP, up), "scaleDown": _merged(_DOWN, down)}
    return made


def _merged(defaults: Document, given: Document) -> Document:
    return {**defaults, **{name: value for name, value in given.items() if value is not None}}


def _budget(value: Document, at: str, out: Causes) -> None:
    if value.get("minAvailable") is not None and value.get("maxUnavailable") is not None:
        out.append(causes.invalid(at, "", "minAvailable and maxUnavailable cannot be both set"))


def new_priority(value: Document, out: Causes) -> None:
    """Append the causes against a new PriorityClass."""
    if (value.get("metadata") or {}).get("name", "").startswith("system-"):
        words = "priority class names with 'system-' prefix are reserved for system use only"
        out.append(causes.forbidden("metadata.name", words))
    elif (value.get("value") or 0) > MAX_PRIORITY:
        words = f"maximum allowed value of a user defined priority is {MAX_PRIORITY}"
        out.append(causes.forbidden("value", words))
    policy = value.get("preemptionPolicy")
    if is_empty(policy):
        out.append(causes.required("preemptionPolicy"))
    elif policy not in ("PreemptLowerPriority", "Never"):
        out.append(causes.unsupported("preemptionPolicy", policy, ("PreemptLowerPriority", "Never")))


TYPES = {
    "autoscaling.v2.HorizontalPodAutoscalerSpec": Type(
        fields={"minReplicas": at_least(1)}, whole=(_scaler,), fill=_scaler_filled
    ),
    "autoscaling.v1.HorizontalPodAutoscalerSpec": Type(),
    "autoscaling.v1.CrossVersionObjectReference": Type(),
    "autoscaling.v2.CrossVersionObjectReference": Type(),
    "autoscaling.v2.HPAScalingRules": Type(whole=(_scaling,)),
    "autoscaling.v2.HPAScalingPolicy": Type(),
    "autoscaling.v2.MetricSpec": Type(),
    "autoscaling.v2.MetricTarget": Type(),
    "autoscaling.v2.MetricIdentifier": Type(),
    "autoscaling.v2.ResourceMetricSource": Type(),
    "autoscaling.v2.ContainerResourceMetricSource": Type(),
    "autoscaling.v2.PodsMetricSource": Type(),
    "autoscaling.v2.ObjectMetricSource": Type(),
    "autoscaling.v2.ExternalMetricSource": Type(),
    "policy.v1.PodDisruptionBudgetSpec": Type(
        fields={
            "minAvailable": share,
            "maxUnavailable": share,
            "unhealthyPodEvictionPolicy": one_of("AlwaysAllow", "IfHealthyBudget", empty=True),
        },
        whole=(_budget,),
    ),
    "scheduling.v1.PriorityClass": Type(
        fill=lambda value: {"value": 0, "preemptionPolicy": "PreemptLowerPriority", **value},
    ),
}
