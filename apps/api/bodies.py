"""Request bodies: decoding, checks against the URL, delete options, and complaints about unknown fields."""

from __future__ import annotations

from typing import Any, NamedTuple

from rest_framework.request import Request

from apps.api.query import Writing, writing_of
from apps.api.target import Target
from controlplane.apimachinery.errors import BadRequest, Invalid, TooLarge
from controlplane.kind import Kind
from controlplane.wire import builtin, document_check, protobuf, request
from controlplane.wire.body import MAX_BYTES, decode_body
from controlplane.wire.negotiate import go_bool, media_type_of
from controlplane.wire.prune import validate_fields
from controlplane.wire.resource import Resource

Document = dict[str, Any]

UNSAFE = "ignoreStoreReadErrorWithClusterBreakingPotential"  # of DeleteOptions


class DecodedBody(NamedTuple):
    """A decoded body. `duplicates` are messages about keys that occur twice."""

    document: Document
    duplicates: list[str]


def decode(content_type: str | None, raw: bytes) -> DecodedBody:
    """Return the object in a JSON, YAML or protobuf body. Raises a 4xx StatusError."""
    if len(raw) > MAX_BYTES:
        raise TooLarge(f"the body has {len(raw)} bytes, the limit is {MAX_BYTES}")
    if media_type_of(content_type) == protobuf.MEDIA_TYPE:
        return DecodedBody(protobuf.decode(raw), [])
    duplicates: list[str] = []
    return DecodedBody(decode_body(content_type, raw, duplicates=duplicates), duplicates)


def name_of(body: DecodedBody) -> str:
    """Return the name of the object in a body. For generateName `web-` this is `web-*`. "": the body has no name."""
    metadata = body.document.get("metadata")
    if not isinstance(metadata, dict):
        return ""
    prefix = metadata.get("generateName")
    return str(metadata.get("name") or (f"{prefix}*" if prefix else ""))


def about(target: Target, document: Document) -> Document:
    """Return the document completed from the URL (kind, namespace, name). Raises BadRequest if they contradict."""
    resource = target.resource
    return request.complete_from_url(
        document, resource, namespace=target.namespace if resource.namespaced else "", name=target.name
    )


def delete_options(content_type: str | None, raw: bytes, query: Any) -> Document:
    """Return the DeleteOptions of the body and the query. The query wins.

    Raises Invalid for a field of the body with a wrong type, and BadRequest for impossible options.
    """
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
        raise BadRequest("orphanDependents and propagationPolicy cannot both be set: remove orphanDependents")
    if orphans is not None:
        policy = "Orphan" if orphans else "Background"
    if policy not in ("", "Background", "Foreground", "Orphan"):
        raise BadRequest(f"propagationPolicy={policy!r} is not one of Background, Foreground, Orphan")
    preconditions = options.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        raise BadRequest("preconditions must be an object with uid or resourceVersion")
    if UNSAFE in query:
        options[UNSAFE] = go_bool(UNSAFE, query.get(UNSAFE))
    return {**options, "preconditions": preconditions, "propagationPolicy": policy}


def strict_error(resource: Resource, complaints: list[str]) -> BadRequest:
    """Return the error for complaints under fieldValidation=Strict."""
    return BadRequest(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
        f"strict decoding error: {', '.join(complaints)}"
    )


def complaints_or_warnings(resource: Resource, complaints: list[str], writing: Writing) -> list[str]:
    """Return the complaints as warnings, none for fieldValidation=Ignore. Raises BadRequest for Strict."""
    if complaints and writing.validation == "Strict":
        raise strict_error(resource, complaints)
    return complaints if writing.validation == "Warn" else []


def question(sent: Request, kind: Kind) -> tuple[dict[str, Any], list[str]]:
    """Return the document in the body of a request that is only answered, and warnings about its fields.

    Raises BadRequest.
    """
    writing = writing_of(sent.query_params, user_agent=sent.headers.get("User-Agent", ""))
    document, duplicates = decode(sent.content_type, sent.body)
    if not isinstance(document, dict):
        raise BadRequest(f"the body must be an object of kind {kind.resource.kind}")
    unknown = [] if writing.validation == "Ignore" else validate_fields(document, kind.schema())
    return document, complaints_or_warnings(kind.resource, [*duplicates, *unknown], writing)
