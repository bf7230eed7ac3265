"""MaintenanceWindow (failover.lifeboat.io/v1alpha1): clusters being worked on; detection goes on, evictions wait."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, field

from controlplane.apimachinery.causes import invalid, reason, required
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Object, UserStruct
from controlplane.settings import Settings


class MaintenanceWindowSpec(UserStruct, frozen=True):
    """Clusters that are not evicted from, and count in neither number of the tier rule (D8), from … until …"""

    clusters: Annotated[tuple[str, ...], Meta(description="Names of the clusters being worked on.")] = ()
    begins: Annotated[datetime | None, Meta(description="Since when, with a time zone. Unset: at once.")] = field(
        name="from", default=None
    )
    until: Annotated[datetime | None, Meta(description="When the work ends, with a time zone. It has to be said.")] = (
        None
    )
    reason: Annotated[str, Meta(description="What is being done.")] = ""


class MaintenanceWindow(Object, frozen=True):
    """Clusters being worked on: detection goes on, evictions from them wait. It ends by itself."""

    spec: MaintenanceWindowSpec = MaintenanceWindowSpec()

    def open(self, *, now: datetime) -> bool:
        """Test whether the window is open now; it ends by itself."""
        begins, until = self.spec.begins, self.spec.until
        begun = begins is None or begins <= now
        return self.metadata.deletion_timestamp is None and begun and (until is None or now < until)


def validate(new: MaintenanceWindow, old: MaintenanceWindow | None, settings: Settings) -> list[Cause]:
    """Return everything that is wrong with a window."""
    spec, causes = new.spec, []
    if not spec.clusters:
        causes.append(required("spec.clusters", "name the clusters being worked on"))
    if spec.until is None:
        causes.append(required("spec.until", "say when the work ends: a window ends by itself"))
    elif spec.begins is not None and spec.until <= spec.begins:
        causes.append(invalid("spec.until", spec.until.isoformat(), "must be later than spec.from"))
    return [*causes, *reason("spec.reason", spec.reason, "say what is being done")]
