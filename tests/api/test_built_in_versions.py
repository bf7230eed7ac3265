"""HorizontalPodAutoscalers and Events through both of their versions, on the running API [built-in-versions]."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.server import Client

V1, V2 = "/apis/autoscaling/v1", "/apis/autoscaling/v2"
METRICS = "autoscaling.alpha.kubernetes.io/metrics"
BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"


def scalers(version: str, namespace: str, name: str = "") -> str:
    return f"{version}/namespaces/{namespace}/horizontalpodautoscalers{'/' if name else ''}{name}"


def scaler(version: str, name: str, **spec: Any) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": target, "maxReplicas": 5, **spec},
    }


def test_an_autoscaler_is_written_and_read_through_both_versions(api: Client, namespace: str) -> None:
    made = api.post(scalers(V1, namespace), scaler("v1", "web", targetCPUUtilizationPercentage=70))
    assert (made.status, made.document["apiVersion"]) == (201, "autoscaling/v1")
    assert made.document["spec"]["minReplicas"] == 1
    newer = api.get(scalers(V2, namespace, "web")).document
    (metric,) = newer["spec"]["metrics"]
    assert metric["resource"] == {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}

    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    changed = api.patch(scalers(V2, namespace, "web"), {"spec": {"behavior": behavior}}, "application/merge-patch+json")
    assert changed.status == 200
    older = api.get(scalers(V1, namespace, "web")).document
    kept = json.loads(older["metadata"]["annotations"][BEHAVIOR])
    assert kept["ScaleDown"]["StabilizationWindowSeconds"] == 60

    older["spec"]["maxReplicas"] = 9
    del older["spec"]["targetCPUUtilizationPercentage"]
    assert api.put(scalers(V1, namespace, "web"), older).status == 200
    newer = api.get(scalers(V2, namespace, "web")).document
    assert (newer["spec"]["maxReplicas"], newer["spec"]["behavior"]["scaleDown"]["stabilizationWindowSeconds"]) == (
        9,
        60,
    )
    assert newer["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 80
    assert "annotations" not in newer["metadata"]

    older["metadata"].pop("resourceVersion")
    del older["metadata"]["annotations"][BEHAVIOR]
    assert api.put(scalers(V1, namespace, "web"), older).status == 200
    third = api.get(scalers(V2, namespace, "web")).document
    assert "behavior" not in third["spec"]
    assert third["metadata"]["generation"] == newer["metadata"]["generation"] + 1

    listed = api.get(scalers(V1, namespace)).document
    assert [one["apiVersion"] for one in listed["items"]] == ["autoscaling/v1"]
    assert api.delete(scalers(V1, namespace, "web")).status == 200
    assert api.get(scalers(V2, namespace, "web")).status == 404


def test_the_rules_of_the_stored_version_hold_for_the_older(api: Client, namespace: str) -> None:
    refused = api.post(scalers(V1, namespace), scaler("v1", "web", targetCPUUtilizationPercentage=-1, maxReplicas=0))
    assert refused.status == 422
    assert {cause["field"] for cause in refused.document["details"]["causes"]} == {
        "spec.maxReplicas",
        "spec.metrics[0].resource.target.averageUtilization",
    }


def test_an_autoscaler_of_v1_is_applied_and_its_status_is_not(api: Client, namespace: str) -> None:
    document = scaler("v1", "web", targetCPUUtilizationPercentage=50)
    conditions = json.dumps([{"type": "AbleToScale", "status": "True"}])
    document["metadata"]["annotations"] = {"autoscaling.alpha.kubernetes.io/conditions": conditions}
    path = f"{scalers(V1, namespace, 'web')}?fieldManager=me"
    for status in (201, 200):
        applied = api.patch(path, document, "application/apply-patch+yaml")
        assert applied.status == status
    assert not api.get(scalers(V2, namespace, "web")).document.get("status", {}).get("conditions")


def applied(api: Client, namespace: str, document: dict[str, Any], manager: str, *, force: bool = False) -> Any:
    version = document["apiVersion"].rpartition("/")[2]
    path = (
        f"{scalers(f'/apis/autoscaling/{version}', namespace, 'web')}?fieldManager={manager}&force={str(force).lower()}"
    )
    return api.patch(path, document, "application/apply-patch+yaml")


def test_owners_of_fields_are_compared_in_the_version_that_they_wrote(api: Client, namespace: str) -> None:
    first = scaler("v1", "web", targetCPUUtilizationPercentage=50)
    assert applied(api, namespace, first, "first").status == 201
    target = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}
    second = scaler("v2", "web", metrics=[{"type": "Resource", "resource": target}])
    refused = applied(api, namespace, second, "second")
    causes = [(cause["message"], cause["field"]) for cause in refused.document["details"]["causes"]]
    assert (refused.status, causes) == (409, [('conflict with "first"', ".spec.targetCPUUtilizationPercentage")])
    forced = applied(api, namespace, second, "second", force=True).document
    fields = {one["manager"]: one["fieldsV1"]["f:spec"] for one in forced["metadata"]["managedFields"]}
    assert sorted(fields["first"]) == ["f:maxReplicas", "f:scaleTargetRef"]
    assert "f:metrics" in fields["second"]
    again = applied(api, namespace, first, "first")
    assert (again.status, again.document["details"]["causes"][0]["field"]) == (409, ".spec.metrics")

    moved = scaler("v2", "web")
    assert applied(api, namespace, moved, "second").status == 200
    metrics = api.get(scalers(V2, namespace, "web")).document["spec"]["metrics"]
    assert metrics[0]["resource"]["target"]["averageUtilization"] == 80  # the default: nothing else owns the field


def events(group: str, namespace: str, query: str = "") -> str:
    return f"{group}/namespaces/{namespace}/events{query}"


CORE, NEWER = "/api/v1", "/apis/events.k8s.io/v1"


def test_an_event_is_written_and_read_through_both_groups(api: Client, namespace: str) -> None:
    about = {"apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": namespace, "uid": "u-1"}
    event = {
        **{"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "web.1"}},
        **{"regarding": about, "reason": "Pulled", "note": "image pulled", "type": "Normal", "action": "Pulling"},
        **{"reportingController": "example.com/kubelet", "reportingInstance": "node-1"},
        "eventTime": "2026-01-01T00:00:00.000001Z",
    }
    made = api.post(events(NEWER, namespace), event)
    assert (made.status, made.document["regarding"]) == (201, about)
    core = api.get(f"{events(CORE, namespace)}/web.1").document
    assert (core["apiVersion"], core["message"], core["involvedObject"]) == ("v1", "image pulled", about)

    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}
    path = f"{events(NEWER, namespace)}/web.1"
    assert api.patch(path, series, "application/merge-patch+json").document["series"]["count"] == 2
    refused = api.patch(path, {"reason": "Other"}, "application/merge-patch+json")
    assert (refused.status, refused.document["details"]["causes"][0]["field"]) == (422, "reason")
    for query in ("?fieldSelector=regarding.uid=u-1", "?fieldSelector=regarding.name=web,reason=Pulled"):
        (found,) = api.get(events(NEWER, namespace, query)).document["items"]
        assert (found["apiVersion"], found["note"]) == ("events.k8s.io/v1", "image pulled")
    assert api.get(events(NEWER, namespace, "?fieldSelector=involvedObject.uid=u-1")).status == 400
    assert api.get(events(NEWER, namespace, "?fieldSelector=regarding.name=other")).document["items"] == []
    assert api.delete(path).status == 200
    assert api.get(f"{events(CORE, namespace)}/web.1").status == 404


def test_a_watch_has_the_version_of_its_url(api: Client, namespace: str) -> None:
    api.post(scalers(V2, namespace), scaler("v2", "web"))
    with api.watch(scalers(V1, namespace)) as stream:
        first = stream.next()
        api.patch(scalers(V2, namespace, "web"), {"spec": {"maxReplicas": 7}})
        second = stream.next()
    assert [one["type"] for one in (first, second)] == ["ADDED", "MODIFIED"]
    assert {one["object"]["apiVersion"] for one in (first, second)} == {"autoscaling/v1"}
    assert second["object"]["spec"]["targetCPUUtilizationPercentage"] == 80


def test_a_watch_selects_events_by_the_fields_of_its_version(api: Client, namespace: str) -> None:
    def happens(name: str, about: str) -> None:
        subject = {"kind": "Pod", "name": about, "namespace": namespace}
        event = {"metadata": {"name": name}, "involvedObject": subject, "reason": "Pulled", "message": about}
        assert api.post(events(CORE, namespace), event).status == 201

    now = api.get(events(NEWER, namespace)).document["metadata"]["resourceVersion"]
    happens("web.1", "web")
    with api.watch(events(NEWER, namespace), resourceVersion=now, fieldSelector="regarding.name=web") as stream:
        seen = [stream.next()]
        happens("other.1", "other")
        happens("web.2", "web")
        seen.append(stream.next())
    assert [one["type"] for one in seen] == ["ADDED", "ADDED"]
    assert [one["object"]["metadata"]["name"] for one in seen] == ["web.1", "web.2"]
    assert {one["object"]["regarding"]["name"] for one in seen} == {"web"}


@pytest.mark.parametrize("path", [f"{V1}/horizontalpodautoscalers", f"{NEWER}/events"])
def test_both_versions_are_in_discovery_and_openapi(api: Client, path: str) -> None:
    group_version, _, plural = path.rpartition("/")
    assert plural in {one["name"] for one in api.get(group_version).document["resources"]}
    assert f"{group_version}/{plural}" in api.get(f"/openapi/v3{group_version}").document["paths"]
