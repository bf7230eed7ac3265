"""Admin pages of Events, of objects without a table of their own, of the change log, due rows and leases."""

from typing import ClassVar

import orjson
from django.contrib import admin

from apps.objects.admin_for import ObjectAdmin, admin_for
from apps.objects.audit_admin import AuditEventAdmin
from apps.objects.changelist import choices
from apps.objects.models import (
    AuditEvent,
    ChangeLog,
    Due,
    Event,
    Lease,
    Object,
    Origin,
    QuotaUse,
    RowChange,
    Sweep,
    Tally,
    Topic,
)
from apps.objects.rows_admin import ChangeLogAdmin, RowAdmin
from apps.objects.store import store
from controlplane.controllers import CONTROLLERS
from controlplane.kinds import EVICTION_HOLD, MAINTENANCE_WINDOW, eviction_hold, maintenance_window

STATES = {EVICTION_HOLD: eviction_hold.state, MAINTENANCE_WINDOW: maintenance_window.state}
"""Whether an object that holds evictions is in force now, by kind, as its column State shows it."""


class EventAdmin(ObjectAdmin):
    """Events, newest first."""

    list_display = ("last_at", "type", "reason", "about", "count", "message")
    list_display_links = ("reason",)
    ordering = ("-last_at",)
    unlisted: ClassVar = ("keys", "labels")
    sortable_by = ("last_at", "reason")

    def attach(self, rows: list[Event]) -> None:  # type: ignore[override]  # rows of this table
        for row in rows:
            row.document = orjson.loads(row.doc)  # type: ignore[attr-defined]  # for the columns below

    @admin.display
    def type(self, row: Event) -> str:
        return str(row.document.get("type", ""))  # type: ignore[attr-defined]

    @admin.display
    def about(self, row: Event) -> str:
        about = row.document.get("involvedObject", {})  # type: ignore[attr-defined]
        namespace = f"{about['namespace']}/" if about.get("namespace") else ""
        return f"{about.get('kind', '')} {namespace}{about.get('name', '')}"

    @admin.display
    def count(self, row: Event) -> int:
        return int(row.document.get("count") or 1)  # type: ignore[attr-defined]

    @admin.display
    def message(self, row: Event) -> str:
        return str(row.document.get("message", ""))  # type: ignore[attr-defined]


class OthersAdmin(ObjectAdmin):
    """Objects of kinds without a table of their own. The list shows the state of kinds like EvictionHold."""

    list_display = ("kind", "namespace", "name", "state", "created_at")
    list_display_links = ("name",)

    def attach(self, rows: list[Object]) -> None:  # type: ignore[override]  # rows of this table
        super().attach(rows)
        holding = [row.pk for row in rows if row.kind in STATES]
        if not holding:
            return
        docs, now = Object.objects.filter(pk__in=holding).values_list("pk", "doc"), store().now()
        found = {key: orjson.loads(doc) for key, doc in docs}
        for row in rows:
            if row.pk in found:
                row.__dict__["counts"] = STATES[row.kind](found[row.pk], now)

    @admin.display
    def state(self, row: Object) -> str:
        return str(row.__dict__.get("counts", ""))


class DueAdmin(RowAdmin):
    """Due rows: which controller looks at which object, and when."""

    list_display = ("controller", "kind", "namespace", "name", "due_at", "lease_until", "cursor")
    list_display_links = ("name",)
    list_filter = (
        choices("controller", "controller", [(controller.name, controller.name) for controller in CONTROLLERS]),
    )
    ordering = ("controller", "due_at")
    search_fields = ("name",)


class LeaseAdmin(RowAdmin):
    """Leases: which process runs which group of controllers."""

    list_display = ("name", "shard", "holder", "epoch", "until")
    ordering = ("name", "shard")


admin.site.register(Object, admin_for(Object, page=OthersAdmin))
admin.site.register(Event, admin_for(Event, page=EventAdmin))
admin.site.register(ChangeLog, ChangeLogAdmin)
admin.site.register(AuditEvent, AuditEventAdmin)
admin.site.register(Due, DueAdmin)
admin.site.register(Lease, LeaseAdmin)
admin.site.register(Sweep, RowAdmin)
admin.site.register(Origin, RowAdmin)
admin.site.register(Topic, RowAdmin)
admin.site.register(Tally, RowAdmin)
admin.site.register(RowChange, RowAdmin)
admin.site.register(QuotaUse, RowAdmin)
