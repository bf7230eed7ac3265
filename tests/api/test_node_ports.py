"""Node ports are allocated here, so that a Service has the same on every member [node-ports]."""

from __future__ import annotations

from typing import Any

from tests.api.server import Client

PORTS = [{"name": "web", "port": 80}, {"name": "metrics", "port": 9090}]


def service(name: str, ports: Any = PORTS, type_: str = "NodePort", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"type": type_, "ports": ports, **spec},
    }


def url(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/services" + (f"/{name}" if name else "")


def numbers(document: dict[str, Any]) -> list[int]:
    return [port.get("nodePort", 0) for port in document["spec"]["ports"]]


def test_each_port_gets_a_free_node_port_and_keeps_it(api: Client, namespace: str) -> None:
    first = api.post(url(namespace), service("one")).document
    balancer = api.post(url(namespace), service("two", type_="LoadBalancer")).document

    allocated = [*numbers(first), *numbers(balancer)]
    assert len(set(allocated)) == 4
    assert all(30086 <= number <= 32767 for number in allocated)
    replaced = api.put(url(namespace, "one"), service("one", ports=[*PORTS, {"name": "more", "port": 81}])).document
    assert numbers(replaced)[:2] == numbers(first)
    assert numbers(replaced)[2] not in (0, *allocated)


def test_a_chosen_node_port_of_another_service_is_refused(api: Client, namespace: str) -> None:
    chosen = [{"port": 80, "nodePort": 30001}]
    assert api.post(url(namespace), service("one", chosen)).status == 201

    refused = api.post(url(namespace), service("two", chosen))

    assert refused.status == 422
    (cause,) = refused.document["details"]["causes"]
    assert cause["field"] == "spec.ports[0].nodePort"
    assert "provided port is already allocated" in cause["message"]
    assert api.put(url(namespace, "one"), service("one", chosen)).status == 200
    assert api.delete(url(namespace, "one")).status == 200
    assert api.post(url(namespace), service("two", chosen)).status == 201


def test_a_service_within_the_cluster_gets_none_until_its_type_changes(api: Client, namespace: str) -> None:
    inside = api.post(url(namespace), service("one", type_="ClusterIP")).document
    assert numbers(inside) == [0, 0]
    off = service("two", type_="LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert numbers(api.post(url(namespace), off).document) == [0, 0]

    opened = api.patch(url(namespace, "one"), {"spec": {"type": "NodePort"}}).document

    assert all(numbers(opened))
