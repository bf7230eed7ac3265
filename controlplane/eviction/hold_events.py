"""Events about EvictionHolds and MaintenanceWindows that a user creates, changes or removes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from controlplane.engine.decision import Delete, Event, Put
from controlplane.kinds import EVICTION_HOLD, MAINTENANCE_WINDOW


def hold_events(change: Put | Delete, *, by: str) -> tuple[Event, ...]:
    """Return the Events for a write by a user. There are none for other kinds, and none if the spec does not change."""
    obj = change.old if isinstance(change, Delete) else change.new
    if obj.ref.kind not in (EVICTION_HOLD, MAINTENANCE_WINDOW):
        return ()
    kind = obj.kind
    if isinstance(change, Delete):
        return (Event(obj, f"{kind}Removed", f"{by} removed this {kind}, which held {_scope_text(obj)}"),)
    if change.old is None:
        return (Event(obj, f"{kind}Made", f"{by} holds {_scope_text(obj)}"),)
    if _spec(change.old) == _spec(obj):
        return ()
    return (Event(obj, f"{kind}Changed", f"{by} changed this {kind}, which holds {_scope_text(obj)}"),)


def _spec(obj: Any) -> Any:
    return obj.spec


def _scope_text(holding: Any) -> str:
    """Return which evictions are held, until when and why, as text."""
    spec, parts = holding.spec, list[str]()
    parts += [f"cluster {name}" for name in spec.clusters]
    parts += [f"namespace {name}" for name in getattr(spec, "namespaces", ())]
    if getattr(spec, "selector", None) is not None:
        parts.append("workloads with the labels of its selector")
    ends: datetime | None = spec.until if holding.ref.kind == MAINTENANCE_WINDOW else spec.expires_at
    until = "" if ends is None else f" until {ends:%Y-%m-%dT%H:%M:%SZ}"
    return f"evictions of {', '.join(parts) or 'the whole fleet'}{until}: {spec.reason}"
