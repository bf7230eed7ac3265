"""Validation of the manifests in Works, by the schema of their kind if it is a built-in kind of Kubernetes.

Members validate the manifests again. But a manifest that is not even an object could not be sent to a member.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from controlplane.apimachinery.causes import required
from controlplane.apimachinery.errors import Cause
from controlplane.wire import builtin, document_check
from controlplane.wire.schema import Schema
from controlplane.wire.structured import METADATA

_TEXT = {"type": "string"}
_NAMED = {**METADATA.node, "properties": {**METADATA.node["properties"], "name": _TEXT, "namespace": _TEXT}}
_OBJECT = Schema({"type": "object", "properties": {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _NAMED}})


def without_nulls(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest without fields that are null, because null means that a field is not set."""
    return document_check.without_nulls(manifest, _schema(manifest))


def faults(manifest: dict[str, Any], path: str) -> Iterator[Cause]:
    """Yield the causes to refuse a manifest; `path` is its path in the Work."""
    for cause in document_check.faults(manifest, _schema(manifest)):
        yield replace(cause, field=f"{path}.{cause.field}")
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    for field, value in (
        ("apiVersion", manifest.get("apiVersion")),
        ("kind", manifest.get("kind")),
        ("metadata.name", name),
    ):
        if value in (None, ""):
            yield required(f"{path}.{field}")


def _schema(manifest: dict[str, Any]) -> Schema:
    """Return the schema of a manifest of a built-in kind; for other kinds, the schema that all objects have."""
    api_version, kind = manifest.get("apiVersion"), manifest.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return _OBJECT
    group, _, version = api_version.rpartition("/")
    known = builtin.schema(group, version, kind)
    return _OBJECT if known is Schema.OPEN else known
