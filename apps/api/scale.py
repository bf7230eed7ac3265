"""The scale subresource: the replicas of a workload as an autoscaling/v1 Scale."""

from __future__ import annotations

from typing import Any

from controlplane.errors import BadRequest, Invalid
from controlplane.wire import builtin
from controlplane.wire.patch import apply_patch

Document = dict[str, Any]

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(document: Document) -> Document:
    """Return the Scale of a workload."""
    metadata, spec = document["metadata"], document.get("spec") or {}
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _SHOWN if key in metadata},
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": {
            "replicas": (document.get("status") or {}).get("replicas", 0),
            "selector": ",".join(f"{key}={value}" for key, value in sorted(labels.items())),
        },
    }


def patched(content_type: str, current: Document, raw: bytes) -> Document:
    """Return a Scale after a patch."""
    return apply_patch(content_type, current, raw, builtin.schema("autoscaling", "v1", "Scale"))


def scaled(document: Document, wanted: Document) -> Document:
    """Return the workload with the replicas a Scale asks for. Raises BadRequest or Invalid where it asks for none."""
    if wanted.get("kind", "Scale") != "Scale":
        raise BadRequest(f"the object provided is a {wanted['kind']}, this URL takes a Scale of autoscaling/v1")
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        raise Invalid(f"spec.replicas: Invalid value: {replicas!r}: must be a whole number, 0 or more")
    metadata = {**document["metadata"]}
    asked = wanted.get("metadata") or {}
    for field in ("resourceVersion", "uid"):
        if asked.get(field):
            metadata[field] = asked[field]
    return {**document, "metadata": metadata, "spec": {**(document.get("spec") or {}), "replicas": replicas}}
