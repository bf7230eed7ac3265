"""Renderers: the media types of answers. REST framework chooses a renderer by the Accept header."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import orjson
import yaml
from rest_framework.renderers import BaseRenderer

from apps.api.answer import Answer, ListAnswer
from apps.api.clock import wall_now
from apps.api.table_rows import ROWS
from controlplane.wire.discovery import AGGREGATED_GROUP, content_type
from controlplane.wire.negotiate import JSON, YAML
from controlplane.wire.table import include_object_of

Document = dict[str, Any]


class FormRenderer(BaseRenderer):
    """Base of our renderers, for Answers. `convert` is the kind that objects are converted to, "" for none."""

    charset = None
    convert: ClassVar[str] = ""
    content_type: ClassVar[str] = ""  # of the answer; "": the media type of the renderer

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        answer = data if isinstance(data, Answer) else Answer(data)
        return self.encode(answer, renderer_context or {})

    def encode(self, answer: Answer, context: Mapping[str, Any]) -> bytes:
        raise NotImplementedError


class JSONRenderer(FormRenderer):
    """JSON: the stored bytes of the object. Clients that prefer protobuf or CBOR accept JSON as well."""

    media_type = JSON
    format = "json"

    def encode(self, answer: Answer, context: Mapping[str, Any]) -> bytes:
        return answer.text


class YAMLRenderer(FormRenderer):
    """YAML. The objects of a list are decoded one after the other, to save memory."""

    media_type = YAML
    format = "yaml"

    def encode(self, answer: Answer, context: Mapping[str, Any]) -> bytes:
        return b"".join(yaml_parts(answer))


class TableRenderer(FormRenderer):
    """Table: the rows and columns that kubectl prints."""

    media_type = f"{JSON};as=Table;v=v1;g=meta.k8s.io"
    format = "table"
    convert = "Table"
    content_type = JSON

    def encode(self, answer: Answer, context: Mapping[str, Any]) -> bytes:
        asked = context["request"].query_params.get("includeObject") if "request" in context else None
        now, include_object = wall_now(), include_object_of(asked)
        if type(answer) is ListAnswer and answer.read_beside is None and include_object == "Metadata":
            shown = ROWS.encoded(answer.resource, answer.texts, answer.list_meta, now=now)
            if shown is not None:
                return shown
        return orjson.dumps(answer.as_table(now=now, include_object=include_object))


class OldTableRenderer(TableRenderer):
    """Table under its former version v1beta1."""

    media_type = f"{JSON};as=Table;v=v1beta1;g=meta.k8s.io"
    format = "table-v1beta1"


class MetadataRenderer(FormRenderer):
    """PartialObjectMetadata: the metadata without the rest, as garbage collectors and caches read it."""

    media_type = f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    format = "metadata"
    convert = "PartialObjectMetadata"
    content_type = JSON

    def encode(self, answer: Answer, context: Mapping[str, Any]) -> bytes:
        return orjson.dumps(answer.as_metadata())


class MetadataListRenderer(MetadataRenderer):
    """PartialObjectMetadata of the items of a list."""

    media_type = f"{JSON};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    format = "metadata-list"


class DiscoveryRenderer(JSONRenderer):
    """Aggregated discovery. Clients require the full media type in the Content-Type of the answer."""

    media_type = content_type("v2")
    format = "discovery"
    convert = f"{AGGREGATED_GROUP}/v2"


class OldDiscoveryRenderer(JSONRenderer):
    """Aggregated discovery for clients before Kubernetes 1.30."""

    media_type = content_type("v2beta1")
    format = "discovery-v2beta1"
    convert = f"{AGGREGATED_GROUP}/v2beta1"


class _Dumper(yaml.CSafeDumper):
    """YAML as Kubernetes' tools write it: block style, and lists indented like their key."""


def _text(dumper: Any, value: str) -> Any:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def yaml_text(document: Document | list[Document]) -> str:
    """Return a document as YAML. The keys keep their order."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4096)
    return text


def yaml_parts(answer: Answer) -> Iterator[bytes]:
    """Yield an answer as YAML. A list is yielded object by object."""
    if not isinstance(answer, ListAnswer) or not answer.texts:
        yield yaml_text(answer.document).encode()
        return
    yield f"{yaml_text(answer.head)}items:\n".encode()
    for text in answer.texts:
        yield yaml_text([orjson.loads(text)]).encode()
