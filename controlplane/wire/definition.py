"""What a CustomResourceDefinition makes the API serve: resources with their schemas and printer columns."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from controlplane import jsonpath
from controlplane.wire.columns import at
from controlplane.wire.resource import Column, Resource, age
from controlplane.wire.schema import Schema

Document = dict[str, Any]

KEY = "apiextensions.k8s.io/CustomResourceDefinition"

_PLAIN = re.compile(r"\.?[\w-]+(\.[\w-]+)*")


def served(definition: Document) -> list[tuple[Resource, Schema]]:
    """Return what a CustomResourceDefinition (apiextensions.k8s.io/v1) serves: every version it has switched on.

    Raises KeyError or TypeError where the definition was not validated against its own schema before.
    """
    spec = definition["spec"]
    return [
        (_resource(spec, version), schema_of(version)) for version in spec["versions"] if version.get("served", False)
    ]


def storage_version(definition: Document) -> str:
    """Return the version objects of the kind are kept in. Raises StopIteration where none is marked."""
    return str(next(version["name"] for version in definition["spec"]["versions"] if version.get("storage")))


def schema_of(version: Document) -> Schema:
    """Return the schema of one version, Schema.OPEN where it states none."""
    node = at(version, "schema.openAPIV3Schema")
    return Schema(node) if node else Schema.OPEN


def _resource(spec: Document, version: Document) -> Resource:
    names = spec["names"]
    return Resource(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(name for name in ("status", "scale") if name in (version.get("subresources") or {})),
        columns=tuple(_columns(version)),
    )


def _columns(version: Document) -> Iterator[Column]:
    for stated in version.get("additionalPrinterColumns") or ():
        yield Column(
            stated["name"],
            _Cell(stated["jsonPath"], stated["type"]),
            type=stated["type"],
            format=stated.get("format", ""),
            priority=stated.get("priority", 0),
            description=stated.get("description", ""),
        )


class _Cell:
    """The value at a JSONPath, as the column's type wants it; empty where there is none."""

    def __init__(self, path: str, kind: str) -> None:
        self.kind = kind
        self.plain = path.removeprefix(".") if _PLAIN.fullmatch(path) else ""
        self.template = f"{{{path}}}"

    def __call__(self, document: Document, now: datetime) -> Any:
        value = self._value(document)
        if value in (None, ""):
            return ""
        match self.kind:
            case "date":
                return age(str(value), now)
            case "integer":
                return int(value)
            case "number":
                return float(value)
            case "boolean":
                return value if isinstance(value, bool) else value == "true"
            case _:
                return value if isinstance(value, str) else jsonpath.evaluate("{@}", value)

    def _value(self, document: Document) -> Any:
        if self.plain:
            return at(document, self.plain)
        try:
            return jsonpath.evaluate(self.template, document)
        except jsonpath.JSONPathError:
            return None
