"""The OpenAPI v2 (Swagger 2.0) document of the API, made of the OpenAPI v3 documents of all group versions.

Clients older than kubectl 1.27 read it for `explain` and for validation. It is served as JSON, and as the protobuf
message openapi.v2.Document, which these clients prefer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from controlplane.wire import protobuf_fields as fields
from controlplane.wire.schema import REF_PREFIX

Document = dict[str, Any]

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
ASKED_AS = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_DEFINITIONS = "#/definitions/"
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_MEDIA_TYPES = ("application/json", "application/yaml")
# Keys of a schema that Swagger 2.0 does not know.
_UNKNOWN = frozenset({"oneOf", "anyOf", "not", "nullable"})
# Values of several types, of which clients have to expect each.
_OF_ANY_TYPE = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")


def document(parts: Iterable[bytes], *, title: str, version: str) -> Document:
    """Return the document with the paths and schemas of several OpenAPI v3 documents."""
    paths: Document = {}
    definitions: Document = {}
    for part in map(orjson.loads, parts):
        paths |= {path: _path(entry) for path, entry in part["paths"].items()}
        definitions |= {name: _schema(node) for name, node in part["components"]["schemas"].items()}
    return {
        "swagger": "2.0",
        "info": {"title": title, "version": version},
        "paths": dict(sorted(paths.items())),
        "definitions": dict(sorted(definitions.items())),
    }


def _path(entry: Document) -> Document:
    made: Document = {name: _operation(inner) for name, inner in entry.items() if name in _METHODS}
    if entry.get("parameters"):
        made["parameters"] = [_parameter(parameter) for parameter in entry["parameters"]]
    return made


def _operation(entry: Document) -> Document:
    body = entry.get("requestBody") or {}
    content = body.get("content") or {}
    parameters = [_parameter(parameter) for parameter in entry.get("parameters") or ()]
    made = {name: value for name, value in entry.items() if name in ("tags", "description") or name.startswith("x-")}
    if content:
        schema = _schema(next(iter(content.values())).get("schema") or {"type": "object"})
        required = bool(body.get("required"))
        parameters.insert(
            0, {"name": "body", "in": "body", **({"required": True} if required else {}), "schema": schema}
        )
        made["consumes"] = list(content)
    made["produces"] = list(_MEDIA_TYPES)
    made["parameters"] = parameters
    made["responses"] = {code: _response(answer) for code, answer in entry["responses"].items()}
    return made


def _response(answer: Document) -> Document:
    content: Document = next(iter((answer.get("content") or {}).values()), {})
    made = {"description": answer.get("description", "")}
    return {**made, "schema": _schema(content["schema"])} if "schema" in content else made


def _parameter(entry: Document) -> Document:
    schema = entry.get("schema") or {}
    made = {name: value for name, value in entry.items() if name != "schema"}
    return {**made, **{name: schema[name] for name in ("type", "uniqueItems") if name in schema}}


def _schema(node: Any) -> Any:
    """Return a schema as Swagger 2.0 has it: references to definitions, and without keys that it does not know."""
    if isinstance(node, list):
        return [_schema(inner) for inner in node]
    if not isinstance(node, Mapping):
        return node
    if "$ref" in node and isinstance(node["$ref"], str):
        return {"$ref": _DEFINITIONS + node["$ref"].removeprefix(REF_PREFIX)}
    wrapped: list[Any] = node.get("allOf") or []
    if len(wrapped) == 1 and "$ref" in wrapped[0]:
        beside = {name: _value(name, inner) for name, inner in node.items() if name not in _UNKNOWN | {"allOf"}}
        return {**beside, **_schema(wrapped[0])}
    made = {name: _value(name, inner) for name, inner in node.items() if name not in _UNKNOWN}
    is_open = any(made.get(name) is True for name in _OF_ANY_TYPE)
    if "type" not in made and _UNKNOWN & node.keys() and "properties" not in made and not is_open:
        made["type"] = "string"  # a number or a text, such as a quantity: clients of version 2 expect a text
    return made


def _value(name: str, inner: Any) -> Any:
    if name == "properties":
        return {field: _schema(schema) for field, schema in inner.items()}
    if name in ("items", "additionalProperties", "allOf"):
        return _schema(inner)
    return inner


def encoded(swagger: Document) -> bytes:
    """Return a document as the protobuf message openapi.v2.Document. It has the paths and the definitions."""
    info = fields.text(1, swagger["info"]["title"]) + fields.text(2, swagger["info"]["version"])
    paths = b"".join(fields.message(2, _named(path, _path_item(item))) for path, item in swagger["paths"].items())
    definitions = swagger["definitions"].items()
    schemas = b"".join(fields.message(1, _named(name, _encoded_schema(node))) for name, node in definitions)
    return (
        fields.text(1, swagger["swagger"])
        + fields.message(2, info)
        + fields.message(8, paths)
        + fields.message(9, schemas)
    )


def _named(name: str, value: bytes) -> bytes:
    return fields.text(1, name) + fields.message(2, value)


def _path_item(item: Document) -> bytes:
    made = b"".join(
        fields.message(number, _encoded_operation(item[method]))
        for number, method in enumerate(_METHODS, 2)
        if method in item
    )
    return made + b"".join(fields.message(9, _parameters_item(entry)) for entry in item.get("parameters", ()))


def _encoded_operation(entry: Document) -> bytes:
    made = b"".join(fields.text(1, tag) for tag in entry.get("tags", ()))
    made += fields.text(3, entry.get("description", ""))
    made += b"".join(fields.text(6, name) for name in entry.get("produces", ()))
    made += b"".join(fields.text(7, name) for name in entry.get("consumes", ()))
    made += b"".join(fields.message(8, _parameters_item(parameter)) for parameter in entry["parameters"])
    responses = b"".join(
        fields.message(1, _named(code, fields.message(1, _encoded_response(answer))))
        for code, answer in entry["responses"].items()
    )
    return made + fields.message(9, responses) + _extensions(13, entry)


def _encoded_response(answer: Document) -> bytes:
    made = fields.text(1, answer["description"])
    return (
        made + fields.message(2, fields.message(1, _encoded_schema(answer["schema"]))) if "schema" in answer else made
    )


def _parameters_item(entry: Document) -> bytes:
    """Return an openapi.v2.ParametersItem: a parameter in the body, in the query or in the path."""
    if entry["in"] == "body":
        required = fields.flag(4, bool(entry.get("required")))
        body = fields.text(2, entry["name"]) + fields.text(3, "body") + required
        return fields.message(1, fields.message(1, body + fields.message(5, _encoded_schema(entry["schema"]))))
    common = fields.text(2, entry["in"]) + fields.text(3, entry.get("description", "")) + fields.text(4, entry["name"])
    required = fields.flag(1, bool(entry.get("required")))
    if entry["in"] == "path":
        inner = fields.message(4, required + common + fields.text(5, entry["type"]))
    else:
        inner = fields.message(3, required + common + fields.text(6, entry["type"]))
    return fields.message(1, fields.message(2, inner))


def _encoded_schema(node: Document) -> bytes:
    made = fields.text(1, node.get("$ref", "")) + fields.text(2, node.get("format", ""))
    made += fields.text(4, node.get("description", ""))
    if "default" in node:
        made += fields.message(5, _any(node["default"]))
    made += b"".join(fields.text(19, name) for name in node.get("required", ()))
    made += b"".join(fields.message(20, _any(option)) for option in node.get("enum", ()))
    more = node.get("additionalProperties")
    if isinstance(more, dict):
        made += fields.message(21, fields.message(1, _encoded_schema(more)))
    elif isinstance(more, bool):
        made += fields.message(21, fields.flag(2, more))
    if "type" in node:
        made += fields.message(22, fields.text(1, node["type"]))
    if "items" in node:
        made += fields.message(23, fields.message(1, _encoded_schema(node["items"])))
    properties = node.get("properties")
    if properties:
        inner = (fields.message(1, _named(name, _encoded_schema(schema))) for name, schema in properties.items())
        made += fields.message(25, b"".join(inner))
    return made + _extensions(31, node)


def _extensions(number: int, node: Document) -> bytes:
    found = ((name, value) for name, value in node.items() if name.startswith("x-"))
    return b"".join(fields.message(number, _named(name, _any(value))) for name, value in found)


def _any(value: Any) -> bytes:
    """Return an openapi.v2.Any: a value as YAML. JSON is YAML."""
    return fields.text(2, orjson.dumps(value).decode() + "\n")
