"""The columns that `kubectl get resourcebindings` prints: placement, health, and the state of evictions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from controlplane.kinds import cells
from controlplane.kinds.binding import HEALTHY
from controlplane.wire.resource import Column, age

PENDING, STUCK, DIRECTLY = "EvictionPending", "EvictionStuck", "DirectlyWaiting"  # condition types


def healthy(doc: dict[str, Any], now: Any) -> str:
    """Return the number of healthy targets and of all targets: "1/2". The last known health of a cluster that cannot be
    reached does not count. "": the binding has no targets."""
    names = {target["name"] for target in doc.get("spec", {}).get("clusters", ())}
    healthy_names = {item["clusterName"] for item in _items(doc) if item.get("health") == HEALTHY}
    return f"{len(names & healthy_names)}/{len(names)}" if names else ""


def eviction(doc: dict[str, Any], now: Any) -> str:
    """Return the state of the binding's eviction: Queued or Held in the queue, then Leaving, Waiting or Stuck."""
    pending, stuck, directly = (_true(doc, type_) for type_ in (PENDING, STUCK, DIRECTLY))
    if pending is not None:
        return str(pending.get("reason", ""))
    if stuck is not None:
        return "Stuck"
    if directly is not None:
        return "Waiting"
    return "Leaving" if doc.get("spec", {}).get("gracefulEvictionTasks") else ""


def message(doc: dict[str, Any], now: datetime) -> str:
    """Return the clusters that cannot be reached, for how long, and the reasons for which evictions wait."""
    lost = [
        f"{item['clusterName']}: out of reach for {age(item['outOfReachSince'], now)}, "
        f"last known {item.get('lastKnownHealth') or 'nothing'}"
        for item in _items(doc)
        if item.get("outOfReachSince")
    ]
    in_force = [_true(doc, type_) for type_ in (PENDING, STUCK, DIRECTLY)]
    waits = [condition.get("message", "") for condition in in_force if condition]
    return "; ".join((*lost, *filter(None, waits)))


def _targets(doc: dict[str, Any], now: Any) -> str:
    targets = doc.get("spec", {}).get("clusters", ())
    return ",".join(
        f"{target['name']}:{target['replicas']}" if target.get("replicas") else target["name"] for target in targets
    )


def _leaving(doc: dict[str, Any], now: Any) -> str:
    return ",".join(task["fromCluster"] for task in doc.get("spec", {}).get("gracefulEvictionTasks", ()))


COLUMNS = (
    Column("Scheduled", cells.condition("Scheduled")),
    Column("FullyApplied", cells.condition("FullyApplied")),
    Column("Clusters", _targets),
    Column("Healthy", healthy, description="Targets that are healthy, of all targets."),
    Column("Eviction", eviction, description="Queued, Held, Leaving, Waiting or Stuck. Empty: no eviction."),
    Column("Message", message, priority=1, description="Clusters that cannot be reached, and why evictions wait."),
    Column("Leaving", _leaving, priority=1),
)


def _items(doc: dict[str, Any]) -> list[dict[str, Any]]:
    return list(doc.get("status", {}).get("aggregatedStatus", ()))


def _true(doc: dict[str, Any], type_: str) -> dict[str, Any] | None:
    conditions = doc.get("status", {}).get("conditions", ())
    of_type = (condition for condition in conditions if condition.get("type") == type_)
    return next((condition for condition in of_type if condition.get("status") == "True"), None)
