"""Admin of the ledger of promised capacity, and of why bindings are where they are."""

from django.contrib import admin

from apps.objects.changelist import choices, cluster_names
from apps.objects.rows_admin import RowAdmin
from apps.scheduling.models import FleetNames, PlacementHint, PlacementNote, Promise


class PromiseAdmin(RowAdmin):
    """Capacity promised and not yet seen in any status."""

    search_fields = ("key",)
    list_filter = (choices("cluster", "cluster", cluster_names),)


class HintAdmin(RowAdmin):
    """Where evictions found room for bindings the scheduler has not placed since."""

    list_display = ("key", "generation", "clusters")
    search_fields = ("key",)


class NoteAdmin(RowAdmin):
    """The last decision about every binding, as the scheduler notes it down."""

    list_display = ("key", "decision")
    search_fields = ("key",)


class FleetNamesAdmin(RowAdmin):
    """What the clusters were called that notes count through."""

    list_display = ("key",)


admin.site.register(Promise, PromiseAdmin)
admin.site.register(PlacementHint, HintAdmin)
admin.site.register(PlacementNote, NoteAdmin)
admin.site.register(FleetNames, FleetNamesAdmin)
