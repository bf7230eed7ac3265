"""Manifests of the acceptance tests, as a person would write them."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]

ONE = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}
NOT_READY = [{"conditionType": "Ready", "operator": "In", "statusValues": ["False", "Unknown"]}]
KEY = "example.io/failed"
BEARS_IT = {"clusterTolerations": [{"key": KEY, "operator": "Exists", "effect": "NoExecute"}]}
AT_ONCE = {"cluster": {"tolerationSeconds": 0}}


def taint_policy(
    *, effect: str = "NoExecute", on: list[Document] = NOT_READY, add: int = 1, remove: int = 1, name: str = "failed"
) -> Document:
    """Return a ClusterTaintPolicy in the dialect of the proposal; `add` and `remove` are its windows in seconds."""
    taint = {"key": KEY, "effect": effect, "addOnMatchSeconds": add, "removeOnMismatchSeconds": remove}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterTaintPolicy",
        "metadata": {"name": name},
        "spec": {"matchConditions": on, "taintsToAdd": [taint]},
    }


def workload(name: str, replicas: int = 1, *, kind: str = "Deployment", **spec: Any) -> Document:
    """Return a Deployment or StatefulSet."""
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod, **spec},
    }


def policy(
    name: str, placement: Document, *selected: tuple[str, str, str], failover: Document | None = None
) -> Document:
    """Return a PropagationPolicy; `selected` are (apiVersion, kind, name), else the Deployment of the policy's name."""
    selectors = [
        {"apiVersion": version, "kind": kind, "name": one}
        for version, kind, one in selected or (("apps/v1", "Deployment", name),)
    ]
    spec: Document = {"resourceSelectors": selectors, "placement": placement}
    if failover is not None:
        spec["failover"] = failover
    head = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": name}}
    return {**head, "spec": spec}


def on(*clusters: str, **placement: Any) -> Document:
    """Return a placement on these clusters."""
    return {"clusterAffinity": {"clusterNames": list(clusters)}, **placement}


def divided(preference: str, **weights: Any) -> Document:
    """Return the part of a placement that divides replicas."""
    scheduling: Document = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": preference}
    if weights:
        scheduling["weightPreference"] = weights
    return {"replicaScheduling": scheduling}
