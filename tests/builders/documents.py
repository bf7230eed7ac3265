"""Documents as users send them, and the URLs they are sent to."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def config_map(name: str = "cm", *, metadata: Document | None = None, labels: Any = None, **data: str) -> Document:
    """Return a ConfigMap with this data."""
    head = {"name": name, **({"labels": labels} if labels else {}), **(metadata or {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": head, "data": data}


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


def policy(name: str = "p", *, metadata: Document | None = None, **spec: Any) -> Document:
    """Return a PropagationPolicy that selects every Deployment of its namespace, for every cluster."""
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment"}]
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"resourceSelectors": selectors, "placement": {}, **spec},
    }


def cluster(name: str = "member1", **spec: Any) -> Document:
    """Return a Push cluster."""
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"syncMode": "Push", "apiEndpoint": f"https://{name}.example:6443", **spec},
    }


def taint_policy(name: str = "p", **spec: Any) -> Document:
    """Return a ClusterTaintPolicy."""
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterTaintPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def config_maps(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps" + (f"/{name}" if name else "")


def deployments(namespace: str, name: str = "") -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments" + (f"/{name}" if name else "")


def policies(namespace: str, name: str = "") -> str:
    return f"/apis/policy.karmada.io/v1alpha1/namespaces/{namespace}/propagationpolicies" + (f"/{name}" if name else "")


CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
