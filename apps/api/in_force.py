"""The settings in force, as columns of FailoverConfiguration/default: also where nobody ever wrote that object."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from apps.api.answer import Many, One
from apps.objects.configuration import configuration
from apps.objects.store import store
from controlplane import health, kinds
from controlplane.controllers.fleet import fleet_state
from controlplane.kinds.columns import IN_FORCE
from controlplane.kinds.configuration import NAME
from controlplane.kinds.maintenance_window import MaintenanceWindow
from controlplane.wire.table import IncludeObject, table

Document = dict[str, Any]


class Configured(One):
    """The object with what is in force, as a Table; in other forms the object as it is stored."""

    def as_table(self, *, now: datetime, include_object: IncludeObject) -> Document:
        version = self.document["metadata"].get("resourceVersion", "")
        return _table(self, [self.document], {"resourceVersion": version}, now, include_object)


class ConfiguredList(Many):
    """The list; as a Table it has a row for `default` even if the object was never written.

    `selected`: the list was asked for with selectors. It then shows only what is stored.
    """

    selected = False

    def as_table(self, *, now: datetime, include_object: IncludeObject) -> Document:
        items: Sequence[Document] = self.items
        if not items and not self.selected:
            head = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
            items = [{**head, "metadata": {"name": NAME, "creationTimestamp": None}, "spec": {}}]
        return _table(self, items, self.list_meta, now, include_object)


def _table(
    answer: One | Many, items: Sequence[Document], meta: Document, now: datetime, include_object: IncludeObject
) -> Document:
    told = in_force()
    shown = [{**one, IN_FORCE: told} if one["metadata"]["name"] == NAME else one for one in items]
    found = table(answer.resource, shown, now=now, include_object=include_object, list_meta=meta)
    for row in found["rows"]:
        row.get("object", {}).pop(IN_FORCE, None)
    return found


def in_force() -> Document:
    """Return what columns show: gate, tier, rates and thresholds as they count now. Four queries."""
    reading, settings = store(), configuration().settings(anew=True)
    windows: list[MaintenanceWindow] = list(reading.list(kinds.MAINTENANCE_WINDOW))
    now = reading.now()
    maintained = {name for one in windows if one.open(now=now) for name in one.spec.clusters}
    fleet = health.fleet_health(tuple(reading.list(kinds.CLUSTER)), maintained=maintained)
    tier = health.in_force(fleet, fleet_state(reading), settings)
    return {
        "gate": "On" if settings.gate("Failover") else "Off",
        "tier": tier.name,
        "rate": f"{tier.rate:g}",
        "rates": f"{settings.resource_eviction_rate:g}/{settings.secondary_resource_eviction_rate:g}",
        "threshold": f"{settings.unhealthy_cluster_threshold:g}",
        "large": f"{settings.large_cluster_num_threshold}",
        "why": tier.why,
    }
