"""The settings in force, as columns of FailoverConfiguration/default: also where nobody ever wrote that object."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson

from apps.api import reading
from apps.api.answer import Many, One
from apps.api.target import Target
from apps.objects.configuration import configuration
from apps.objects.store import store
from controlplane import kinds
from controlplane.apimachinery.errors import NotFound
from controlplane.clusters import health
from controlplane.controllers.reads.fleet_state import fleet_state
from controlplane.kinds.configuration import NAME
from controlplane.kinds.configuration.columns import IN_FORCE
from controlplane.kinds.maintenance_window import MaintenanceWindow
from controlplane.wire.resource import Resource
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
            items = [unwritten(self.resource)]
        return _table(self, items, self.list_meta, now, include_object)


def configured(target: Target, *, as_table: bool) -> One:
    """Return the object; as a Table `default` is there even if it was never written. Raises NotFound.

    Only as a Table, which people read: `kubectl apply` reads JSON, and creates the object where it is not found.
    """
    try:
        return Configured(target.resource, reading.get(target))
    except NotFound:
        if not as_table or target.subresource or target.name != NAME:
            raise
        return Configured(target.resource, orjson.dumps(unwritten(target.resource)))


def unwritten(resource: Resource) -> Document:
    """Return `default` as rows of a Table show it while nobody has written it."""
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**head, "metadata": {"name": NAME, "creationTimestamp": None}, "spec": {}}


def _table(
    answer: One | Many, items: Sequence[Document], meta: Document, now: datetime, include_object: IncludeObject
) -> Document:
    return table(
        answer.resource, items, now=now, include_object=include_object, list_meta=meta, beside=beside_objects()
    )


def beside_objects() -> dict[str, Document]:
    """Return what the columns of each object read besides the object. Four queries."""
    return {NAME: {IN_FORCE: in_force()}}


def in_force() -> Document:
    """Return what columns show: gate, tier, rates and thresholds as they count now. Four queries."""
    state, settings = store(), configuration().settings(anew=True)
    windows: list[MaintenanceWindow] = list(state.list(kinds.MAINTENANCE_WINDOW))
    now = state.now()
    maintained = {name for one in windows if one.open(now=now) for name in one.spec.clusters}
    fleet = health.fleet_health(tuple(state.list(kinds.CLUSTER)), maintained=maintained)
    tier = health.in_force(fleet, fleet_state(state), settings)
    return {
        "gate": "On" if settings.gate("Failover") else "Off",
        "tier": tier.name,
        "rate": f"{tier.rate:g}",
        "rates": f"{settings.resource_eviction_rate:g}/{settings.secondary_resource_eviction_rate:g}",
        "threshold": f"{settings.unhealthy_cluster_threshold:g}",
        "large": f"{settings.large_cluster_num_threshold}",
        "why": tier.why,
    }
