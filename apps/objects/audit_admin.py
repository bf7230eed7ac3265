"""Admin page of audit events: who wrote what, and what was refused, newest first."""

from __future__ import annotations

from typing import Any, ClassVar

import orjson
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.objects.admin_permissions import may_read_path
from apps.objects.changelist import choices
from apps.objects.models import AuditEvent
from apps.objects.rows_admin import RowAdmin
from apps.objects.yaml_text import to_yaml

AUDIT_PATH = "/audit"  # users who may read it may see audit events
_VERBS = ("create", "update", "patch", "delete", "deletecollection", "get", "post")


class AuditEventAdmin(RowAdmin):
    """Audit events, for users who may read /audit. The contents of Secrets are in none of them."""

    list_display = ("at", "username", "verb", "resource", "about", "code", "decision", "reason", "source")
    list_display_links = ("at", "about")
    list_filter = (
        choices("verb", "verb", [(verb, verb) for verb in _VERBS]),
        choices("decision", "decision", [("allow", "allowed"), ("forbid", "forbidden"), ("none", "no rule was asked")]),
    )
    ordering = ("-at",)
    sortable_by = ("at",)
    search_fields = ("username",)
    search_help_text = "The name of a user or of an object, namespace/name, or an audit id"
    exclude: ClassVar = ("document", "unsent")
    readonly_fields: ClassVar = ("event",)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return may_read_path(request, AUDIT_PATH)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        is_list = request.resolver_match is not None and request.resolver_match.view_name.endswith("changelist")
        return rows.defer("document") if is_list else rows

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        for word in search_term.split():
            namespace, slash, name = word.rpartition("/")
            in_place = Q(namespace=namespace, name=name) if slash else Q(name=word)
            queryset = queryset.filter(in_place | Q(username=word) | Q(acted_as=word) | Q(pk=word))
        return queryset, False

    @admin.display(ordering="name")
    def about(self, row: AuditEvent) -> str:
        """Return the object, or the path of a request that is about none."""
        fields: Any = row
        return "/".join(filter(None, (fields.namespace, fields.name))) or fields.path

    @admin.display
    def event(self, row: AuditEvent) -> SafeString:
        """Return the event of audit.k8s.io/v1 as YAML."""
        fields: Any = row
        return format_html('<pre class="manifest">{}</pre>', to_yaml(orjson.loads(fields.document)))
