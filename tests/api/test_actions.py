"""What operators do by hand: fences, taking a failover back, and reading what happened [directly-unreachable]
[edits-by-hand]."""

from __future__ import annotations

from typing import Any

from apps.api.query import Continue
from tests.api.server import Client
from tests.builders.documents import CLUSTERS, cluster

BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings"
RECORDS = "/apis/failover.lifeboat.io/v1alpha1"


def join(api: Client, name: str, ready: str) -> None:
    made = api.post(CLUSTERS, cluster(name))
    assert made.status == 201, made.body
    status = {"conditions": [{"type": "Ready", "status": ready, "reason": "Test"}]}
    reported = api.patch(f"{CLUSTERS}/{name}/status", {"status": status})
    assert reported.status == 200, reported.body


def test_a_fence_is_kept_on_the_cluster_with_who_why_and_until_when(api: Client, namespace: str) -> None:
    join(api, f"{namespace}-down", "False")

    made = api.post(f"{CLUSTERS}/{namespace}-down/fence", {"reason": "no power", "expiresInSeconds": 600})

    assert made.status == 201, made.body
    text = made.document["metadata"]["annotations"]["failover.lifeboat.io/fence"]
    assert '"reason":"no power"' in text
    assert '"by":"admin"' in text


def test_a_ready_cluster_is_not_fenced_and_a_fence_needs_a_reason(api: Client, namespace: str) -> None:
    join(api, f"{namespace}-up", "True")

    refused = api.post(f"{CLUSTERS}/{namespace}-up/fence", {"expiresInSeconds": 600})

    assert refused.status == 422, refused.body
    fields = [cause["field"] for cause in refused.document["details"]["causes"]]
    assert fields == ["reason", "cluster"]


def leave(api: Client, namespace: str) -> str:
    """A binding that left a cluster, as an evicting controller would write it; return its URL."""
    join(api, f"{namespace}-a", "True")
    join(api, f"{namespace}-b", "True")
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": namespace}
    spec: dict[str, Any] = {
        "resource": resource,
        "replicas": 2,
        "clusters": [{"name": f"{namespace}-a", "replicas": 2}],
    }
    where = BINDINGS.format(namespace)
    made = api.post(where, {"metadata": {"name": "web-deployment"}, "spec": spec})
    assert made.status == 201, made.body
    url = f"{where}/web-deployment"
    tasks = [{"fromCluster": f"{namespace}-a", "purgeMode": "Gracefully", "reason": "ByHand", "producer": "me"}]
    moved = {"clusters": [{"name": f"{namespace}-b", "replicas": 2}], "gracefulEvictionTasks": tasks}
    left = api.patch(url, {"spec": moved})
    assert left.status == 200, left.body
    return url


def test_a_failover_is_taken_back_and_its_new_copies_leave_gracefully(api: Client, namespace: str) -> None:
    url = leave(api, namespace)

    done = api.post(f"{url}/revert", {})

    assert done.status == 201, done.body
    spec = done.document["spec"]
    assert [one["name"] for one in spec["clusters"]] == [f"{namespace}-a"]
    assert [(one["fromCluster"], one["reason"]) for one in spec["gracefulEvictionTasks"]] == [
        (f"{namespace}-b", "Reverted")
    ]


def test_nothing_is_taken_back_onto_a_cluster_that_is_down(api: Client, namespace: str) -> None:
    url = leave(api, namespace)
    status = {"conditions": [{"type": "Ready", "status": "False", "reason": "Test"}]}
    api.patch(f"{CLUSTERS}/{namespace}-a/status", {"status": status})

    refused = api.post(f"{url}/revert", {})

    assert refused.status == 409
    assert f"cluster {namespace}-a is not Ready" in refused.document["message"]


def test_nothing_is_taken_back_onto_a_cluster_that_a_drain_empties(api: Client, namespace: str) -> None:
    url = leave(api, namespace)
    drain = {"metadata": {"name": f"{namespace}-empty"}, "spec": {"cluster": f"{namespace}-a", "reason": "new disks"}}
    assert api.post(f"{RECORDS}/drains", drain).status == 201

    refused = api.post(f"{url}/revert", {})
    api.patch(f"{RECORDS}/drains/{namespace}-empty", {"spec": {"stop": True}})
    done = api.post(f"{url}/revert", {})

    said = f"Drain {namespace}-empty empties cluster {namespace}-a, and would evict it again"
    assert (refused.status, said in refused.document["message"]) == (409, True), refused.body
    assert done.status == 201, done.body


def test_a_binding_that_never_failed_over_has_nothing_to_take_back(api: Client, namespace: str) -> None:
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": namespace}
    where = BINDINGS.format(namespace)
    api.post(where, {"metadata": {"name": "web-deployment"}, "spec": {"resource": resource}})

    refused = api.post(f"{where}/web-deployment/revert", {})

    assert refused.status == 409
    assert "no failover" in refused.document["message"]


def test_what_was_recreated_is_not_taken_back_to_where_its_predecessor_was(api: Client, namespace: str) -> None:
    url = leave(api, namespace)
    made = api.get(url).document
    assert api.delete(url).status == 200
    gone = api.patch(url, {"metadata": {"finalizers": None}})
    assert gone.status in (200, 404), gone.body
    fresh = {"metadata": {"name": "web-deployment"}, "spec": {**made["spec"], "gracefulEvictionTasks": None}}
    assert api.post(BINDINGS.format(namespace), fresh).status == 201

    refused = api.post(f"{url}/revert", {})

    assert refused.status == 409, refused.body
    assert "no failover" in refused.document["message"]


def test_a_failover_is_read_as_a_record(api: Client, namespace: str) -> None:
    url = leave(api, namespace)
    api.post(f"{url}/revert", {})

    listed = api.get(f"{RECORDS}/namespaces/{namespace}/failoverrecords").document["items"]
    (one,) = [found for found in listed if found["status"]["reason"] == "Reverted"]
    got = api.get(f"{RECORDS}/namespaces/{namespace}/failoverrecords/{one['metadata']['name']}")

    assert got.document == one
    assert [target["name"] for target in one["status"]["left"]] == [f"{namespace}-b"]
    assert [target["name"] for target in one["status"]["after"]] == [f"{namespace}-a"]
    assert "Decided" in [step["what"] for step in one["status"]["steps"]]
    assert api.get(f"{RECORDS}/namespaces/{namespace}/failoverrecords/nothing.1").status == 404


def test_records_are_served_as_a_report_in_markdown(api: Client, namespace: str) -> None:
    api.post(f"{leave(api, namespace)}/revert", {})
    where = f"{RECORDS}/namespaces/{namespace}/failoverrecords"

    several = api.ask("GET", where, accept="text/markdown")
    found = api.get(where).document["items"][0]
    single = api.get(f"{where}/{found['metadata']['name']}", format="md")
    missing = api.ask("GET", f"{where}/web.1", accept="text/markdown")

    assert several.type == single.type == "text/markdown; charset=utf-8"
    assert several.body.startswith(b"# Failovers\n")
    assert f"Deployment {namespace}/web".encode() in several.body
    assert f"-n {namespace} {found['metadata']['name']} -o yaml".encode() in single.body
    assert (missing.status, missing.type) == (404, "application/json")


def test_records_after_a_place_that_cannot_exist_are_refused(api: Client) -> None:
    for version in ("9" * 25, "9" * 5000):
        token = Continue(5, "", f"web.{version}").token()

        assert api.get(f"{RECORDS}/failoverrecords", limit=2, **{"continue": token}).status == 400


def test_actions_and_records_are_discovered(api: Client) -> None:
    clusters = api.get("/apis/cluster.karmada.io/v1alpha1").document["resources"]
    lifeboat = api.get(RECORDS).document["resources"]

    assert {"clusters/fence"} <= {one["name"] for one in clusters}
    assert [one["verbs"] for one in lifeboat if one["name"] == "failoverrecords"] == [["get", "list", "watch"]]


def test_a_cluster_with_workloads_is_not_deleted_without_an_order_to_keep_them(api: Client, namespace: str) -> None:
    leave(api, namespace)
    where = f"{CLUSTERS}/{namespace}-b"

    refused = api.delete(where)
    assert refused.status == 409
    assert "web-deployment" in refused.document["message"]
    assert "Drain" in refused.document["message"]

    kept = {"metadata": {"annotations": {"failover.lifeboat.io/unjoin": "keep"}}}
    assert api.patch(where, kept).status == 200
    assert api.delete(where).status == 200


def test_an_empty_cluster_is_deleted(api: Client, namespace: str) -> None:
    join(api, f"{namespace}-empty", "True")

    assert api.delete(f"{CLUSTERS}/{namespace}-empty").status == 200
