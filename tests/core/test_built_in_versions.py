"""Built-in kinds in two versions, as a kube-apiserver converts them [built-in-versions]."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.kube import event_versions
from controlplane.kube.autoscaler_versions import BEHAVIOR, CONDITIONS, CURRENT_METRICS, METRICS, V1, V2, converted

Document = dict[str, Any]
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}


def scaler(version: str, spec: Document | None = None, **more: Any) -> Document:
    annotations = more.pop("annotations", None)
    metadata = {"name": "web", **({"annotations": annotations} if annotations else {})}
    whole = {"scaleTargetRef": TARGET, "minReplicas": 1, "maxReplicas": 5, **(spec or {})}
    return {"apiVersion": version, "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": whole, **more}


def annotation(made: Document, name: str) -> Any:
    return json.loads(made["metadata"]["annotations"][name])


def test_one_metric_of_cpu_is_the_field_of_v1() -> None:
    old, new = scaler(V1, {"targetCPUUtilizationPercentage": 70}), scaler(V2, {"metrics": [CPU]})
    assert converted(new, V1) == old
    assert converted(old, V2) == new


def test_without_metrics_v1_aims_at_80_percent() -> None:
    (metric,) = converted(scaler(V1), V2)["spec"]["metrics"]
    assert metric["resource"]["target"] == {"type": "Utilization", "averageUtilization": 80}


SELECTED = {"matchLabels": {"a": "b"}}
METRICS_OF_BOTH: list[tuple[Document, Document]] = [
    (
        {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
        {"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}},
    ),
    (
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "500m"}}},
        {"type": "Resource", "resource": {"name": "cpu", "targetAverageValue": "500m"}},
    ),
    (
        {
            "type": "ContainerResource",
            "containerResource": {
                "name": "cpu",
                "container": "app",
                "target": {"type": "Utilization", "averageUtilization": 60},
            },
        },
        {
            "type": "ContainerResource",
            "containerResource": {"name": "cpu", "targetAverageUtilization": 60, "container": "app"},
        },
    ),
    (
        {
            "type": "Pods",
            "pods": {
                "metric": {"name": "hits", "selector": SELECTED},
                "target": {"type": "AverageValue", "averageValue": "10"},
            },
        },
        {"type": "Pods", "pods": {"metricName": "hits", "targetAverageValue": "10", "selector": SELECTED}},
    ),
    (
        {
            "type": "Object",
            "object": {
                "describedObject": TARGET,
                "metric": {"name": "hits"},
                "target": {"type": "Value", "value": "2k"},
            },
        },
        {"type": "Object", "object": {"target": TARGET, "metricName": "hits", "targetValue": "2k"}},
    ),
    (
        {
            "type": "Object",
            "object": {
                "describedObject": TARGET,
                "metric": {"name": "hits"},
                "target": {"type": "AverageValue", "averageValue": "3"},
            },
        },
        {
            "type": "Object",
            "object": {"target": TARGET, "metricName": "hits", "targetValue": "0", "averageValue": "3"},
        },
    ),
    (
        {
            "type": "External",
            "external": {
                "metric": {"name": "queue", "selector": SELECTED},
                "target": {"type": "Value", "value": "30"},
            },
        },
        {"type": "External", "external": {"metricName": "queue", "metricSelector": SELECTED, "targetValue": "30"}},
    ),
    (
        {
            "type": "External",
            "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "30"}},
        },
        {"type": "External", "external": {"metricName": "queue", "targetAverageValue": "30"}},
    ),
]


@pytest.mark.parametrize(("metric", "kept"), METRICS_OF_BOTH)
def test_other_metrics_are_kept_in_an_annotation(metric: Document, kept: Document) -> None:
    new = scaler(V2, {"metrics": [metric, CPU]}, annotations={"mine": "1"})
    old = converted(new, V1)
    assert old["spec"]["targetCPUUtilizationPercentage"] == 70
    assert annotation(old, METRICS) == [kept]
    assert old["metadata"]["annotations"]["mine"] == "1"
    assert converted(old, V2) == new


def test_without_a_metric_of_cpu_none_is_added() -> None:
    new = scaler(V2, {"metrics": [METRICS_OF_BOTH[0][0]]})
    assert converted(converted(new, V1), V2) == new


def test_behavior_is_kept_with_the_names_of_go() -> None:
    policies = [{"type": "Pods", "value": 4, "periodSeconds": 15}]
    up = {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": policies}
    new = scaler(V2, {"metrics": [CPU], "behavior": {"scaleUp": up}})
    old = converted(new, V1)
    assert annotation(old, BEHAVIOR) == {
        "ScaleUp": {
            "StabilizationWindowSeconds": 0,
            "SelectPolicy": "Max",
            "Policies": [{"Type": "Pods", "Value": 4, "PeriodSeconds": 15}],
        },
        "ScaleDown": None,
    }
    assert converted(old, V2) == new


def test_conditions_and_present_values_are_kept_in_annotations() -> None:
    current = {"averageUtilization": 40, "averageValue": "40m"}
    status = {
        "currentReplicas": 2,
        "desiredReplicas": 3,
        "conditions": [{"type": "AbleToScale", "status": "True", "reason": "Ready", "message": "ready"}],
        "currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": current}},
            {"type": "Pods", "pods": {"metric": {"name": "hits"}, "current": {"averageValue": "5"}}},
            {
                "type": "Object",
                "object": {"describedObject": TARGET, "metric": {"name": "hits"}, "current": {"value": "7"}},
            },
        ],
    }
    new = scaler(V2, {"metrics": [CPU]}, status=status)
    old = converted(new, V1)
    assert old["status"] == {"currentReplicas": 2, "desiredReplicas": 3, "currentCPUUtilizationPercentage": 40}
    assert annotation(old, CONDITIONS) == status["conditions"]
    assert annotation(old, CURRENT_METRICS)[0]["resource"] == {
        "name": "cpu",
        "currentAverageUtilization": 40,
        "currentAverageValue": "40m",
    }
    assert converted(old, V2) == new


UNREADABLE = ("", "{", "5", "[5]", '[{"type": 5}]', '[{"type": "Pods", "pods": {"metricName": {}}}]')


@pytest.mark.parametrize("text", UNREADABLE)
def test_an_annotation_that_cannot_be_read_is_left_out(text: str) -> None:
    for name in (METRICS, BEHAVIOR, CONDITIONS, CURRENT_METRICS):
        made = converted(scaler(V1, {"targetCPUUtilizationPercentage": 70}, annotations={name: text}), V2)
        assert made == scaler(V2, {"metrics": [CPU]})


def test_stale_annotations_are_made_again() -> None:
    old = scaler(V1, {"targetCPUUtilizationPercentage": 70}, annotations={BEHAVIOR: "{}", "mine": "1"})
    assert converted(converted(old, V2), V1)["metadata"]["annotations"] == {"mine": "1"}


CORE = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "web.1", "namespace": "shop"},
    "involvedObject": {"kind": "Pod", "name": "web", "namespace": "shop"},
    "reason": "Pulled",
    "message": "image pulled",
    "type": "Normal",
    "source": {"component": "kubelet"},
    "firstTimestamp": "2026-01-01T00:00:00Z",
    "lastTimestamp": "2026-01-01T00:01:00Z",
    "count": 2,
    "reportingComponent": "kubelet",
    "reportingInstance": "node-1",
    "eventTime": None,
}


def test_events_have_other_names_of_fields_in_the_newer_version() -> None:
    newer = event_versions.converted(CORE, event_versions.NEWER)
    assert newer == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "web.1", "namespace": "shop"},
        "regarding": {"kind": "Pod", "name": "web", "namespace": "shop"},
        "reason": "Pulled",
        "note": "image pulled",
        "type": "Normal",
        "deprecatedSource": {"component": "kubelet"},
        "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
        "deprecatedLastTimestamp": "2026-01-01T00:01:00Z",
        "deprecatedCount": 2,
        "reportingController": "kubelet",
        "reportingInstance": "node-1",
        "eventTime": None,
    }
    assert event_versions.converted(newer, "v1") == CORE


NEW = {
    **{key: CORE[key] for key in ("metadata", "involvedObject", "reason", "type", "reportingComponent")},
    **{"reportingInstance": "node-1", "action": "Pulling", "eventTime": "2026-01-01T00:00:00.000001Z"},
}
REFUSED: list[tuple[Document, list[str]]] = [
    ({}, []),
    ({"eventTime": None}, ["eventTime"]),
    ({"action": "", "reason": ""}, ["action", "reason"]),
    ({"reportingComponent": "a b"}, ["reportingController"]),
    ({"type": "Other"}, ["type"]),
    ({"count": 2, "source": {"component": "x"}}, ["count", "source"]),
    ({"message": "x" * 1025}, ["message"]),
    ({"series": {"count": 1, "lastObservedTime": "2026-01-01T00:00:00Z"}}, ["series.count"]),
    ({"involvedObject": {"kind": "Node", "name": "n"}}, ["involvedObject.namespace"]),
]


@pytest.mark.parametrize(("change", "fields"), REFUSED)
def test_new_events_of_the_newer_version_must_be_whole(change: Document, fields: list[str]) -> None:
    assert [cause.field for cause in event_versions.faults({**NEW, **change}, None)] == fields


def test_only_the_series_and_the_note_of_an_event_change() -> None:
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:00Z"}
    assert event_versions.faults({**NEW, "series": series, "message": "more"}, NEW) == []
    assert [cause.field for cause in event_versions.faults({**NEW, "reason": "Other"}, NEW)] == ["reason"]
