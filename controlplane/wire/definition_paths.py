"""Paths into objects that a version of a CustomResourceDefinition states: printer columns, selectable fields, Scale.

The rules and their texts are those of a kube-apiserver, because the members have to accept the definition as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from controlplane.apimachinery.causes import duplicate, invalid, required
from controlplane.apimachinery.errors import Cause
from controlplane.wire.structural import Node

MOST_SELECTABLE: Final = 8
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SELECTABLE_TYPES: Final = ("boolean", "integer", "string")
_OWN: Final = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}


def path_faults(version: Mapping[str, Any], root: Node) -> Iterator[Cause]:
    """Yield a cause for every path of a version that cannot be. Fields are relative to the version.

    `root`: the schema of the version.
    """
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _column(column, f"additionalPrinterColumns[{index}]")
    yield from _selectable(version.get("selectableFields") or (), root)
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        yield from _scale(scale)


def _column(column: Mapping[str, Any], at: str) -> Iterator[Cause]:
    if not column.get("name"):
        yield required(f"{at}.name")
    kind, allowed = column.get("type"), f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        yield required(f"{at}.type", allowed)
    elif kind not in _COLUMN_TYPES:
        yield invalid(f"{at}.type", kind, allowed)
    if (stated := column.get("format")) and stated not in _COLUMN_FORMATS:
        yield invalid(f"{at}.format", stated, f"must be one of {','.join(_COLUMN_FORMATS)}")
    yield from _simple(column.get("jsonPath"), f"{at}.JSONPath")


def _simple(path: Any, at: str) -> Iterator[Cause]:
    if not path:
        yield required(at)
    elif not str(path).startswith("."):
        yield invalid(at, path, "must be a simple json path starting with .")


def _selectable(fields: Any, root: Node) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, stated in enumerate(fields):
        at, path = f"selectableFields[{index}].jsonPath", str(stated.get("jsonPath") or "")
        if not path:
            yield required(at)
            continue
        found = _field(root, path)
        if found is None:
            yield invalid(at, path, "is an invalid path: does not refer to a valid field")
            continue
        if path.split(".")[1] == "metadata":
            yield invalid(at, path, "must not point to fields in metadata")
        if found.get("type") not in _SELECTABLE_TYPES:
            rule = "must point to a field of type string, boolean or integer."
            yield invalid(at, path, f"{rule} Enum string fields and strings with formats are allowed.")
        if path in seen:
            yield duplicate(at, path)
        seen.add(path)
    if len(seen) > MOST_SELECTABLE:
        rule = f"Too many: {len(seen)}: must have at most {MOST_SELECTABLE} items"
        yield Cause("FieldValueTooMany", rule, "selectableFields")


def _field(root: Node, path: str) -> Node | None:
    """Return the schema of the field at a path such as .spec.colour; None: there is no such field."""
    begin, *names = path.split(".")
    if begin or not names:
        return None
    node: Any = {**root, "properties": {**_OWN, **(root.get("properties") or {})}}
    for place, name in enumerate(names):
        if place and names[0] == "metadata":
            return _OWN["metadata"]  # refused by another rule, whatever it names
        more = node.get("additionalProperties")
        node = (node.get("properties") or {}).get(name) or (more if isinstance(more, Mapping) else None)
        if node is None:
            return None
    found: Node = node
    return found


def _scale(scale: Mapping[str, Any]) -> Iterator[Cause]:
    for word, roots in (("specReplicasPath", (".spec",)), ("statusReplicasPath", (".status",))):
        yield from _under(scale.get(word), f"subresources.scale.{word}", roots)
    if path := scale.get("labelSelectorPath"):
        yield from _under(path, "subresources.scale.labelSelectorPath", (".spec", ".status"))


def _under(path: Any, at: str, roots: tuple[str, ...]) -> Iterator[Cause]:
    """Yield the causes to refuse a path that is not under one of some fields of an object."""
    wrong = list(_simple(path, at))
    yield from wrong
    if not wrong and not str(path).startswith(tuple(f"{root}." for root in roots)):
        either = "either " if len(roots) > 1 else ""
        yield invalid(at, path, f"should be a json path under {either}{' or '.join(roots)}")
