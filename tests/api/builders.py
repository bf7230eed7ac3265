"""Documents in English."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def config_map(name: str, *, labels: dict[str, str] | None = None, **data: str) -> Document:
    metadata: Document = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def deployment(name: str, *, replicas: int = 1, image: str = "nginx", **labels: str) -> Document:
    chosen = {"app": name, **labels}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": chosen},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": chosen},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    }


def policy(name: str, **spec: Any) -> Document:
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": selectors, "placement": {}, **spec},
    }


def cluster(name: str, **spec: Any) -> Document:
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"syncMode": "Push", "apiEndpoint": "https://127.0.0.1:1", **spec},
    }


def config_maps(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps" + (f"/{name}" if name else "")


def deployments(namespace: str, name: str = "") -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments" + (f"/{name}" if name else "")


def policies(namespace: str, name: str = "") -> str:
    return f"/apis/policy.karmada.io/v1alpha1/namespaces/{namespace}/propagationpolicies" + (f"/{name}" if name else "")


CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
