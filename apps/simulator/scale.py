"""The scale subresource: the replicas of a workload as an autoscaling/v1 Scale."""

from __future__ import annotations

from typing import Any

from controlplane.errors import BadRequest

Document = dict[str, Any]


def scale_of(document: Document) -> Document:
    """Return the Scale of a workload."""
    metadata = document["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    labels = ((document.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {"replicas": (document.get("spec") or {}).get("replicas", 0)},
        "status": {
            "replicas": (document.get("status") or {}).get("replicas", 0),
            "selector": ",".join(f"{key}={value}" for key, value in sorted(labels.items())),
        },
    }


def scaled(document: Document, wanted: Document) -> Document:
    """Return the workload with the replicas a Scale asks for. Raises BadRequest where it asks for none."""
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        raise BadRequest(f"spec.replicas: {replicas!r} is not a number of replicas")
    metadata = dict(document["metadata"])
    version = (wanted.get("metadata") or {}).get("resourceVersion")
    if version:
        metadata["resourceVersion"] = version
    return {**document, "metadata": metadata, "spec": {**document["spec"], "replicas": replicas}}
