"""Admin pages of the eviction queue, of graceful evictions and of the state of the fleet."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.failover.models import (
    BindingReadiness,
    Eviction,
    FleetState,
    GracefulEvictionTask,
    Notice,
    UnhealthyCopies,
)
from apps.failover.orders import order_all
from apps.objects.access import authorize
from apps.objects.changelist import choices, cluster_names
from apps.objects.decision_log import log_refusal
from apps.objects.rows_admin import RowAdmin
from controlplane.apimachinery.errors import Conflict, StatusError
from controlplane.apimachinery.meta import Ref
from controlplane.authorization.attributes import Request
from controlplane.eviction.operator_orders import EXPEDITE, HOLD, RELEASE, SKIP
from controlplane.insight.readiness_row import VERDICTS
from controlplane.kinds import EVICTION, KINDS
from controlplane.kinds.rows import ENDED, HELD, QUEUED, RECOVERING


class OrderForm(ActionForm):
    """The reason of an order about evictions."""

    reason = forms.CharField(required=False, label="Reason:", max_length=180)


class EvictionAdmin(RowAdmin):
    """The eviction queue: copies that wait for their eviction, and the results of earlier evictions.

    A row without a due time is a copy that stays: its binding tolerates the taints.
    """

    actions = ("hold", "release", "skip", "expedite")
    action_form = OrderForm
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
    def hold(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._order(request, queryset, HOLD)

    @admin.action(description="Release: take the order away", permissions=["order"])
    def release(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._order(request, queryset, RELEASE)

    @admin.action(description="Skip until the taint goes", permissions=["order"])
    def skip(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._order(request, queryset, SKIP)

    @admin.action(description="Expedite: first in order", permissions=["order"])
    def expedite(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._order(request, queryset, EXPEDITE)

    def _order(self, request: HttpRequest, rows: QuerySet[Any], verb: str) -> None:
        reason = request.POST.get("reason", "").strip()
        if not reason:
            text = (
                "The order was not given, because it has no reason. Write the reason into the field Reason and repeat "
            )
            self.message_user(request, text + "the order. The change log keeps the reason.", messages.ERROR)
            return
        user, keys = request.user.get_username(), list(rows.values_list("key", flat=True))
        try:
            found = order_all(keys, verb, reason=reason, by=user)
        except StatusError as error:
            log_refusal(error, actor=user, way="Admin", ref=keys[0])
            self.message_user(request, error.message, messages.ERROR)
            return
        for key in found.gone:
            self.message_user(request, f"{key} is no longer in the eviction queue.", messages.WARNING)
        for key, message in found.refused.items():
            log_refusal(Conflict(message), actor=user, way="Admin", ref=key)
            self.message_user(request, message, messages.ERROR)
        if found.done:
            self.message_user(request, f"{verb}: {len(found.done)}.", messages.SUCCESS)


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
