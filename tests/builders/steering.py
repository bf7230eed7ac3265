"""What holds evictions back: EvictionHolds and MaintenanceWindows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from controlplane.kinds.eviction_hold import EvictionHold, EvictionHoldSpec
from controlplane.kinds.maintenance_window import MaintenanceWindow, MaintenanceWindowSpec
from tests.builders.objects import START, meta

API = "failover.lifeboat.io/v1alpha1"


def hold(name: str = "stop", **spec: Any) -> EvictionHold:
    """Return a hold on the whole fleet, if `spec` does not narrow it."""
    return EvictionHold(API, "EvictionHold", meta(name), EvictionHoldSpec(**{"reason": "wait for us", **spec}))


def window(
    *clusters: str, begins: float | None = None, until: float | None = 600, reason: str = "new kernel"
) -> MaintenanceWindow:
    """Return a maintenance window of clusters. `begins` and `until`: seconds after START; None: the field is unset."""
    spec = MaintenanceWindowSpec(
        clusters,
        None if begins is None else START + timedelta(seconds=begins),
        None if until is None else START + timedelta(seconds=until),
        reason,
    )
    return MaintenanceWindow(API, "MaintenanceWindow", meta("work"), spec)
