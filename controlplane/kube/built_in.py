"""The defaults of a document of a built-in kind, and the causes to refuse it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.apimachinery.equality import same
from controlplane.apimachinery.errors import Cause
from controlplane.kube import edits, walk
from controlplane.kube.pod_types import filled_pod
from controlplane.kube.rules import Causes
from controlplane.kube.scaling_types import new_priority
from controlplane.kube.service_types import without_leftovers
from controlplane.kube.volume_types import without_unknown_source
from controlplane.kube.workload_types import new_job, new_revision, new_stateful_set, with_claims
from controlplane.wire import builtin
from controlplane.wire.resource import Resource

Document = dict[str, Any]

# Rules for new objects only.
_NEW: dict[str, Callable[[Document, Causes], None]] = {
    "apps/StatefulSet": new_stateful_set,
    "batch/Job": new_job,
    "apps/ControllerRevision": new_revision,
    "scheduling.k8s.io/PriorityClass": new_priority,
}
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"


def defaulted(resource: Resource, document: Document, old: Document | None = None) -> Document:
    """Return a document with the defaults of its kind. What the user wrote stays as it is. `old`: the stored document.

    What a member chooses is left out: addresses, node ports, the selector of a Job, the account of a Pod.
    """
    name = builtin.component_name(resource.group, resource.version, resource.kind)
    if name is None:
        return document
    if resource.key == "Pod":
        document = filled_pod(document)
    elif resource.key == "Namespace":
        document = _named(document)
    elif resource.key == "Service" and old is not None:
        document = {**document, "spec": without_leftovers(document.get("spec") or {}, old.get("spec") or {})}
    elif resource.key == "PersistentVolumeClaim" and old is None and document.get("spec"):
        document = {**document, "spec": without_unknown_source(document["spec"])}
    made = walk.filled(name, document)
    return _labelled(made) if resource.key in ("batch/Job", "ReplicationController") else made


def causes(resource: Resource, document: Document, old: Document | None) -> list[Cause]:
    """Return the causes to refuse a document that has its defaults. `old`: the stored document, or None.

    Nothing is checked if the new document says the same as the stored one, so that objects of earlier releases
    stay writable.
    """
    name = builtin.component_name(resource.group, resource.version, resource.kind)
    if name is None:
        return []
    before = None if old is None else defaulted(resource, old)
    if before is not None and same(_content(document), _content(before)):
        return []
    checked = document
    if resource.key == "apps/StatefulSet" and document.get("spec"):
        spec = with_claims(document["spec"])
        if old is not None:  # of the claims of a stored StatefulSet nothing may change
            spec = {field: value for field, value in spec.items() if field != "volumeClaimTemplates"}
        checked = {**document, "spec": spec}
    found = walk.causes_in(name, checked)
    if old is None and resource.key in _NEW:
        _NEW[resource.key](document, found)
    if before is not None:
        found += edits.causes_of_edit(resource.key, document, before)
    return list(dict.fromkeys(found))


def _content(document: Document) -> Document:
    return {key: value for key, value in document.items() if key not in ("metadata", "status")}


def _named(document: Document) -> Document:
    metadata = document.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), _NAMESPACE_LABEL: metadata.get("name", "")}
    return {**document, "metadata": {**metadata, "labels": labels}}


def _labelled(document: Document) -> Document:
    """Return a Job or ReplicationController with the labels of its pods, if it has none."""
    metadata = document.get("metadata") or {}
    template = (document.get("spec") or {}).get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    if not labels or metadata.get("labels"):
        return document
    return {**document, "metadata": {**metadata, "labels": labels}}
