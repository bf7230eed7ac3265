"""Request bodies: decoded, about what the URL names, with what is to be said about unknown fields."""

from __future__ import annotations

from typing import Any, NamedTuple

from apps.api.query import Writing
from apps.api.target import Target
from controlplane.apimachinery.errors import BadRequest, Invalid, TooLarge
from controlplane.wire import builtin, document_check, protobuf, request
from controlplane.wire.body import MAX_BYTES, decode_body
from controlplane.wire.negotiate import go_bool, media_type_of
from controlplane.wire.resource import Resource

Document = dict[str, Any]


class Body(NamedTuple):
    """What a client sent. `duplicates` are messages about keys written twice."""

    document: Document
    duplicates: list[str]


def decode(content_type: str | None, raw: bytes) -> Body:
    """Return the object in a body, whichever of JSON, YAML and protobuf it is. Raises a 4xx StatusError."""
    if len(raw) > MAX_BYTES:
        raise TooLarge(f"the body has {len(raw)} bytes, the limit is {MAX_BYTES}")
    if media_type_of(content_type) == protobuf.MEDIA_TYPE:
        return Body(protobuf.decode(raw), [])
    duplicates: list[str] = []
    return Body(decode_body(content_type, raw, duplicates=duplicates), duplicates)


def name_of(body: Body) -> str:
    """Return what the object in a body is to be called; of a generated name, what it begins with and an asterisk."""
    metadata = body.document.get("metadata")
    if not isinstance(metadata, dict):
        return ""
    begins = metadata.get("generateName")
    return str(metadata.get("name") or (f"{begins}*" if begins else ""))


def about(target: Target, document: Document) -> Document:
    """Return the document with what only the URL says filled in. Raises BadRequest where it is about something else."""
    resource = target.resource
    return request.complete_from_url(
        document, resource, namespace=target.namespace if resource.namespaced else "", name=target.name
    )


def delete_options(content_type: str | None, raw: bytes, query: Any) -> Document:
    """Return the DeleteOptions of a body and of the query, which wins. Raises BadRequest for what cannot be."""
    options: Document = {}
    if raw.strip():
        options = dict(decode(content_type, raw).document)
        if options.get("kind", "DeleteOptions") != "DeleteOptions":
            raise BadRequest(f"the body of a DELETE is DeleteOptions, not {options['kind']!r}")
        schema = builtin.schema("", "v1", "DeleteOptions")
        if causes := document_check.faults(document_check.without_nulls(options, schema), schema):
            raise Invalid.of("DeleteOptions", "", causes)
    policy = query.get("propagationPolicy") or options.get("propagationPolicy") or ""
    orphans = options.get("orphanDependents")
    if "orphanDependents" in query:
        orphans = go_bool("orphanDependents", query.get("orphanDependents"))
    if orphans is not None and policy:
        raise BadRequest("orphanDependents and propagationPolicy cannot be both set: leave orphanDependents out")
    if orphans is not None:
        policy = "Orphan" if orphans else "Background"
    if policy not in ("", "Background", "Foreground", "Orphan"):
        raise BadRequest(f"propagationPolicy={policy!r} is not one of Background, Foreground, Orphan")
    preconditions = options.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        raise BadRequest("preconditions has to be an object with uid or resourceVersion")
    return {**options, "preconditions": preconditions, "propagationPolicy": policy}


def strict_error(resource: Resource, complaints: list[str]) -> BadRequest:
    """Return the error fieldValidation=Strict asks for."""
    return BadRequest(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
        f"strict decoding error: {', '.join(complaints)}"
    )


def complaints_or_warnings(resource: Resource, complaints: list[str], writing: Writing) -> list[str]:
    """Return the warnings to answer with. Raises BadRequest where the client wanted to be strict."""
    if complaints and writing.validation == "Strict":
        raise strict_error(resource, complaints)
    return complaints if writing.validation == "Warn" else []
