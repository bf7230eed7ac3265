"""The variables of expressions in admission policies and webhooks: their types, and their values at run time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from controlplane.wire.cel import authorizer
from controlplane.wire.cel.kind_nodes import Node
from controlplane.wire.cel.schema_types import Types, to_cel

_TYPE_NAME: Final = re.compile(r"[\w.]+")
_TEXT: Final[Node] = {"type": "string"}
_ANY: Final[Node] = {"x-kubernetes-int-or-string": True}  # the compiler finds out nothing about it
_TIME: Final[Node] = {"type": "string", "format": "date-time"}
_TIMES: Final = frozenset(("creationTimestamp", "deletionTimestamp"))
_TEXTS: Final[Node] = {"type": "array", "items": _TEXT}
_LABELS: Final[Node] = {"type": "object", "additionalProperties": _TEXT}


def _object(**fields: Node) -> Node:
    return {"type": "object", "properties": fields}


_KIND = _object(group=_TEXT, version=_TEXT, kind=_TEXT)
_RESOURCE = _object(group=_TEXT, version=_TEXT, resource=_TEXT)
REQUEST: Final[Node] = _object(
    kind=_KIND,
    resource=_RESOURCE,
    subResource=_TEXT,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=_TEXT,
    name=_TEXT,
    namespace=_TEXT,
    operation=_TEXT,
    userInfo=_object(
        username=_TEXT,
        uid=_TEXT,
        groups=_TEXTS,
        extra={"type": "object", "additionalProperties": _TEXTS},
    ),
    dryRun={"type": "boolean"},
    options=_ANY,
)
"""What expressions read of a request: the fields of an AdmissionReview's request that they may use."""
NAMESPACE: Final[Node] = _object(
    metadata=_object(
        name=_TEXT,
        generateName=_TEXT,
        namespace=_TEXT,
        labels=_LABELS,
        annotations=_LABELS,
        UID=_TEXT,
        creationTimestamp=_TIME,
        deletionGracePeriodSeconds={"type": "integer"},
        deletionTimestamp=_TIME,
        generation={"type": "integer"},
        resourceVersion=_TEXT,
        finalizers=_TEXTS,
    ),
    spec=_object(finalizers=_TEXTS),
    status=_object(phase=_TEXT),
)
"""What expressions read of the namespace of an object."""


def declared(types: Types, *, params: bool, asks: bool) -> dict[str, str]:
    """Return the types of the variables that an expression has.

    params: also that of the parameters. asks: also those that tell what a user may do.
    """
    found = {
        "object": "dyn",
        "oldObject": "dyn",
        "request": types.name(REQUEST),
        "namespaceObject": types.name(NAMESPACE),
    }
    return found | ({"params": "dyn"} if params else {}) | (authorizer.VARIABLES if asks else {})


def values(call: Mapping[str, Any], *, asks: bool) -> dict[str, Any]:
    """Return the values of these variables for a call: `object`, `oldObject`, `request` and `namespaceObject`.

    asks: also of the variables that tell what a user may do, with the `decisions` of the call.
    """
    namespace = call.get("namespaceObject")
    found = authorizer.authorizer_values(call["request"], call.get("decisions") or {}) if asks else {}
    return found | {
        "object": call.get("object"),
        "oldObject": call.get("oldObject"),
        "request": call["request"],
        "namespaceObject": None if namespace is None else _namespace(namespace),
    }


def _namespace(document: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {**document.get("metadata", {})}
    if "uid" in metadata:
        metadata["UID"] = metadata.pop("uid")
    for field in _TIMES.intersection(metadata):
        metadata[field] = to_cel(metadata[field], _TIME)
    return {**document, "metadata": metadata}


def type_text(found: Any) -> str:
    """Return the type of an expression as `environment.type_of` reads it. "dyn": it is known at run time only."""
    text = str(found)
    if text.startswith("LIST<"):
        return f"list({_basic(text[5:-1])})"
    if text.startswith("MAP<STRING, "):
        return f"map(string, {_basic(text[12:-1])})"
    return _basic(text)


def _basic(text: str) -> str:
    known = ("INT", "UINT", "STRING", "BOOL", "DOUBLE", "BYTES", "TIMESTAMP", "DURATION")
    return text.lower() if text in known else "dyn"


def type_shown(found: Any) -> str:
    """Return the type of an expression as messages of Kubernetes name it."""
    text = str(found)
    if text == "NULL":
        return "null_type"
    text = _TYPE_NAME.sub(lambda name: name[0] if "." in name[0] else name[0].lower(), text)
    return text.replace("<", "(").replace(">", ")")
