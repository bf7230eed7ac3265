"""Fields that kube-apiserver sets before defaults: on creation only, or from the stored object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.simulator.pod_defaults import new_pod

Document = dict[str, Any]

_GENERATION = "deprecated.daemonset.template.generation"


def prepared(kind: str, document: Document, old: Document | None) -> Document:
    """Return a document with the fields that its kind (the key of a Resource) gets. `old` None: it is created."""
    prepare = _PREPARED.get(kind)
    return document if prepare is None else prepare(document, old)


def _pod(document: Document, old: Document | None) -> Document:
    return document if old is not None else new_pod(document)


def _job(document: Document, old: Document | None) -> Document:
    """Add the selector and the pod labels to a new Job, unless it has a manual selector."""
    spec = document.get("spec") or {}
    if old is not None or spec.get("manualSelector"):
        return document
    uid, name = document["metadata"].get("uid", ""), document["metadata"]["name"]
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    template = spec.get("template") or {}
    inner = template.get("metadata") or {}
    labelled = {**template, "metadata": {**inner, "labels": {**(inner.get("labels") or {}), **labels}}}
    selector = spec.get("selector") or {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    return {**document, "spec": {**spec, "selector": selector, "template": labelled}}


def _daemon_set(document: Document, old: Document | None) -> Document:
    """Keep the deprecated template generation annotation of a DaemonSet. The simulator does not raise it."""
    number = 1
    if old is not None:
        number = int((old["metadata"].get("annotations") or {}).get(_GENERATION, "1"))
    metadata = document["metadata"]
    annotations = {**(metadata.get("annotations") or {}), _GENERATION: str(number)}
    return {**document, "metadata": {**metadata, "annotations": annotations}}


_PREPARED: dict[str, Callable[[Document, Document | None], Document]] = {
    "Pod": _pod,
    "batch/Job": _job,
    "apps/DaemonSet": _daemon_set,
}
