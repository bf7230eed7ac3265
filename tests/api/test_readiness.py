"""Whether a binding, and the fleet, would fail over: asked over HTTP."""

from __future__ import annotations

from tests.api.controllers import work
from tests.api.server import Client, Server
from tests.builders.documents import CLUSTERS, cluster

BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings"
FLEET = "/apis/failover.lifeboat.io/v1alpha1/fleetreadinesses"


def bind(api: Client, namespace: str) -> str:
    """A binding placed on a cluster that does not exist yet."""
    assert api.post(CLUSTERS, cluster(f"{namespace}-a")).status == 201
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": namespace}
    spec = {"resource": resource, "clusters": [{"name": f"{namespace}-a"}], "placement": {}}
    made = api.post(BINDINGS.format(namespace), {"metadata": {"name": "web-deployment"}, "spec": spec})
    assert made.status == 201, made.body
    return f"{BINDINGS.format(namespace)}/web-deployment/readiness"


def test_a_binding_says_what_stands_in_the_way_and_what_to_do(api: Client, namespace: str) -> None:
    answer = api.get(bind(api, namespace))

    assert answer.status == 200, answer.body
    assert (answer.document["kind"], answer.document["ready"]) == ("Readiness", False)
    named = {one["what"]: one for one in answer.document["obstacles"]}
    assert {"GateOff", "NotDetected", "NoTaintPolicy"} <= set(named)
    assert all(one["remedy"] for one in named.values())


def test_the_fleet_is_one_object_that_counts_obstacles(server: Server, api: Client, namespace: str) -> None:
    bind(api, namespace)
    work(server, "readiness", refs=[f"work.karmada.io/ResourceBinding:{namespace}/web-deployment"])

    (listed,) = api.get(FLEET).document["items"]
    got = api.get(f"{FLEET}/fleet").document

    assert listed["status"]["bindings"] >= 1
    assert got["status"]["obstacles"][0]["remedy"]
    assert got["metadata"]["creationTimestamp"]  # it is of now, and `kubectl get` shows it
    assert api.get(f"{FLEET}/other").status == 404


def test_what_goes_along_with_a_workload_is_not_counted_beside_it(server: Server, api: Client, namespace: str) -> None:
    resource = {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings", "namespace": namespace}
    needed = [{"namespace": namespace, "name": "web-deployment", "clusters": [{"name": f"{namespace}-a"}]}]
    spec = {"resource": resource, "requiredBy": needed}
    made = api.post(BINDINGS.format(namespace), {"metadata": {"name": "settings-configmap"}, "spec": spec})
    assert made.status == 201, made.body
    work(server, "readiness", refs=[f"work.karmada.io/ResourceBinding:{namespace}/settings-configmap"])

    own = api.get(f"{BINDINGS.format(namespace)}/settings-configmap/readiness").document
    assert [one["what"] for one in own["obstacles"]] == ["GoesAlong"]
    assert "GoesAlong" not in {one["what"] for one in api.get(f"{FLEET}/fleet").document["status"].get("obstacles", ())}


def test_a_binding_that_is_not_there_has_no_readiness(api: Client, namespace: str) -> None:
    assert api.get(f"{BINDINGS.format(namespace)}/nothing/readiness").status == 404
