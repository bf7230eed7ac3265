"""Admin pages of the eviction queue, of graceful evictions and of the state of the fleet."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from apps.failover.models import (
    BindingReadiness,
    Eviction,
    FleetState,
    GracefulEvictionTask,
    Notice,
    UnhealthyCopies,
)
from apps.objects.access import authorize
from apps.objects.changelist import choices, cluster_names
from apps.objects.rows_admin import RowAdmin
from controlplane.apimachinery.meta import Ref
from controlplane.authorization.attributes import Request
from controlplane.eviction.operator_orders import EXPEDITE, HOLD, RELEASE, SKIP
from controlplane.insight.readiness_row import VERDICTS
from controlplane.kinds import EVICTION, KINDS
from controlplane.kinds.rows import ENDED, HELD, QUEUED, RECOVERING

MOST_ORDERED = 100  # evictions whose names fit into the URL of the page that orders about them


class EvictionAdmin(RowAdmin):
    """The eviction queue: copies that wait for their eviction, and the results of earlier evictions.

    A row without a due time is a copy that stays: its binding tolerates the taints.
    """

    actions = ("hold", "release", "skip", "expedite")
    list_display = (
        *("workload", "cluster", "state", "reason", "message", "due_at", "queued_at", "priority", "binding"),
    )
    list_display_links = ("workload",)
    list_filter = (
        choices("cluster", "cluster", cluster_names),
        choices("state", "state", [(state, state) for state in (QUEUED, HELD, RECOVERING, *ENDED)]),
    )
    ordering = ("-priority", "due_at", "key")
    search_fields = ("key",)

    @admin.display(ordering="key")
    def workload(self, row: Any) -> str:
        return workload_name(row.resource_kind, row.binding)

    def has_order_permission(self, request: HttpRequest) -> bool:
        resource = KINDS[EVICTION].resource
        hold = Request("create", resource.group, resource.plural, "hold")
        return self.has_view_permission(request) and authorize(request.user, hold).allowed

    @admin.action(description="Hold until released", permissions=["order"])
    def hold(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._order(request, queryset, HOLD)

    @admin.action(description="Release: remove the order", permissions=["order"])
    def release(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._order(request, queryset, RELEASE)

    @admin.action(description="Skip until the taint goes", permissions=["order"])
    def skip(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._order(request, queryset, SKIP)

    @admin.action(description="Expedite: first in order", permissions=["order"])
    def expedite(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._order(request, queryset, EXPEDITE)

    def _order(self, request: HttpRequest, rows: QuerySet[Any], verb: str) -> HttpResponse | None:
        """Send the browser to the page that shows what the order would do and asks for its reason."""
        keys = list(rows.values_list("key", flat=True)[: MOST_ORDERED + 1])
        if len(keys) > MOST_ORDERED:
            text = (
                f"Choose at most {MOST_ORDERED} evictions here. The page /queue orders about all that a filter finds."
            )
            self.message_user(request, text, messages.ERROR)
            return None
        items = ",".join(map(_item, keys))
        return HttpResponseRedirect(f"/queue/order?{urlencode({'verb': verb, 'item': items})}")


def _item(key: str) -> str:
    """Return the namespace and name of an eviction, as the page of orders takes it."""
    binding, _, cluster = key.rpartition("|")
    ref = Ref.parse(binding)
    return f"{ref.namespace}/{ref.name}.{cluster}"


class TaskAdmin(RowAdmin):
    """Graceful evictions: old copies that are kept until the new copies are healthy."""

    list_display = (
        *("workload", "from_cluster", "reason", "producer", "purge_mode", "created_at", "grace_period_seconds"),
        "binding",
    )
    list_display_links = ("workload",)
    list_filter = (choices("cluster", "cluster", cluster_names, column="from_cluster"),)
    search_fields = ("binding",)

    @admin.display(ordering="binding")
    def workload(self, row: GracefulEvictionTask) -> str:
        return workload_name("", row.binding)


class ReadinessAdmin(RowAdmin):
    """Whether each binding would fail over. The page /readiness of the console has the remedies."""

    list_display = ("workload", "verdict", "named", "clusters", "since", "key")
    list_display_links = ("workload",)
    list_filter = (choices("verdict", "verdict", [(verdict, verdict) for verdict in VERDICTS]),)
    ordering = ("key",)
    search_fields = ("key",)

    @admin.display(ordering="key")
    def workload(self, row: Any) -> str:
        return workload_name(row.workload, row.key)

    @admin.display(description="obstacles", ordering="named")
    def named(self, row: Any) -> str:
        return row.named.replace(",", ", ")

    @admin.display(description="clusters")
    def clusters(self, row: Any) -> str:
        return ", ".join(row.clusters)


def workload_name(resource_kind: str, binding: str) -> str:
    """Return the kind, namespace and name of the workload of a binding. `resource_kind` "": not known.

    The name of a binding is that of its workload with the kind: Deployment shop/web of shop/web-deployment.
    """
    ref = Ref.parse(binding)
    name, _, kind = ref.name.rpartition("-")
    known = resource_kind.rpartition("/")[2]
    if not name or (known and known.lower() != kind):
        name, kind = ref.name, known
    place = f"{ref.namespace}/{name}" if ref.namespace else name
    return f"{known or kind.capitalize()} {place}".strip()


class NoticeAdmin(RowAdmin):
    """Notices: messages to the webhook and the mail server, sent or waiting."""

    list_display = ("at", "severity", "topic", "subject", "count", "channel", "sent_at", "attempts", "error")
    list_filter = ("channel", "severity", "topic")
    ordering = ("-at",)
    note = "A notice without a time under Sent at waits, or is tried again. Notices that were sent stay for 30 days."


admin.site.register(Eviction, EvictionAdmin)
admin.site.register(GracefulEvictionTask, TaskAdmin)
admin.site.register(UnhealthyCopies, RowAdmin)
admin.site.register(FleetState, RowAdmin)
admin.site.register(Notice, NoticeAdmin)
admin.site.register(BindingReadiness, ReadinessAdmin)
