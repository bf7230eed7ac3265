"""MaintenanceWindow (failover.lifeboat.io/v1alpha1): prevents evictions from clusters under maintenance."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, field

from controlplane.apimachinery.causes import invalid, reason, required
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Object, UserStruct
from controlplane.kind import Kind
from controlplane.kinds import cells
from controlplane.kinds.field_texts import SPEC, explain
from controlplane.settings import Settings
from controlplane.wire.resource import Column, Resource, parse_time
from controlplane.wire.structs import schema_of

MAINTENANCE_WINDOW = "failover.lifeboat.io/MaintenanceWindow"


class MaintenanceWindowSpec(UserStruct, frozen=True):
    """The clusters and the time of the maintenance.

    Such clusters do not count for the eviction tier [eviction-tier].
    """

    clusters: Annotated[tuple[str, ...], Meta(description="Names of the clusters under maintenance.")] = ()
    begins: Annotated[
        datetime | None, Meta(description="Start of the window, with a time zone. Unset: immediately.")
    ] = field(name="from", default=None)
    until: Annotated[datetime | None, Meta(description="End of the window, with a time zone. Required.")] = None
    reason: Annotated[str, Meta(description="What the maintenance is about.")] = ""


class MaintenanceWindow(Object, frozen=True):
    """Prevents evictions from clusters under maintenance. Failures are still detected. The window ends by itself."""

    spec: MaintenanceWindowSpec = MaintenanceWindowSpec()

    def open(self, *, now: datetime) -> bool:
        """Test whether the window is in force: begun, not ended, and not being deleted."""
        begins, until = self.spec.begins, self.spec.until
        begun = begins is None or begins <= now
        return self.metadata.deletion_timestamp is None and begun and (until is None or now < until)


def validate(new: MaintenanceWindow, old: MaintenanceWindow | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a window."""
    spec, causes = new.spec, []
    if not spec.clusters:
        causes.append(required("spec.clusters", "name the clusters under maintenance"))
    if spec.until is None:
        causes.append(required("spec.until", "write when the maintenance ends: a window ends by itself"))
    elif spec.begins is not None and spec.until <= spec.begins:
        causes.append(invalid("spec.until", spec.until.isoformat(), "must be later than spec.from"))
    return [*causes, *reason("spec.reason", spec.reason, "write what the maintenance is about")]


def state(doc: dict[str, Any], now: datetime) -> str:
    """Return the cell State: Waiting before the window begins, Open, then Over and how long ago."""
    spec = doc.get("spec", {})
    begins = parse_time(spec.get("from"))
    if begins is not None and now < begins:
        return "Waiting"
    return cells.open_until(spec.get("until"), "Over", now=now)


explain({MaintenanceWindow: SPEC})

DECLARED = (
    Kind(
        resource=Resource(
            "failover.lifeboat.io",
            "v1alpha1",
            "MaintenanceWindow",
            "maintenancewindows",
            "maintenancewindow",
            False,
            categories=("lifeboat",),
            columns=(
                Column("Clusters", cells.field("spec", "clusters")),
                Column("State", state),
                Column("From", cells.field("spec", "from")),
                Column("Until", cells.field("spec", "until")),
                Column("Reason", cells.field("spec", "reason")),
            ),
        ),
        type=MaintenanceWindow,
        schema=lambda: schema_of(MaintenanceWindow),
        validate=validate,
        has_status=False,
    ),
)
