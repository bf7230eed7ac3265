"""The rules of kube-apiserver for metadata, for objects of all kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlplane.admission.metadata_rules import label_causes
from controlplane.apimachinery import selectors
from controlplane.apimachinery.causes import immutable, invalid, required
from controlplane.apimachinery.errors import Cause
from controlplane.wire.resource import Resource

Document = dict[str, Any]

_NAMELESS = frozenset({"policy/PodDisruptionBudget"})  # Kubernetes does not check the names of these kinds


def name_causes(resource: Resource, name: str) -> list[Cause]:
    """Return the causes to refuse the name of a new object."""
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    if resource.key in _NAMELESS:
        return []
    if resource.group == "rbac.authorization.k8s.io":
        errors = [f"{name!r} holds / or %"] if "/" in name or "%" in name else []
    elif resource.key in ("Namespace", "Service"):
        errors = selectors.dns1123_label_errors(name)
    else:
        errors = selectors.dns1123_subdomain_errors(name)
    return [invalid("metadata.name", name, error) for error in errors]


def causes(metadata: Document) -> Iterator[Cause]:
    """Yield the causes to refuse labels, annotations, finalizers and owner references."""
    yield from label_causes(metadata.get("labels") or {}, "metadata.labels")
    for key in metadata.get("annotations") or {}:
        for error in selectors.label_key_errors(key.lower()):
            yield invalid("metadata.annotations", key, error)
    for finalizer in metadata.get("finalizers") or ():
        for error in selectors.label_key_errors(finalizer):
            yield invalid("metadata.finalizers", finalizer, error)
    for index, owner in enumerate(metadata.get("ownerReferences") or ()):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                yield required(f"metadata.ownerReferences[{index}].{field}")


def uid_causes(metadata: Document, old: Document) -> Iterator[Cause]:
    """Yield the cause to refuse a patch that changes the uid."""
    if metadata.get("uid") not in (None, "", old["uid"]):
        yield immutable("metadata.uid", metadata["uid"])
