"""A run as a person reads it: what was done to it, and what clusters and bindings made of it, with seconds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from controlplane.engine.state import Change
from controlplane.kinds import BINDINGS, CLUSTER, EVENT, WORK
from tests.simulation.world import START, Simulation

Line = tuple[datetime, int, str]


def reported(world: Simulation) -> str:
    """Return the timeline of a run: one line for each thing that happened, those of one moment in order."""
    lines = [(moment, 0, text) for moment, text in world.journal]
    lines += [line for change in world.store.log for line in _lines(change)]
    lines.sort(key=lambda line: line[:2])
    return "\n".join(f"{(moment - START).total_seconds():8.2f} s  {text}" for moment, _, text in lines)


def _lines(change: Change) -> Iterator[Line]:
    new: dict[str, Any] = msgspec.json.decode(change.document)
    old: dict[str, Any] = {} if change.old_document is None else msgspec.json.decode(change.old_document)
    for text in _texts(change, old, new):
        yield change.at, change.version, f"{change.actor:<20} {change.ref.name:<28} {text}"


def _texts(change: Change, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    if change.ref.kind == EVENT:
        yield f"{new.get('reason')}: {new.get('message')}"
    elif change.ref.kind == CLUSTER:
        yield from _differences(_cluster(old), _cluster(new))
    elif change.ref.kind in BINDINGS:
        yield from _differences(_binding(old), _binding(new))
    elif change.ref.kind == WORK:
        yield f"Work of {change.ref.namespace} {change.type.lower()}: {change.reason}"
    elif change.type != "MODIFIED" or not change.actor.islower():
        yield f"{change.ref.kind} {change.type.lower()}"


def _differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for name, value in new.items():
        if old.get(name) != value:
            yield f"{name}: {old.get(name)} -> {value}"


def _cluster(doc: dict[str, Any]) -> dict[str, Any]:
    conditions = {one["type"]: one["status"] for one in doc.get("status", {}).get("conditions", [])}
    taints = [f"{one['key']}:{one['effect']}" for one in doc.get("spec", {}).get("taints", [])]
    return {"Ready": conditions.get("Ready"), "AccessLost": conditions.get("AccessLost"), "taints": taints}


def _binding(doc: dict[str, Any]) -> dict[str, Any]:
    spec, status = doc.get("spec", {}), doc.get("status", {})
    items = status.get("aggregatedStatus", [])
    return {
        "clusters": {one["name"]: one.get("replicas", 0) for one in spec.get("clusters", [])},
        "tasks": [one["fromCluster"] for one in spec.get("gracefulEvictionTasks", [])],
        "health": {one["clusterName"]: one.get("health") for one in items},
        "scheduled": next((one for one in _conditions(status, "Scheduled")), None),
    }


def _conditions(status: dict[str, Any], type_: str) -> Iterator[str]:
    for one in status.get("conditions", []):
        if one["type"] == type_:
            yield f"{one['status']} {one.get('reason', '')}"
