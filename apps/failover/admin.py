"""Admin of the eviction queue, of what is leaving, and of what is remembered of the fleet."""

from django.contrib import admin

from apps.failover.models import AilingCopies, Eviction, FleetState, GracefulEvictionTask
from apps.objects.changelist import choices, cluster_names
from apps.objects.rows_admin import RowAdmin
from controlplane.kinds.rows import ENDED, HELD, QUEUED, RECOVERING


class EvictionAdmin(RowAdmin):
    """What waits to leave a cluster, and what became of it. Rows without a due time stay: that was decided."""

    list_display = ("cluster", "binding", "state", "due_at", "queued_at", "priority", "reason", "message")
    list_display_links = ("binding",)
    list_filter = (
        choices("cluster", "cluster", cluster_names),
        choices("state", "state", [(state, state) for state in (QUEUED, HELD, RECOVERING, *ENDED)]),
    )
    ordering = ("-priority", "due_at", "key")
    search_fields = ("key",)


class TaskAdmin(RowAdmin):
    """Copies on their way out: kept until the new ones are healthy."""

    list_display = ("from_cluster", "binding", "purge_mode", "reason", "producer", "created_at")
    list_display_links = ("binding",)
    list_filter = (choices("cluster", "cluster", cluster_names, column="from_cluster"),)
    search_fields = ("binding",)


admin.site.register(Eviction, EvictionAdmin)
admin.site.register(GracefulEvictionTask, TaskAdmin)
admin.site.register(AilingCopies, RowAdmin)
admin.site.register(FleetState, RowAdmin)
