"""The scale subresource: the replicas of a workload as an autoscaling/v1 Scale."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery.causes import invalid, mistyped
from controlplane.apimachinery.errors import BadRequest, Invalid
from controlplane.wire import builtin
from controlplane.wire.columns import at, number
from controlplane.wire.patch import apply_patch, patch_type_of
from controlplane.wire.resource import Resource
from controlplane.wire.schema import Schema

Document = dict[str, Any]

RESOURCE = Resource(
    "autoscaling",
    "v1",
    "Scale",
    "scales",
    "scale",
    True,
    columns=(number("Desired", "spec.replicas"), number("Available", "status.replicas")),
)
"""The declaration of Scale, for its printer columns. Scale is served as a subresource only."""
_IDENTITY = ("name", "namespace", "uid", "resourceVersion")
_SHOWN = (*_IDENTITY, "creationTimestamp")


def scale_of(document: Document, resource: Resource) -> Document:
    """Return the Scale of a workload. Raises BadRequest if a custom resource has no number of replicas."""
    metadata, paths = document["metadata"], resource.scale
    replicas = at(document, paths.spec)
    if replicas is None and not builtin.is_builtin(resource.group, resource.version, resource.kind):
        raise BadRequest(f'the spec replicas field ".{paths.spec}" does not exist: set it on the {resource.kind} first')
    labels = at(document, "spec.selector.matchLabels")  # anything in a kind whose schema leaves it open
    chosen = ",".join(f"{key}={value}" for key, value in sorted(labels.items())) if isinstance(labels, dict) else ""
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _SHOWN if key in metadata},
        "spec": {"replicas": 1 if replicas is None else replicas},
        "status": {
            "replicas": at(document, paths.status) or 0,
            "selector": (at(document, paths.selector) or "") if paths.selector else chosen,
        },
    }


def patched(content_type: str, current: Document, raw: bytes) -> Document:
    """Return a Scale after a patch. Raises UnsupportedMediaType, BadRequest or Invalid."""
    return apply_patch(content_type, current, raw, schema())


def check_patch_type(content_type: str) -> None:
    """Raise UnsupportedMediaType if a Scale cannot be patched with this content type."""
    patch_type_of(content_type, schema())


def schema() -> Schema:
    """Return the schema of a Scale."""
    return builtin.schema("autoscaling", "v1", "Scale")


def intent_of(wanted: Document, resource: Resource) -> Document:
    """Return what the workload itself would have to be applied for the same effect as a Scale that is applied.

    A Scale without replicas gives up the number, and leaves it as it is. Raises Invalid if the Scale is not valid.
    """
    metadata, spec = wanted["metadata"], wanted.get("spec") or {}
    names = {field: metadata[field] for field in _IDENTITY if metadata.get(field)}
    intent: Document = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": names}
    if not isinstance(spec, dict) or spec.get("replicas") is not None:
        intent = _put(intent, resource.scale.spec.split("."), _replicas(wanted, str(names.get("name", ""))))
    return intent


def with_replicas_of(document: Document, live: Document, resource: Resource) -> Document:
    """Return an applied workload with the replicas that it had if no manager applies their number any more."""
    had = at(live, resource.scale.spec)
    if had is None or at(document, resource.scale.spec) is not None:
        return document
    return _put(document, resource.scale.spec.split("."), had)


def scaled(document: Document, wanted: Document, resource: Resource) -> Document:
    """Return the workload with the replicas of a Scale. Raises BadRequest or Invalid if the Scale is not valid."""
    replicas = _replicas(wanted, document["metadata"]["name"])
    asked = wanted.get("metadata") or {}
    named = {field: asked[field] for field in ("resourceVersion", "uid") if asked.get(field)}
    made = _put(document, resource.scale.spec.split("."), replicas)
    return {**made, "metadata": {**document["metadata"], **named}}


def _replicas(wanted: Document, name: str) -> int:
    """Return the replicas of a Scale, 0 if it names none. Raises BadRequest or Invalid if the Scale is not valid."""
    if wanted.get("kind", "Scale") != "Scale":
        raise BadRequest(f"the object provided is a {wanted['kind']}, this URL takes a Scale of autoscaling/v1")
    for part in ("spec", "metadata"):
        if not isinstance(wanted.get(part) or {}, dict):
            cause = mistyped(part, wanted[part], "must be of type object")
            raise Invalid.of("Scale", name, [cause], group="autoscaling")
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        cause = invalid("spec.replicas", replicas, "must be a whole number, 0 or more")
        raise Invalid.of("Scale", name, [cause], group="autoscaling")
    return replicas


def _put(document: Document, path: list[str], value: Any) -> Document:
    """Return a copy of a document with `value` at a path."""
    inner = value if len(path) == 1 else _put(document.get(path[0]) or {}, path[1:], value)
    return {**document, path[0]: inner}
