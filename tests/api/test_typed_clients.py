"""What Go's typed clients do: they read an object as JSON and send it back as protobuf, status and all."""

from __future__ import annotations

from controlplane.wire import protobuf
from tests.api.server import Client
from tests.core.test_wire_protobuf import body, chunk, number

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
}


def test_a_pod_that_was_read_is_put_back_whatever_its_status_says(api: Client, namespace: str) -> None:
    url = f"/api/v1/namespaces/{namespace}/pods"
    version = api.post(url, POD).document["metadata"]["resourceVersion"]
    patched = api.patch(f"{url}/web/status", {"status": {"phase": "Running"}}).document
    status, version = patched["status"], patched["metadata"]["resourceVersion"]
    labels = chunk(11, chunk(1, "edited") + chunk(2, "yes"))
    metadata = chunk(1, chunk(1, "web") + chunk(3, namespace) + chunk(6, version) + labels)
    spec = chunk(2, chunk(2, chunk(1, "main") + chunk(2, "nginx")))
    # A container status of zero values, as Go makes it of one that has no name.
    container = chunk(8, chunk(1, b"") + number(4, 1) + number(5, 0) + chunk(6, b"") + chunk(7, b""))
    raw = body("v1", "Pod", metadata + spec + chunk(3, chunk(1, "Failed") + container))

    put = api.ask("PUT", f"{url}/web", raw, type=protobuf.MEDIA_TYPE, fieldValidation="Strict")

    assert put.status == 200, put.body
    assert put.document["metadata"]["labels"] == {"edited": "yes"}
    assert put.document["status"] == status


def test_a_network_policy_for_every_pod_is_taken(api: Client, namespace: str) -> None:
    url = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
    spec = chunk(2, chunk(1, b"") + chunk(4, "Ingress"))
    raw = body("networking.k8s.io/v1", "NetworkPolicy", chunk(1, chunk(1, "all")) + spec)

    made = api.ask("POST", url, raw, type=protobuf.MEDIA_TYPE)

    assert made.status == 201, made.body
    assert made.document["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}


def test_a_status_that_may_not_be_sent_there_is_no_reason_to_refuse_a_write(api: Client, namespace: str) -> None:
    url = f"/api/v1/namespaces/{namespace}/pods"
    read = api.post(url, POD).document

    put = api.put(f"{url}/web", {**read, "status": {"stranger": 1, "phase": []}}, fieldValidation="Strict")

    assert put.status == 200, put.body
    assert put.document["metadata"]["resourceVersion"] == read["metadata"]["resourceVersion"]
