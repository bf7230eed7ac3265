"""The representation that a request asks for by its Accept header, and booleans in query parameters."""

from __future__ import annotations

import msgspec

from controlplane.apimachinery.errors import BadRequest, NotAcceptable

JSON = "application/json"
YAML = "application/yaml"

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_ANY_JSON = frozenset((JSON, "*/*", "application/*"))
_ANY_YAML = frozenset((YAML, "application/x-yaml", "text/yaml"))
_SINGLE = {"PartialObjectMetadataList": "PartialObjectMetadata"}


class Representation(msgspec.Struct, frozen=True):
    """A representation of an answer.

    convert: "" for the object itself, else the kind it is converted to: Table, PartialObjectMetadata,
    PartialObjectMetadataList or APIGroupDiscoveryList; `group` and `version` belong to that kind.
    """

    media_type: str = JSON
    convert: str = ""
    group: str = ""
    version: str = ""

    @property
    def content_type(self) -> str:
        """Return the Content-Type of the answer. For aggregated discovery it has the parameters that clients check."""
        if self.convert == "APIGroupDiscoveryList":
            return f"{self.media_type};g={self.group};v={self.version};as={self.convert}"
        return self.media_type


OBJECT = Representation()
# The representations of objects and lists. Discovery documents offer DISCOVERY instead.
OBJECTS = frozenset(
    [("", "", "")]
    + [
        (convert, "meta.k8s.io", version)
        for convert in ("Table", "PartialObjectMetadata")
        for version in ("v1", "v1beta1")
    ]
)
DISCOVERY = frozenset(
    [("", "", "")] + [("APIGroupDiscoveryList", "apidiscovery.k8s.io", version) for version in ("v2", "v2beta1")]
)


def representation(accept: str | None, *, offered: frozenset[tuple[str, str, str]] = OBJECTS) -> Representation:
    """Return the offered representation that the Accept header prefers: by quality, then by order.

    Protobuf and CBOR are not offered. Every Kubernetes client that prefers them accepts JSON too.
    Raises NotAcceptable if no offered representation is accepted.
    """
    if not accept or not accept.strip():
        return OBJECT
    for media_type, parameters in _by_quality(accept):
        if media_type in _ANY_JSON:
            plain = JSON
        elif media_type in _ANY_YAML:
            plain = YAML
        else:
            continue
        convert = parameters.get("as", "")
        convert = _SINGLE.get(convert, convert)
        wanted = (convert, parameters.get("g", ""), parameters.get("v", "")) if convert else ("", "", "")
        if wanted in offered:
            return Representation(plain, *wanted)
    raise NotAcceptable(
        f"Accept {accept!r} names nothing this URL can answer with; ask for {JSON} or {YAML}",
    )


def _by_quality(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Return the media types of an Accept header with their parameters, the preferred first."""
    found = []
    for part in accept.split(","):
        media_type, *pieces = (piece.strip() for piece in part.split(";"))
        parameters = {}
        for piece in pieces:
            key, _, value = piece.partition("=")
            parameters[key.strip().lower()] = value.strip().strip('"')
        quality = _quality(parameters.pop("q", "1"))
        if quality > 0:
            found.append((quality, media_type.lower(), parameters))
    found.sort(key=lambda item: -item[0])  # a stable sort: entries of the same quality keep their order
    return [(media_type, parameters) for _, media_type, parameters in found]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def media_type_of(content_type: str | None) -> str:
    """Return the media type of a Content-Type header without parameters. A missing header means JSON."""
    return (content_type or JSON).partition(";")[0].strip().lower() or JSON


def go_bool(name: str, text: str | None, *, default: bool = False) -> bool:
    """Return the boolean value of a query parameter, as Go's ParseBool reads it. `?watch` without a value is true.

    text: None if the parameter is missing. Raises BadRequest for any other value.
    """
    if text is None:
        return default
    if text == "" or text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise BadRequest(f"query parameter {name}={text!r} is not a boolean; write true or false")
