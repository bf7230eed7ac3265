"""Admin pages of reserved capacity and of the explanations of placements."""

from django.contrib import admin

from apps.objects.changelist import choices, cluster_names
from apps.objects.rows_admin import RowAdmin
from apps.scheduling.models import CapacityReservation, FleetNames, PlacementHint, PlacementNote


class ReservationAdmin(RowAdmin):
    """Capacity that is reserved for Works and that no report of a cluster counts yet."""

    search_fields = ("key",)
    list_filter = (choices("cluster", "cluster", cluster_names),)


class HintAdmin(RowAdmin):
    """Clusters on which evictions found capacity for bindings that the scheduler has not placed since."""

    list_display = ("key", "generation", "clusters")
    search_fields = ("key",)


class NoteAdmin(RowAdmin):
    """The explanation of the latest decision about each binding."""

    list_display = ("key", "decision")
    search_fields = ("key",)


class FleetNamesAdmin(RowAdmin):
    """Lists of cluster names that explanations refer to."""

    list_display = ("key",)


admin.site.register(CapacityReservation, ReservationAdmin)
admin.site.register(PlacementHint, HintAdmin)
admin.site.register(PlacementNote, NoteAdmin)
admin.site.register(FleetNames, FleetNamesAdmin)
