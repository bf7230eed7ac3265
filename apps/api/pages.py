"""The browsable API: HTML pages of limited size, with forms for users who may write.

A list is the rows that kubectl prints, with links to the objects. Other answers are shown as YAML.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.urls import reverse
from django.utils.html import escape
from rest_framework.exceptions import APIException
from rest_framework.permissions import SAFE_METHODS
from rest_framework.renderers import BaseRenderer, BrowsableAPIRenderer

from apps.api.answer import Answer, ListAnswer, ObjectAnswer
from apps.api.clock import wall_now
from apps.api.deletion import deletion_effects
from apps.api.form_texts import beginning
from apps.api.places import Link, crumbs, list_url, title_of
from apps.api.related import related
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
from apps.objects.masks import masked
from apps.objects.store import store
from controlplane.apimachinery.errors import StatusError
from controlplane.kinds import CLUSTER

KUBECTL = "kubectl_line"  # attribute of a request that was refused: the command that does the same
MAX_TEXT = 512 * 1024  # characters of YAML on a page


class PageRenderer(BrowsableAPIRenderer):
    """An HTML page that shows an answer. It shows the keys of a Secret and never the values.

    The page of an object offers its deletion and names the effects. The page of a list offers no deletion, because
    DELETE there deletes all objects of the list.
    """

    format = "api"
    template = "api/page.html"

    def get_default_renderer(self, view: Any) -> BaseRenderer:
        return YAMLRenderer()

    def get_name(self, view: Any) -> str:
        return title_of(view.request.path)

    def get_breadcrumbs(self, request: Any) -> list[Link]:  # type: ignore[override]  # more than name and URL
        return crumbs(request.path)

    def get_description(self, view: Any, status_code: int) -> str:
        return ""  # the docstrings of views are written for developers

    def get_context(self, data: Any, accepted_media_type: Any, renderer_context: Any) -> dict[str, Any]:
        """Return the variables of the template. Formats whose media type has parameters are not offered as links."""
        answer = data if isinstance(data, Answer) else Answer(data)
        self.notes: list[str] = []
        view, paginator = renderer_context["view"], getattr(renderer_context["view"], "paginator", None)
        if isinstance(answer, ListAnswer) and paginator is not None:
            paginator.show(answer, renderer_context["request"])
        context: dict[str, Any] = super().get_context(answer, accepted_media_type, renderer_context)
        context["available_formats"] = [form.format for form in view.renderer_classes if ";" not in form.media_type]
        target = getattr(view, "target", None)
        may_delete = context.pop("delete_form", None) is not None
        if may_delete and target is not None and target.name and not target.subresource:
            context["deleted"] = _named(target)
            context["effects"] = deletion_effects(store(), target.kind, target.ref)
        if isinstance(answer, ListAnswer):
            context["table"] = rows_of(answer)
        elif isinstance(answer, ObjectAnswer) and target is not None and not target.subresource:
            context["related"] = related(target.kind.key, answer.document)
        context["notes"] = self.notes
        context["kubectl"] = getattr(renderer_context["request"], KUBECTL, "")
        context["watching"] = watching(renderer_context["request"], renderer_context["response"].status_code, target)
        return context

    def show_form_for_method(self, view: Any, method: str, request: Any, obj: Any) -> bool:
        """Test whether the page offers a form: only where the view takes the method and the user may use it."""
        try:
            return bool(super().show_form_for_method(view, method, request, obj))
        except (APIException, StatusError):
            return False

    def get_rendered_html_form(self, data: Any, view: Any, method: str, request: Any) -> Any:
        """Return a form. None: the user may not use the method."""
        try:
            return super().get_rendered_html_form(data, view, method, request)
        except (APIException, StatusError):
            return None

    def get_content(self, renderer: Any, data: Any, accepted_media_type: Any, renderer_context: Any) -> str:
        if isinstance(data, ListAnswer):
            return ""  # shown as a table
        text = yaml_text(hidden(data.document))
        if len(text) > MAX_TEXT:
            self.notes.append(
                f"The first {MAX_TEXT} of {len(text)} characters are shown. "
                "Add format=yaml to the query to get all of them."
            )
        return escape(text[:MAX_TEXT])

    def get_raw_data_form(self, data: Any, view: Any, method: str, request: Any) -> Any:
        form = super().get_raw_data_form(data, view, method, request)
        if form is not None and method == "POST":
            form.fields["_content"].initial = beginning(request.path, getattr(view, "target", None), now=wall_now())
        if form is not None and isinstance(data, Answer) and method == "PUT":
            document = data.document
            if hidden(document) is not document:
                return None
            text = yaml_text(without_bookkeeping(document))
            if len(text) > MAX_TEXT:
                self.notes.append(f"The object has more than {MAX_TEXT} characters; edit it with kubectl.")
                return None
            form.fields["_content"].initial = text
        return form


class Rows(NamedTuple):
    """A list as kubectl prints it: the names of the columns, and the cells of each object. The name is a link."""

    columns: list[str]
    rows: list[list[Link]]


def rows_of(answer: ListAnswer) -> Rows:
    """Return a list as rows: the name first, after the namespace in a list of several namespaces."""
    shown = answer.as_table(now=wall_now(), include_object="Metadata")
    definitions = list(enumerate(shown["columnDefinitions"]))
    kept = [(number, column["name"]) for number, column in definitions if not column["priority"]]
    kept = [(number, name) for number, name in kept if name not in ("Name", "Namespace")]
    found = [(row["object"]["metadata"], row["cells"]) for row in shown["rows"]]
    several = len({metadata.get("namespace", "") for metadata, _ in found}) > 1
    rows = []
    for metadata, cells in found:
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        first = [Link(namespace, "")] if several else []
        first.append(Link(name, f"{list_url(answer.resource, namespace=namespace)}/{name}"))
        rows.append(first + [Link("" if cells[number] is None else str(cells[number]), "") for number, _ in kept])
    return Rows([*(["Namespace"] if several else []), "Name", *(name for _, name in kept)], rows)


def watching(request: Any, status: int, target: Target | None) -> list[Link]:
    """Return links to the pages that show what a write does to workloads; []: no write was confirmed with a reason."""
    if status >= 400 or request.method in SAFE_METHODS or not request.query_params.get("reason", "").strip():
        return []
    found = [
        Link("Situation", reverse("console:situation")),
        Link("Queue", reverse("console:queue")),
        Link("Records", reverse("console:records")),
    ]
    if target is not None and target.kind.key == CLUSTER and target.name and request.method != "DELETE":
        found.insert(0, Link(f"Cluster {target.name}", reverse("console:cluster", kwargs={"name": target.name})))
    return found


def _named(target: Target) -> str:
    """Return the kind, name and namespace of an object as text: "ConfigMap settings of namespace shop"."""
    inside = f" of namespace {target.namespace}" if target.namespace else ""
    return f"{target.resource.kind} {target.name}{inside}"


def hidden(document: Document) -> Document:
    """Return a document without the values of Secrets: of one, of those in a list, and of those that a Work carries.

    The same document if it has none.
    """
    if document.get("kind") in ("SecretList", "List"):
        return {**document, "items": [hidden({**item}) for item in document.get("items", ())]}
    if document.get("kind") != "Secret":
        return masked(document)
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
    """Return a document without managedFields, for the edit form."""
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
