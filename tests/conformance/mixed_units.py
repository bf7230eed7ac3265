"""A fault of the original we do not copy: estimating sets of components, it reads amounts written in decimal units in
thousandths and amounts written in binary units (Gi) whole, and divides one by the other."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from controlplane.apimachinery.quantities import BINARY_SI, Quantity, parse
from controlplane.kinds.cluster import Cluster

MIXED_UNITS = "the original divides amounts in different units (decimal and binary)"


def as_the_original_mixes_units(clusters: list[Cluster], components: list[dict[str, Any]] | None) -> list[Cluster]:
    """Return clusters with what is free scaled so that exact division gives what the original gets."""
    exact: dict[str, int] = {}
    mixed: dict[str, int] = {}
    for one in components or ():
        requests = (one.get("replicaRequirements") or {}).get("resourceRequest") or {}
        for name, text in requests.items():
            amount, replicas = parse(text), one.get("replicas", 0)
            exact[name] = exact.get(name, 0) + replicas * amount.value()
            mixed[name] = mixed.get(name, 0) + replicas * _read(amount)
    return [_scaled(cluster, exact, mixed) for cluster in clusters]


def _read(amount: Quantity) -> int:
    return amount.value() if amount.format == BINARY_SI else amount.milli_value()


def _scaled(cluster: Cluster, exact: dict[str, int], mixed: dict[str, int]) -> Cluster:
    summary = cluster.status.resource_summary
    if summary is None:
        return cluster
    allocatable, allocated, allocating = dict(summary.allocatable), dict(summary.allocated), dict(summary.allocating)
    for name, wanted in mixed.items():
        if name == "cpu" or name not in allocatable or not wanted:
            continue
        free = parse(allocatable[name])
        for taken in (allocated, allocating):
            free = free - parse(taken.pop(name)) if name in taken else free
        allocatable[name] = str(max(0, _read(free) // wanted * exact[name]))
    scaled = replace(summary, allocatable=allocatable, allocated=allocated, allocating=allocating)
    return replace(cluster, status=replace(cluster.status, resource_summary=scaled))
