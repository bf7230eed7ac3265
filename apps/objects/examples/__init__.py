"""A valid example of each kind, with which forms for new objects begin. The examples are the YAML files here."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from apps.objects.yaml_text import to_yaml
from controlplane.kind import Kind
from controlplane.kinds import WORK

Document = dict[str, Any]

IN_TWO_HOURS = "IN-TWO-HOURS"  # in an example: two hours from now


def example_of(kind: Kind, *, namespace: str = "", now: datetime) -> str:
    """Return an example as YAML. `namespace`: the namespace of the object; "": that of the example.

    A kind that users defined has the fields that its schema requires, with values of their types.
    """
    resource = kind.resource
    found = _examples().get((resource.api_version, resource.kind))
    document: Document = dict(found) if found is not None else _from_schema(kind)
    if resource.namespaced and namespace and kind.key != WORK:
        document["metadata"] = {**document["metadata"], "namespace": namespace}
        if isinstance(resource_of := document.get("spec", {}).get("resource"), dict):
            document["spec"] = {**document["spec"], "resource": {**resource_of, "namespace": namespace}}
    return to_yaml(document).replace(IN_TWO_HOURS, f"{now + timedelta(hours=2):%Y-%m-%dT%H:%M:00Z}")


@lru_cache(maxsize=1)
def _examples() -> dict[tuple[str, str], Document]:
    texts = [path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("*.yaml"))]
    documents = [one for text in texts for one in yaml.load_all(text, Loader=yaml.CSafeLoader)]
    return {(one["apiVersion"], one["kind"]): one for one in documents}


def _from_schema(kind: Kind) -> Document:
    resource = kind.resource
    metadata = {"name": "example", "namespace": "default"} if resource.namespaced else {"name": "example"}
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    filled = _filled(dict(kind.schema().node))
    return {**(filled if isinstance(filled, dict) else {}), **head} if filled else head


def _filled(node: Document) -> Any:
    """Return the smallest value that a schema allows: required fields, and the first of several values."""
    if "default" in node:
        return node["default"]
    if node.get("enum"):
        return node["enum"][0]
    match node.get("type"):
        case "object":
            properties = node.get("properties", {})
            return {name: _filled(dict(properties.get(name, {}))) for name in node.get("required", ())}
        case "array":
            return [_filled(dict(node.get("items", {})))] * node.get("minItems", 0)
        case "integer" | "number":
            return node.get("minimum", 0)
        case "boolean":
            return False
        case "string":
            return "x" * node.get("minLength", 1)
    return {}
