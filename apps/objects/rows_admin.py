"""Admin pages of tables that users only look at: row-native values, due rows, leases, the change log."""

from __future__ import annotations

from typing import Any, ClassVar

import orjson
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from apps.objects.access import authorize, may
from apps.objects.admin_permissions import may_read_path
from apps.objects.changelist import PER_PAGE, CappedPaginator, RowsPage, is_key, search_log
from apps.objects.masks import without_contents
from apps.objects.widgets import Actions
from apps.objects.yaml_text import difference, to_yaml
from controlplane.apimachinery.meta import Ref
from controlplane.authorization.attributes import Request
from controlplane.kind import KINDS

EVERY_KIND = Request("list", "*", "*")
CONTROLLERS_PATH = "/debug/controllers"  # users who may read it may see the rows of controllers
_NOISE = ("resourceVersion", "managedFields")


class RowAdmin(admin.ModelAdmin):
    """Lists and shows rows to staff who may read /debug/controllers. No user may write."""

    action_form = Actions
    paginator = CappedPaginator
    list_per_page = PER_PAGE
    show_full_result_count = False
    change_list_template = "admin/objects/list.html"
    actions: Any = None
    note = ""

    class Media:
        css: ClassVar = {"all": ["lifeboat/admin.css"]}

    def get_list_display(self, request: HttpRequest) -> Any:
        if self.list_display != ("__str__",):
            return self.list_display
        return [field.name for field in self.opts.concrete_fields]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[RowsPage]:
        return RowsPage

    def attach(self, rows: Any) -> None:
        """Called with the rows of a page before they are shown."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_read_path(request, CONTROLLERS_PATH)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ChangeLogAdmin(RowAdmin):
    """The change log: who changed which object, when and why. The contents of Secrets are not shown."""

    list_display = ("at", "version", "type", "kind", "namespace", "name", "actor", "reason", "cause")
    list_display_links = ("version",)
    ordering = ("-version",)
    search_fields = ("name",)
    search_help_text = "Kind:namespace/name of an object, or a part of a name or actor (newest 100,000 changes only)"
    sortable_by = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        readable = [kind.key for kind in KINDS if may(request.user, "list", kind)]
        return rows if authorize(request.user, EVERY_KIND).allowed else rows.filter(kind__in=readable)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        return search_log(queryset.defer("doc", "old_doc"), search_term), False

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        if object_id is None or not self.has_view_permission(request):
            raise PermissionDenied
        change = self.get_queryset(request).filter(pk=object_id).first() if is_key(object_id) else None
        if change is None:
            raise Http404(f"change {object_id} is not in the change log; old changes are removed from it")
        shown = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "media": self.media,
            "list_url": reverse("admin:objects_changelog_changelist"),
            "title": f"{change.type} {change.name}",
            "change": change,
            "ref": Ref(change.kind, change.namespace, change.name),
            "lines": difference(_text(change.old_doc), "" if change.type == "DELETED" else _text(change.doc)),
        }
        return TemplateResponse(request, "admin/objects/change.html", shown)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        return self.changeform_view(request, object_id)


def _text(document: str | None) -> str:
    if document is None:
        return ""
    decoded = without_contents(orjson.loads(document))
    kept = {key: value for key, value in decoded.get("metadata", {}).items() if key not in _NOISE}
    return to_yaml({**decoded, "metadata": kept})
