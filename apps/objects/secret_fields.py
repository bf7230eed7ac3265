"""The Secrets in a document, and the parts of a Secret that are secret; for encryption and for hiding on pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

Document = dict[str, Any]
Path = tuple[str | int, ...]

HELD: Final = ("data", "stringData")
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl keeps the whole Secret."""


def is_secret(document: Any) -> bool:
    """Return whether a document is a Secret."""
    return isinstance(document, dict) and document.get("kind") == "Secret" and document.get("apiVersion") == "v1"


def secrets(document: Document) -> Iterator[Path]:
    """Yield the path of each Secret: () if the document is one, and the manifests of a Work that are Secrets.

    The document may be malformed: users write it.
    """
    if is_secret(document):
        yield ()
    spec = document.get("spec")
    workload = spec.get("workload") if isinstance(spec, dict) else None
    manifests = workload.get("manifests") if isinstance(workload, dict) else None
    for index, manifest in enumerate(manifests if isinstance(manifests, list) else ()):
        if is_secret(manifest):
            yield "spec", "workload", "manifests", index


def annotations_of(document: Document) -> Document:
    """Return the annotations of a document; {}: it has none, or they are malformed."""
    metadata = document.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}
