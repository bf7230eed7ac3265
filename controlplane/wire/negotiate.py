"""Which representation a request asks for: media types with parameters, and booleans as Go reads them."""

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
    """A form an answer can take. `convert` is "" for the object itself, or Table, PartialObjectMetadata,
    APIGroupDiscoveryList; then `group` and `version` say whose."""

    media_type: str = JSON
    convert: str = ""
    group: str = ""
    version: str = ""

    @property
    def content_type(self) -> str:
        """Return the Content-Type of the answer; the aggregated discovery clients insist on seeing theirs echoed."""
        if self.convert == "APIGroupDiscoveryList":
            return f"{self.media_type};g={self.group};v={self.version};as={self.convert}"
        return self.media_type


OBJECT = Representation()
# What objects and lists can be shown as; discovery offers DISCOVERY instead.
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
    """Return the first representation the Accept header wants and we have, by quality and then by order.

    Protobuf and CBOR are passed over, because every Kubernetes client that prefers them names JSON as well.
    Raises NotAcceptable where nothing fits.
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
    found.sort(key=lambda item: -item[0])  # stable, so equal quality keeps the header's order
    return [(media_type, parameters) for _, media_type, parameters in found]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def media_type_of(content_type: str | None) -> str:
    """Return the bare media type of a Content-Type header; a missing one means JSON, as the API server takes it."""
    return (content_type or JSON).partition(";")[0].strip().lower() or JSON


def go_bool(name: str, text: str | None, *, default: bool = False) -> bool:
    """Return a query parameter as Go's ParseBool reads it; `?watch` without a value means true.

    Raises BadRequest naming the parameter and the words it takes.
    """
    if text is None:
        return default
    if text == "" or text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise BadRequest(f"query parameter {name}={text!r} is not a boolean; write true or false")
