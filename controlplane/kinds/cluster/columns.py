"""The columns that `kubectl get clusters` prints."""

from __future__ import annotations

from typing import Any

from controlplane.kinds import cells
from controlplane.kinds.cluster.fence import fence_in
from controlplane.wire.resource import Column


def _taints(doc: dict[str, Any], now: Any) -> str:
    taints = doc.get("spec", {}).get("taints", ())
    return ",".join(f"{taint['key'].rsplit('/', 1)[-1]}:{taint['effect']}" for taint in taints)


def _fenced(doc: dict[str, Any], now: Any) -> str:
    """Return the operator who confirmed that a cluster is down, and until when; "" if no confirmation is in force."""
    fence = fence_in(doc["metadata"].get("annotations") or {})
    if fence is None or cells.condition("Fenced")(doc, now) != "True":
        return ""
    return f"by {fence.by} until {fence.expires_at:%Y-%m-%dT%H:%M:%SZ}"


COLUMNS = (
    Column("Version", cells.field("status", "kubernetesVersion")),
    Column("Mode", cells.field("spec", "syncMode")),
    Column("Ready", cells.condition("Ready")),
    Column("Taints", _taints),
    Column("Zones", cells.field("spec", "zones"), priority=1),
    Column("Region", cells.field("spec", "region"), priority=1),
    Column("Provider", cells.field("spec", "provider"), priority=1),
    Column("APIEndpoint", cells.field("spec", "apiEndpoint"), priority=1),
    Column("Fenced", _fenced, priority=1),
)
