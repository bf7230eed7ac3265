"""The browsable API: pages of bounded size around the YAML of answers, with forms for those who may write."""

from __future__ import annotations

from typing import Any

import msgspec
from django.utils.html import escape
from rest_framework.renderers import BaseRenderer, BrowsableAPIRenderer
from rest_framework.request import Request
from rest_framework.utils.urls import replace_query_param

from apps.api.answer import Answer, Many
from apps.api.deletion import goes_along
from apps.api.query import Listing
from apps.api.renderers import (
    DiscoveryRenderer,
    Document,
    JSONRenderer,
    MetadataListRenderer,
    MetadataRenderer,
    OldDiscoveryRenderer,
    OldTableRenderer,
    TableRenderer,
    YAMLRenderer,
    yaml_text,
)
from apps.api.target import Target
from apps.objects.store import store
from controlplane.apimachinery.errors import StatusError

ROWS = 100  # objects on a page of a list
MAX_TEXT = 512 * 1024  # characters of YAML on a page: a browser gets a form and links for each of them


class PageRenderer(BrowsableAPIRenderer):
    """A page around the YAML of the answer. Of Secrets it shows which keys there are, never a value.

    A list offers no deletion: DELETE there means all objects of the list. The page of one object names the object, and
    what goes with it.
    """

    format = "api"
    template = "api/page.html"

    def get_default_renderer(self, view: Any) -> BaseRenderer:
        return YAMLRenderer()

    def get_context(self, data: Any, accepted_media_type: Any, renderer_context: Any) -> dict[str, Any]:
        """Offer the forms a browser may ask for: those with parameters have to be named in full."""
        answer = data if isinstance(data, Answer) else Answer(data)
        self.notes: list[str] = []
        context: dict[str, Any] = super().get_context(answer, accepted_media_type, renderer_context)
        forms, request = renderer_context["view"].renderer_classes, renderer_context["request"]
        context["available_formats"] = [one.format for one in forms if ";" not in one.media_type]
        target = getattr(renderer_context["view"], "target", None)
        may_delete = context.pop("delete_form", None) is not None
        if may_delete and target is not None and target.name and not target.subresource:
            context["deleted"] = _named(target)
            context["goes_along"] = goes_along(store(), target.kind, target.ref)
        if isinstance(answer, Many):
            context["shown"] = len(answer.texts)
            context["remaining"] = answer.list_meta.get("remainingItemCount", 0)
            if token := answer.list_meta.get("continue"):
                context["next_page"] = replace_query_param(request.get_full_path(), "continue", token)
        context["notes"] = self.notes
        return context

    def show_form_for_method(self, view: Any, method: str, request: Any, obj: Any) -> bool:
        """Test whether the page offers a form: only where the view takes the method and the user may use it."""
        try:
            return bool(super().show_form_for_method(view, method, request, obj))
        except StatusError:
            return False

    def get_content(self, renderer: Any, data: Any, accepted_media_type: Any, renderer_context: Any) -> str:
        text = self._list(data) if isinstance(data, Many) else yaml_text(hidden(data.document))
        if len(text) > MAX_TEXT:
            self.notes.append(
                f"The first {MAX_TEXT} of {len(text)} characters are shown; format=yaml in the query gets all of it."
            )
        return escape(text[:MAX_TEXT])

    def _list(self, answer: Many) -> str:
        """Return a list as YAML, one object after the other, up to about MAX_TEXT characters."""
        parts, size = [yaml_text(answer.head)], 0
        for number, item in enumerate(answer.decoded()):
            if size > MAX_TEXT:
                left = len(answer.texts) - number
                self.notes.append(f"{left} large objects of this page are not shown; ask for fewer: limit={number}.")
                break
            parts.append(yaml_text([hidden(item)]))
            size += len(parts[-1])
        return "".join((parts[0], "items:\n" if len(parts) > 1 else "items: []\n", *parts[1:]))[: MAX_TEXT + 1]

    def get_raw_data_form(self, data: Any, view: Any, method: str, request: Any) -> Any:
        form = super().get_raw_data_form(data, view, method, request)
        if form is not None and isinstance(data, Answer) and method == "PUT":
            document = data.document
            if document.get("kind") == "Secret":
                return None
            text = yaml_text(without_bookkeeping(document))
            if len(text) > MAX_TEXT:
                self.notes.append(f"The object has more than {MAX_TEXT} characters; edit it with kubectl.")
                return None
            form.fields["_content"].initial = text
        return form


def _named(target: Target) -> str:
    """Return kind, namespace and name, as a person reads them."""
    inside = f" of namespace {target.namespace}" if target.namespace else ""
    return f"{target.resource.kind} {target.name}{inside}"


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


def bounded(asked: Listing, request: Request) -> Listing:
    """Return how to list for this request: a page in a browser has at most ROWS objects, and a link to the next."""
    in_browser = isinstance(getattr(request, "accepted_renderer", None), PageRenderer)
    return msgspec.structs.replace(asked, limit=min(asked.limit or ROWS, ROWS)) if in_browser else asked
