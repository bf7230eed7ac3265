"""Defaults and validation of built-in kinds, as a kube-apiserver has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from controlplane.apimachinery.errors import Cause
from controlplane.kinds.template import Template
from controlplane.kube import built_in
from controlplane.settings import Settings
from controlplane.wire.resource import Resource

Default = Callable[[Any, Any, Settings], Any]
Validate = Callable[[Any, Any, Settings], list[Cause]]


def defaulted(
    resource: Resource, more: Default | None, new: Template, old: Template | None, settings: Settings
) -> Template:
    """Return the object with the defaults of its kind. Everything that was written stays.

    `more`: further values that the control plane sets, on an object that has its defaults.
    """
    made = built_in.defaulted(resource, _document(new), None if old is None else _document(old))
    labels = made.pop("metadata").get("labels") or {}
    made.pop("status", None)
    changed = replace(new, content=made)
    if labels != new.metadata.labels:
        changed = changed.with_meta(labels=labels)
    return changed if more is None else more(changed, old, settings)


def validate(
    resource: Resource, more: Validate | None, new: Template, old: Template | None, settings: Settings
) -> list[Cause]:
    """Return every cause to refuse the object. `more`: further rules of its kind, which only Lifeboat has."""
    found = built_in.causes(resource, _document(new), None if old is None else _document(old))
    if more is None:
        return found
    known = {(cause.field, cause.reason) for cause in found}
    return [*found, *(cause for cause in more(new, old, settings) if (cause.field, cause.reason) not in known)]


def _document(obj: Template) -> dict[str, Any]:
    """Return what rules read: the content, the status, the name, the labels and the annotations."""
    metadata = obj.metadata
    known = {"name": metadata.name, "labels": metadata.labels, "annotations": metadata.annotations}
    return {"metadata": known, **obj.content, "status": obj.status}
