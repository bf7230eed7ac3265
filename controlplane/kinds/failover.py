"""The kinds of failover.lifeboat.io that steer the eviction queue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from controlplane.kind import Kind
from controlplane.kinds import eviction, eviction_hold, maintenance_window
from controlplane.wire.resource import Column, Resource, age, parse_time
from controlplane.wire.structs import schema_of

GROUP, VERSION = "failover.lifeboat.io", "v1alpha1"
EVICTION = f"{GROUP}/Eviction"
CLUSTER_EVICTION = f"{GROUP}/ClusterEviction"
EVICTIONS = (EVICTION, CLUSTER_EVICTION)
EVICTION_HOLD = f"{GROUP}/EvictionHold"
MAINTENANCE_WINDOW = f"{GROUP}/MaintenanceWindow"

Cell = Callable[[dict[str, Any], datetime], Any]


def _of(part: str, field: str) -> Cell:
    def cell(doc: dict[str, Any], now: datetime) -> Any:
        value = doc.get(part, {}).get(field, "")
        return ",".join(value) if isinstance(value, list) else value

    return cell


def _since(field: str) -> Cell:
    def cell(doc: dict[str, Any], now: datetime) -> str:
        moment = doc.get("status", {}).get(field)
        return age(moment, now) if moment else ""

    return cell


def _eta(doc: dict[str, Any], now: datetime) -> str:
    status = doc.get("status", {})
    return str(status.get("estimate") or status.get("estimatedAt", ""))


def _hold_state(doc: dict[str, Any], now: datetime) -> str:
    """Return Open, or Expired with its age."""
    return _until(doc.get("spec", {}).get("expiresAt"), "Expired", now)


def _window_state(doc: dict[str, Any], now: datetime) -> str:
    """Return Waiting before a window begins, Open, or Over with its age."""
    begins = parse_time(doc.get("spec", {}).get("from"))
    if begins is not None and now < begins:
        return "Waiting"
    return _until(doc.get("spec", {}).get("until"), "Over", now)


def _until(ends: str | None, over: str, now: datetime) -> str:
    moment = parse_time(ends)
    return "Open" if moment is None or now < moment else f"{over} {age(moment, now)} ago"


STATES: dict[str, Cell] = {EVICTION_HOLD: _hold_state, MAINTENANCE_WINDOW: _window_state}
"""Whether something that holds evictions counts now, as the column State shows it."""


def _scope(doc: dict[str, Any], now: datetime) -> str:
    spec = doc.get("spec", {})
    parts = [f"cluster {name}" for name in spec.get("clusters", ())]
    parts += [f"namespace {name}" for name in spec.get("namespaces", ())]
    return ", ".join(parts + (["selector"] if spec.get("selector") else [])) or "fleet"


def _eviction_kind(name: str, plural: str, *, namespaced: bool) -> Kind:
    return Kind(
        resource=Resource(
            GROUP,
            VERSION,
            name,
            plural,
            name.lower(),
            namespaced,
            categories=("lifeboat",),
            subresources=("hold", "release", "skip", "expedite"),
            verbs=("get", "list"),
            fields=("spec.binding", "spec.cluster", "spec.resourceKind", "status.reason", "status.state"),
            columns=(
                Column("Cluster", _of("spec", "cluster")),
                Column("State", _of("status", "state")),
                Column("Reason", _of("status", "reason")),
                Column("Position", _of("status", "position"), type="integer"),
                Column("Due", _of("status", "dueAt")),
                Column("ETA", _eta),
                Column("Queued", _since("queuedAt"), priority=1),
                Column("Message", _of("status", "message"), priority=1),
            ),
        ),
        type=eviction.EvictionItem,
        schema=lambda: schema_of(eviction.EvictionItem),
        has_generation=False,
        audited=False,
    )


DECLARED = (
    _eviction_kind("Eviction", "evictions", namespaced=True),
    _eviction_kind("ClusterEviction", "clusterevictions", namespaced=False),
    Kind(
        resource=Resource(
            GROUP,
            VERSION,
            "EvictionHold",
            "evictionholds",
            "evictionhold",
            False,
            categories=("lifeboat",),
            columns=(
                Column("Scope", _scope),
                Column("Reason", _of("spec", "reason")),
                Column("Who", _of("spec", "who")),
                Column("State", _hold_state),
                Column("Expires", _of("spec", "expiresAt")),
            ),
        ),
        type=eviction_hold.EvictionHold,
        schema=lambda: schema_of(eviction_hold.EvictionHold),
        validate=eviction_hold.validate,
        has_status=False,
    ),
    Kind(
        resource=Resource(
            GROUP,
            VERSION,
            "MaintenanceWindow",
            "maintenancewindows",
            "maintenancewindow",
            False,
            categories=("lifeboat",),
            columns=(
                Column("Clusters", _of("spec", "clusters")),
                Column("State", _window_state),
                Column("From", _of("spec", "from")),
                Column("Until", _of("spec", "until")),
                Column("Reason", _of("spec", "reason")),
            ),
        ),
        type=maintenance_window.MaintenanceWindow,
        schema=lambda: schema_of(maintenance_window.MaintenanceWindow),
        validate=maintenance_window.validate,
        has_status=False,
    ),
)
