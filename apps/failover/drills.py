"""The newest drills, for pages and for FleetStatus."""

from __future__ import annotations

from apps.objects.models import Object
from controlplane.kind import KINDS, decode
from controlplane.kinds.drill import DRILL, Drill
from controlplane.kinds.fleet_status import LastDrill


def newest_drills(limit: int) -> list[Drill]:
    """Return the drills that were created last, the newest first. One query."""
    found = Object.objects.filter(kind=DRILL).order_by("-created_at", "-id").values_list("doc", flat=True)
    return [decode(KINDS[DRILL], text) for text in found[:limit]]


def last_drill() -> LastDrill | None:
    """Return the newest drill with its result; None: there is none."""
    for drill in newest_drills(1):
        status = drill.status
        at = status.finish_time or status.start_time or drill.metadata.creation_timestamp
        return LastDrill(drill.metadata.name, drill.spec.mode, status.result or status.phase, status.message, at)
    return None
