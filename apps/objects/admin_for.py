"""The admin of stored objects: lists from columns, objects as YAML to edit, writes through admission and apply.

Roles and bindings decide what staff may see and write, as in the API. Their writes go through the same checks as writes
of kubectl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar
from urllib.parse import parse_qs

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet, prefetch_related_objects
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import urlencode

from apps.objects import edits, history
from apps.objects.access import check_grant, may
from apps.objects.admin_guard import Question, confirmed, show_where_to_watch
from apps.objects.admin_permissions import KindPermissions, allowed
from apps.objects.changelist import PER_PAGE, CappedPaginator, RowsPage, choices, is_key, search_objects
from apps.objects.conditions import conditions_of
from apps.objects.definitions import definitions
from apps.objects.edits import Document, Edited
from apps.objects.examples import example_of
from apps.objects.forms import DocumentForm
from apps.objects.kubectl_lines import delete_line, write_line
from apps.objects.masks import masked
from apps.objects.models import StoredObject
from apps.objects.store import store
from apps.objects.widgets import Actions
from apps.objects.yaml_text import edited, to_yaml
from controlplane.apimachinery.errors import BadRequest, NotFound, StatusError
from controlplane.apimachinery.meta import Object, Ref
from controlplane.kind import KINDS, Kind
from controlplane.kinds import EVENT
from controlplane.wire.table import Beside, table

SHOWN_CHANGES, SHOWN_EVENTS, SHOWN_NAMES = 20, 10, 100
_AT_ONCE = 500  # objects that are deleted with one call


class ObjectAdmin(KindPermissions, admin.ModelAdmin):
    """Lists, shows and edits the objects of one table."""

    model: type[StoredObject]
    list_display: Any = ("__str__",)
    actions: Any = ("delete_selected",)
    note = ""  # shown above the list
    action_form = Actions
    paginator = CappedPaginator
    list_per_page = PER_PAGE
    show_full_result_count = False
    ordering: ClassVar[Any] = ("kind", "namespace", "name")
    search_fields = ("name",)
    search_help_text = "part of a name or namespace, namespace/name, or a label: app=web"
    change_list_template = "admin/objects/list.html"

    class Media:
        css: ClassVar = {"all": ["lifeboat/admin.css"]}

    # The list

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[RowsPage]:
        return RowsPage

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        return rows.filter(kind__in=self.listed(request))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return search_objects(queryset.defer(*self.unlisted), search_term), False

    unlisted: ClassVar[tuple[str, ...]] = ("doc", "keys", "labels")  # large columns that lists do not read

    relations: ClassVar[tuple[str, ...]] = ()  # relations that the columns of the list show

    def attach(self, rows: Sequence[Any]) -> None:
        """Read the relations that the list shows: one query per relation for all rows of the page."""
        prefetch_related_objects(rows, *self.relations)

    @admin.action(description="Delete selected", permissions=["delete"])
    def delete_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Show which objects were selected and ask for confirmation; when confirmed, delete them through apply."""
        refs = list(_refs(queryset.order_by(*self.ordering)))
        if not refs:  # the form was sent again, or another user was faster
            self.message_user(request, "None of the chosen objects exists any more.", messages.WARNING)
            return None
        shown = [", ".join(map(str, refs[:SHOWN_NAMES])) + (" and more" if len(refs) > SHOWN_NAMES else "")]
        try:
            reason = self._confirmed_deletion(request, refs, f"Delete these {len(refs)} objects?", "delete", shown)
        except StatusError as error:
            self.message_user(request, error.message, messages.ERROR)
            return None
        if isinstance(reason, HttpResponse):
            return reason
        self._report_removed(request, *self._delete(refs, request, reason))
        return None

    def _confirmed_deletion(
        self, request: HttpRequest, refs: Sequence[Ref], title: str, subject: str, facts: Sequence[str]
    ) -> str | HttpResponse:
        """Return the reason of a deletion, or the page that asks for it. Raises StatusError if it would be refused."""
        if not all(allowed(request, "delete", ref) for ref in refs):
            raise PermissionDenied
        by = edits.By(request.user.get_username(), dry_run=True)
        finalized = "An object with finalizers is marked for deletion, and removed when its finalizers are done."
        more = [f"The dry run is that of the first {_AT_ONCE} objects."] if len(refs) > _AT_ONCE else []
        question = Question(
            title=title,
            button="Yes, delete it" if len(refs) == 1 else "Yes, delete them",
            subject=subject,
            kubectl=delete_line(refs),
            trial=lambda: edits.remove(refs[:_AT_ONCE], by).preview,
            facts=(*facts, finalized, *more),
            always=True,
            chosen=map(str, refs),
        )
        return confirmed(question, request, self._context(request))

    def _delete(self, refs: Iterable[Ref], request: HttpRequest, reason: str) -> tuple[int, int]:
        gone = waiting = 0
        batch: list[Ref] = []
        for ref in (*refs, None):
            if ref is not None:
                if not allowed(request, "delete", ref):
                    raise PermissionDenied
                batch.append(ref)
            if batch and (ref is None or len(batch) == _AT_ONCE):
                try:
                    removed = edits.remove(batch, edits.By(request.user.get_username(), reason))
                except StatusError as error:
                    self.message_user(request, error.message, messages.ERROR)
                    break
                for warning in removed.warnings:
                    self.message_user(request, warning, messages.WARNING)
                gone, waiting, batch = gone + len(removed.gone), waiting + len(removed.waiting), []
        return gone, waiting

    def _report_removed(self, request: HttpRequest, gone: int, waiting: int) -> None:
        if gone:
            self.message_user(request, f"Deleted: {gone}.", messages.SUCCESS)
        if gone or waiting:
            show_where_to_watch(request)
        if waiting:
            text = f"Marked for deletion: {waiting}. An object is removed when the last of its finalizers is done."
            self.message_user(request, text, messages.WARNING)

    # One object

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        # Django's own view works inside a transaction, and apply must begin and end its own.
        if object_id is None:
            return self._add_page(request)
        try:
            return self._object_page(request, object_id)
        except NotFound as error:  # deleted while the page was made
            raise Http404(error.message) from error

    def _add_page(self, request: HttpRequest) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = DocumentForm(request.POST or None, initial={"document": self._beginning(request)})
        if request.method == "POST":
            answer = self._written(request, form, lambda document, by: self._create(document, request, by), is_new=True)
            if isinstance(answer, HttpResponse):
                return answer
            if answer is not None:
                return self._saved(request, answer, "created")
        title = f"Add {self.opts.verbose_name}"
        return self._render(request, "admin/objects/document.html", {"title": title, "form": form, "is_new": True})

    def _object_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row = self._row(request, object_id)
        ref = _ref(row)
        form = None
        if self.has_change_permission(request, row):
            form = DocumentForm(request.POST or None)
            if request.method == "POST":
                answer = self._written(request, form, partial(self._change, ref, form), is_new=False)
                if isinstance(answer, HttpResponse):
                    return answer
                if answer is not None:
                    return self._saved(request, answer, "saved")
        elif request.method == "POST":
            raise PermissionDenied
        shown = self._facts(row)
        if form is not None:
            version = shown["metadata"]["resourceVersion"]
            form.initial = {"document": shown["manifest"], "basis": version}
            if form.is_conflict:
                form.rebase(version)
        shown |= {"title": str(row), "form": form, "can_delete": self.has_delete_permission(request, row)}
        return self._render(request, "admin/objects/document.html", {**shown, **self.more(request, row)})

    def more(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return what the page of an object shows its reader: `links` (text, URL) and `buttons` (text, URL to POST)."""
        return {"links": [], "buttons": []}

    def _written(
        self,
        request: HttpRequest,
        form: DocumentForm,
        write: Callable[[Document, edits.By], Edited],
        *,
        is_new: bool,
    ) -> Edited | HttpResponse | None:
        """Return the stored object, the page that asks to confirm a dangerous write, or None: the form has errors."""
        by = edits.By(request.user.get_username(), restrict=partial(check_grant, request.user))
        tried = form.write(lambda document: write(document, by._replace(dry_run=True)))
        if tried is None:
            return None
        ref = tried.stored.ref
        question = Question(
            title=f"Save {ref}?",
            button="Save it",
            subject=ref.name,
            kubectl=write_line(edits.parse(form.cleaned_data["document"]), is_new=is_new),
            trial=lambda: tried.preview,
        )
        reason = confirmed(question, request, self._context(request))
        if isinstance(reason, HttpResponse):
            return reason
        written = form.write(lambda document: write(document, by._replace(reason=reason)))
        if written is not None and reason:
            show_where_to_watch(request)
        return written

    def _create(self, document: Document, request: HttpRequest, by: edits.By) -> Edited:
        kind = edits.kind_of(document)
        if KINDS[kind.key] not in (accepted := kinds_in(self.model)):
            names = ", ".join(item.resource.kind for item in accepted)
            raise BadRequest(f"this page adds objects of the kinds {names}, and not {kind.resource.kind}")
        if not isinstance(metadata := document.get("metadata", {}), dict):
            raise BadRequest("metadata must be an object with a name")
        # The namespace that a manifest of a cluster-scoped kind names is left out, so rights there do not count.
        named = str(metadata.get("namespace") or "") if kind.resource.namespaced else ""
        if not may(request.user, "create", kind, namespace=named):
            raise PermissionDenied
        return edits.create(document, by)

    def _change(self, ref: Ref, form: DocumentForm, document: Document, by: edits.By) -> Edited:
        return edits.change(ref, document, by, basis=form.cleaned_data["basis"] or 0)

    def _saved(self, request: HttpRequest, done: Edited, how: str) -> HttpResponse:
        for warning in done.warnings:
            self.message_user(request, warning, messages.WARNING)
        version = done.stored.metadata.resource_version
        self.message_user(request, f"{done.stored.ref} {how} at resourceVersion {version}.", messages.SUCCESS)
        row = self.model._default_manager.filter(**_where(done.stored.ref)).only("pk").first()
        if row is None or "_save" in request.POST:
            return HttpResponseRedirect(self.url("changelist"))
        return HttpResponseRedirect(self.url("change", row.pk))

    def beside(self) -> Beside | None:
        """Return what columns show and the objects do not contain. None: nothing."""
        return None

    def _facts(self, row: Any) -> dict[str, Any]:
        """Return what the page of an object shows, with the values of Secrets hidden, so that no template gets them."""
        definitions().refresh()
        ref = _ref(row)
        document = masked(edits.document_of(_shown(ref)))
        kind = KINDS.get(ref.kind)
        columns: list[tuple[str, Any]] = []
        if kind is not None:
            now, beside = store().now(), self.beside()
            shown = table(kind.resource, [document], now=now, include_object="None", beside=beside)
            names = [column["name"] for column in shown["columnDefinitions"]]
            columns = list(zip(names, shown["rows"][0]["cells"], strict=True))
        uid = document["metadata"].get("uid", "")
        return {
            "original": row,
            "ref": ref,
            "columns": columns,
            "conditions": conditions_of(document),
            "metadata": document["metadata"],
            "manifest": to_yaml(edited(document)),
            "status": to_yaml(document["status"]) if document.get("status") else "",
            "changes": history.timeline([ref], limit=SHOWN_CHANGES),
            "events": history.events_about(uid, limit=SHOWN_EVENTS) if uid and ref.kind != EVENT else [],
            "api_path": _api_path(kind, ref) if kind is not None else "",
        }

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        row = self._row(request, object_id)
        if not self.has_delete_permission(request, row):
            raise PermissionDenied
        ref = _ref(row)
        facts = [f"{ref} will be deleted, as with kubectl delete. Its controllers clean up after it."]
        if finalizers := edits.stored(ref).metadata.finalizers:
            facts.append(f"Its finalizers are {', '.join(finalizers)}.")
        try:
            reason = self._confirmed_deletion(request, [ref], f"Delete {row}?", ref.name, facts)
        except StatusError as error:
            self.message_user(request, error.message, messages.ERROR)
            return HttpResponseRedirect(self.url("changelist"))
        if isinstance(reason, HttpResponse):
            return reason
        self._report_removed(request, *self._delete([ref], request, reason))
        return HttpResponseRedirect(self.url("changelist"))

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        ref = _ref(self._row(request, object_id))
        return HttpResponseRedirect(f"{reverse('admin:objects_changelog_changelist')}?{urlencode({'q': str(ref)})}")

    # Shared by the pages

    def _row(self, request: HttpRequest, object_id: str) -> Any:
        row = self.get_queryset(request).filter(pk=object_id).first() if is_key(object_id) else None
        if row is None:
            raise Http404(f"no {self.opts.verbose_name} has the id {object_id}")
        if not self.has_view_permission(request, row):
            raise PermissionDenied
        return row

    def _beginning(self, request: HttpRequest) -> str:
        """Return the manifest that the page for a new object shows first, of the kind by which the list is filtered."""
        filtered = parse_qs(request.GET.get("_changelist_filters", ""))
        wanted = filtered.get("kind", [""])[0]
        kinds = kinds_in(self.model)
        kind = next((item for item in kinds if item.key == wanted), kinds[0])
        return example_of(kind, now=store().now())

    def _render(self, request: HttpRequest, template: str, shown: dict[str, Any]) -> HttpResponse:
        return TemplateResponse(request, template, {**self._context(request), **shown})

    def _context(self, request: HttpRequest) -> dict[str, Any]:
        """Return what every page of this admin gets."""
        site = self.admin_site.each_context(request)
        return {**site, "opts": self.opts, "media": self.media, "list_url": self.url("changelist")}

    def url(self, page: str, *arguments: Any) -> str:
        """Return the URL of one of this admin's pages."""
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_{page}", args=arguments)


def admin_for(
    model: type[StoredObject], *, page: type[ObjectAdmin] = ObjectAdmin, filters: Sequence[Any] = ()
) -> type[ObjectAdmin]:
    """Return the admin class of a table: `page`, with list columns and filters made from the kinds in the table.

    Columns that `page` declares itself are kept.
    """
    kinds = kinds_in(model)
    several = len(kinds) > 1
    made: dict[str, Any] = {"__module__": page.__module__}
    if page.list_display is ObjectAdmin.list_display:
        names = ["kind"] if several else []
        names += ["namespace"] if any(kind.resource.namespaced for kind in kinds) else []
        made |= {"list_display": (*names, "name", *model.projections, "created_at"), "list_display_links": ("name",)}
    by_kind = [choices("kind", "kind", lambda: _by_name(model))] if several else []
    made["list_filter"] = (*by_kind, *filters)
    return type(f"{model.__name__}Admin", (page,), made)


def kinds_in(model: type[StoredObject]) -> list[Kind]:
    """Return the kinds whose objects a table keeps, kinds defined by users included."""
    return [kind for kind in KINDS if kind.table == model._meta.label]


def _by_name(model: type[StoredObject]) -> list[tuple[str, str]]:
    return sorted(((kind.key, kind.resource.kind) for kind in kinds_in(model)), key=lambda choice: choice[1])


def _ref(row: Any) -> Ref:
    return Ref(row.kind, row.namespace, row.name)


def _refs(rows: QuerySet[Any]) -> Iterable[Ref]:
    return (Ref(*found) for found in rows.values_list("kind", "namespace", "name"))


def _shown(ref: Ref) -> Object:
    """Return an object as its definition shows it now; as it is stored, if its conversion webhook does not answer."""
    stored = edits.stored(ref)
    try:
        return edits.shown(stored)
    except StatusError:
        return stored


def _where(ref: Ref) -> dict[str, str]:
    return {"kind": ref.kind, "namespace": ref.namespace, "name": ref.name}


def _api_path(kind: Kind, ref: Ref) -> str:
    resource = kind.resource
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    place = f"/namespaces/{ref.namespace}" if ref.namespace else ""
    return f"{root}{place}/{resource.plural}/{ref.name}"
