"""Where Secrets stand in a document, and which parts of one are secret: asked by what seals and by what hides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

Document = dict[str, Any]
Path = tuple[str | int, ...]

HELD: Final = ("data", "stringData")
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl keeps the whole Secret."""


def is_secret(document: Any) -> bool:
    """Test whether a document is a Secret."""
    return isinstance(document, dict) and document.get("kind") == "Secret" and document.get("apiVersion") == "v1"


def secrets(document: Document) -> Iterator[Path]:
    """Yield where a document is a Secret, or carries one to a member; people may have written anything into it."""
    if is_secret(document):
        yield ()
    spec = document.get("spec")
    workload = spec.get("workload") if isinstance(spec, dict) else None
    manifests = workload.get("manifests") if isinstance(workload, dict) else None
    for index, manifest in enumerate(manifests if isinstance(manifests, list) else ()):
        if is_secret(manifest):
            yield "spec", "workload", "manifests", index


def annotations_of(document: Document) -> Document:
    """Return the annotations of a document, {} where there are none or they are no map."""
    metadata = document.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}
