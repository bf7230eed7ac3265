"""What an API server adds to an object before its defaults: on creation only, or by what is stored already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apps.simulator.pod_defaults import new_pod

Document = dict[str, Any]

_GENERATION = "deprecated.daemonset.template.generation"


def prepared(kind: str, document: Document, old: Document | None) -> Document:
    """Return a document with what the API server adds to its kind (a Resource's key). `old`: what is stored so far."""
    prepare = _PREPARED.get(kind)
    return document if prepare is None else prepare(document, old)


def _pod(document: Document, old: Document | None) -> Document:
    return document if old is not None else new_pod(document)


def _job(document: Document, old: Document | None) -> Document:
    """Give a new Job the selector and the labels by which it finds its pods, unless it chooses them itself."""
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
    """Keep the annotation of DaemonSets that once counted their templates. It is not counted further here."""
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
