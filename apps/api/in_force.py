"""The settings in force, as columns of FailoverConfiguration `default`, also before that object is created."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Min

from apps.api import reading
from apps.api.answer import ListAnswer, ObjectAnswer
from apps.api.target import Target
from apps.objects.configuration import configuration
from apps.objects.store import store
from controlplane import kinds
from controlplane.apimachinery.errors import NotFound
from controlplane.clusters import eviction_tier
from controlplane.controllers.reads.fleet_state import fleet_state
from controlplane.kinds.configuration import NAME
from controlplane.kinds.configuration.columns import IN_FORCE
from controlplane.kinds.maintenance_window import MaintenanceWindow
from controlplane.wire.resource import Resource
from controlplane.wire.table import Beside

Document = dict[str, Any]


class ConfiguredList(ListAnswer):
    """The list of FailoverConfigurations. As a Table it has a row for `default` even if that object does not exist.

    `selected`: the request has selectors. The list then shows only stored objects.
    """

    selected = False

    @property
    def rows(self) -> Sequence[Document]:
        return self.items if self.items or self.selected else [unwritten(self.resource)]


def configured(target: Target, *, as_table: bool) -> ObjectAnswer:
    """Return a FailoverConfiguration. Raises NotFound, except for a Table of `default`.

    A Table, which users read, shows `default` before it is created. JSON does not: `kubectl apply` reads JSON and
    creates the object only if it is not found.
    """
    try:
        return ObjectAnswer(target.resource, reading.get(target), beside_objects)
    except NotFound:
        if not as_table or target.subresource or target.name != NAME:
            raise
        return ObjectAnswer(target.resource, orjson.dumps(unwritten(target.resource)), beside_objects)


def unwritten(resource: Resource) -> Document:
    """Return an empty `default`, as old as the installation, for the rows of a Table before the object is created.

    The installation began with the first migration of its database. One query.
    """
    began = MigrationRecorder.Migration.objects.aggregate(at=Min("applied"))["at"]
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**head, "metadata": {"name": NAME, "creationTimestamp": began.strftime("%Y-%m-%dT%H:%M:%SZ")}, "spec": {}}


def beside_objects() -> Beside:
    """Return a function that returns the settings in force for `default`. Four queries."""
    shown = {IN_FORCE: in_force()}
    return lambda document: shown if document.get("metadata", {}).get("name") == NAME else {}


def in_force() -> Document:
    """Return the gate, eviction tier, rates and thresholds that are in force now. Four queries."""
    state, settings = store(), configuration().settings(reread=True)
    windows: list[MaintenanceWindow] = list(state.list(kinds.MAINTENANCE_WINDOW))
    now = state.now()
    maintained = {name for window in windows if window.open(now=now) for name in window.spec.clusters}
    fleet = eviction_tier.fleet_health(tuple(state.list(kinds.CLUSTER)), maintained=maintained)
    tier = eviction_tier.in_force(fleet, fleet_state(state), settings)
    return {
        "gate": "On" if settings.gate("Failover") else "Off",
        "tier": tier.name,
        "rate": f"{tier.rate:g}",
        "rates": f"{settings.resource_eviction_rate:g}/{settings.secondary_resource_eviction_rate:g}",
        "threshold": f"{settings.unhealthy_cluster_threshold:g}",
        "large": f"{settings.large_cluster_num_threshold}",
        "why": tier.why,
    }
