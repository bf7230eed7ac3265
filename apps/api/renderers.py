"""The forms an answer can take. REST framework's own negotiation picks one by the Accept header, in this order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import orjson
import yaml
from django.utils.html import escape
from rest_framework.renderers import BaseRenderer, BrowsableAPIRenderer

from apps.api.answer import Answer
from apps.api.clock import wall_now
from controlplane.wire.discovery import AGGREGATED_GROUP, content_type
from controlplane.wire.negotiate import JSON, YAML
from controlplane.wire.table import include_object_of

Document = dict[str, Any]


class FormRenderer(BaseRenderer):
    """Base of ours: `render` gets an Answer. `convert` names what the object is shown as, "" for itself."""

    charset = None
    convert: ClassVar[str] = ""
    content_type: ClassVar[str] = ""  # of the answer, where it is another than the one asked for

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        answer = data if isinstance(data, Answer) else Answer(data)
        return self.encode(answer, renderer_context or {})

    def encode(self, answer: Answer, context: Mapping[str, Any]) -> bytes:
        raise NotImplementedError


class JSONRenderer(FormRenderer):
    """The object itself, as the exact bytes that are stored. Protobuf and CBOR clients name JSON as well."""

    media_type = JSON
    format = "json"

    def encode(self, answer: Answer, context: Mapping[str, Any]) -> bytes:
        return answer.text


class YAMLRenderer(FormRenderer):
    """The object as YAML."""

    media_type = YAML
    format = "yaml"

    def encode(self, answer: Answer, context: Mapping[str, Any]) -> bytes:
        return yaml_text(answer.document).encode()


class TableRenderer(FormRenderer):
    """What kubectl prints: rows and columns."""

    media_type = f"{JSON};as=Table;v=v1;g=meta.k8s.io"
    format = "table"
    convert = "Table"
    content_type = JSON

    def encode(self, answer: Answer, context: Mapping[str, Any]) -> bytes:
        asked = context["request"].query_params.get("includeObject") if "request" in context else None
        return orjson.dumps(answer.as_table(now=wall_now(), include_object=include_object_of(asked)))


class OldTableRenderer(TableRenderer):
    """The same under its former name."""

    media_type = f"{JSON};as=Table;v=v1beta1;g=meta.k8s.io"
    format = "table-v1beta1"


class MetadataRenderer(FormRenderer):
    """Metadata alone: what garbage collectors and caches of big clusters read."""

    media_type = f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    format = "metadata"
    convert = "PartialObjectMetadata"
    content_type = JSON

    def encode(self, answer: Answer, context: Mapping[str, Any]) -> bytes:
        return orjson.dumps(answer.as_metadata())


class MetadataListRenderer(MetadataRenderer):
    """The same, as it is asked of lists."""

    media_type = f"{JSON};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    format = "metadata-list"


class DiscoveryRenderer(JSONRenderer):
    """Aggregated discovery; the answer's Content-Type is echoed, clients insist on it."""

    media_type = content_type("v2")
    format = "discovery"
    convert = f"{AGGREGATED_GROUP}/v2"


class OldDiscoveryRenderer(JSONRenderer):
    """Aggregated discovery as clients before 1.30 ask for it."""

    media_type = content_type("v2beta1")
    format = "discovery-v2beta1"
    convert = f"{AGGREGATED_GROUP}/v2beta1"


class PageRenderer(BrowsableAPIRenderer):
    """The browsable API: a page around the YAML of the answer, with forms for those who may write. Of Secrets it shows
    which keys there are, never a value."""

    format = "api"

    def get_default_renderer(self, view: Any) -> BaseRenderer:
        return YAMLRenderer()

    def get_context(self, data: Any, accepted_media_type: Any, renderer_context: Any) -> dict[str, Any]:
        """Offer the forms a browser may ask for: those with parameters have to be named in full."""
        context: dict[str, Any] = super().get_context(data, accepted_media_type, renderer_context)
        forms = renderer_context["view"].renderer_classes
        context["available_formats"] = [one.format for one in forms if ";" not in one.media_type]
        return context

    def get_content(self, renderer: Any, data: Any, accepted_media_type: Any, renderer_context: Any) -> str:
        answer = data if isinstance(data, Answer) else Answer(data)
        return escape(yaml_text(hidden(answer.document)))

    def get_raw_data_form(self, data: Any, view: Any, method: str, request: Any) -> Any:
        form = super().get_raw_data_form(data, view, method, request)
        if form is not None and isinstance(data, Answer) and method == "PUT":
            document = data.document
            if document.get("kind") == "Secret":
                return None
            form.fields["_content"].initial = yaml_text(without_bookkeeping(document))
        return form


class _Dumper(yaml.CSafeDumper):
    """YAML as Kubernetes' tools write it: block style, lists not indented less than their key."""


def _text(dumper: Any, value: str) -> Any:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def yaml_text(document: Document) -> str:
    """Return a document as YAML, keys in their order."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=4096)
    return text


def hidden(document: Document) -> Document:
    """Return a document for a page: values of Secrets, also inside lists, are replaced by their size."""
    if document.get("kind") in ("SecretList", "List"):
        return {**document, "items": [hidden({**item}) for item in document.get("items", ())]}
    if document.get("kind") != "Secret":
        return document
    shown = dict(document)
    for part in ("data", "stringData"):
        if isinstance(shown.get(part), dict):
            shown[part] = {key: f"({len(str(value))} characters, not shown)" for key, value in shown[part].items()}
    shown["metadata"] = _without_last_applied(shown.get("metadata") or {})
    return shown


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def _without_last_applied(metadata: Document) -> Document:
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    kept = {key: value for key, value in metadata.items() if key not in ("annotations", "managedFields")}
    return {**kept, "annotations": annotations} if annotations else kept


def without_bookkeeping(document: Document) -> Document:
    """Return a document as somebody edits it."""
    metadata = {key: value for key, value in document.get("metadata", {}).items() if key != "managedFields"}
    return {**document, "metadata": metadata}


OBJECTS = (
    TableRenderer,
    OldTableRenderer,
    MetadataRenderer,
    MetadataListRenderer,
    JSONRenderer,
    YAMLRenderer,
    PageRenderer,
)
DOCUMENTS = (DiscoveryRenderer, OldDiscoveryRenderer, JSONRenderer, YAMLRenderer, PageRenderer)
PLAIN = (JSONRenderer, YAMLRenderer, PageRenderer)
