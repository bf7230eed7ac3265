"""Documents as YAML for users: what they edit, where a field stands in the text, and what differs between two texts."""

from __future__ import annotations

import difflib
import re
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, SequenceNode

from controlplane.apimachinery.equality import same

Document = dict[str, Any]

# Fields of metadata that the server writes: shown beside the text, and added again when the text is saved.
SERVERS = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"),
    *("deletionTimestamp", "deletionGracePeriodSeconds"),
)
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class _Dumper(yaml.CSafeDumper):
    """Writes texts of several lines as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, value: str) -> Any:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(value: Any) -> str:
    """Return a value as YAML."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def edited(document: Document) -> Document:
    """Return the part of a document that users edit: without status and without the server's part of metadata."""
    metadata = {key: value for key, value in document.get("metadata", {}).items() if key not in SERVERS}
    kept = {key: value for key, value in document.items() if key not in ("status", "metadata")}
    head: Document = {key: kept.pop(key) for key in ("apiVersion", "kind") if key in kept}
    return {**head, "metadata": metadata, **kept}


def line_of(text: str, field: str) -> int:
    """Return the line of a YAML text, from 1, at which a field is written. `field`: a path, `spec.taints[0].effect`.

    If the field is missing, the line of the nearest parent that is there; 0: not even the first part is there.
    """
    try:
        node: Node | None = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return 0
    line = 0
    for name, index in _STEP.findall(field):
        found = _item(node, int(index)) if index else _value(node, name)
        if found is None:
            return line
        line, node = found
    return line


def _value(node: Node | None, name: str) -> tuple[int, Node] | None:
    for key, value in node.value if isinstance(node, MappingNode) else ():
        if key.value == name:
            return key.start_mark.line + 1, value
    return None


def _item(node: Node | None, index: int) -> tuple[int, Node] | None:
    if not isinstance(node, SequenceNode) or index >= len(node.value):
        return None
    found: Node = node.value[index]
    return found.start_mark.line + 1, found


def difference(before: str, after: str) -> list[tuple[str, str]]:
    """Return how two texts differ, as (sign, line): "+" added, "-" removed, " " unchanged, "@" lines left out."""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3))[2:]
    return [(line[:1] or " ", "…" if line.startswith("@@") else line[1:]) for line in lines]


def changed_fields(before: Document | None, after: Document, *, depth: int = 2) -> list[str]:
    """Return the paths of the fields that differ, at most `depth` levels deep: ["metadata.labels", "spec.replicas"].

    Versions and managed fields, which change with every write, are not listed.
    """
    if before is None:
        return []
    left, right = _plain(before), _plain(after)
    return sorted(set(_changed(left, right, "", depth)))


def _plain(document: Document) -> Document:
    metadata = {key: value for key, value in document.get("metadata", {}).items() if key not in _QUIET}
    return {**document, "metadata": metadata}


_QUIET = ("resourceVersion", "generation", "managedFields")


def _changed(left: Any, right: Any, path: str, depth: int) -> list[str]:
    if same(left, right):
        return []
    if depth == 0 or not isinstance(left, dict) or not isinstance(right, dict):
        return [path]
    keys = dict.fromkeys((*left, *right))
    return [
        item
        for key in keys
        for item in _changed(left.get(key), right.get(key), f"{path}.{key}" if path else key, depth - 1)
    ]
