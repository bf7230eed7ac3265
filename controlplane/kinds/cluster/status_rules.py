"""Validation of the status of a Cluster, so that the scheduler never counts with impossible numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from controlplane.apimachinery import quantities
from controlplane.apimachinery.causes import duplicate, invalid, repeated, required
from controlplane.apimachinery.errors import Cause
from controlplane.kinds.cluster import MAX_POOLS, MAX_ROOMS, Cluster, NodePool, NodeSummary, ResourceSummary

MAX_RESOURCES: Final = 4_000
"""Different names of resources in one report. Of a Push member up to 1,000 are read of its nodes, as many of its pods,
and as many of its quotas."""
NEGATIVE = "must be greater than or equal to 0; leave the field out if the number is unknown"


def validate_status(new: Cluster) -> list[Cause]:
    """Return every cause to refuse a reported status."""
    status = new.status
    if status.resource_summary is not None and (too_many := list(_sizes(status.resource_summary))):
        return too_many
    return [
        *(() if status.node_summary is None else _nodes(status.node_summary)),
        *(() if status.resource_summary is None else _resources(status.resource_summary)),
        *_remedies(status.remedy_actions),
    ]


def _nodes(reported: NodeSummary) -> Iterator[Cause]:
    path = "status.nodeSummary"
    numbers = {f"{path}.totalNum": reported.total_num, f"{path}.readyNum": reported.ready_num}
    negative = [invalid(field, number, NEGATIVE) for field, number in numbers.items() if number < 0]
    yield from negative
    if not negative and reported.ready_num > reported.total_num:
        rule = f"must not exceed totalNum ({reported.total_num}): ready nodes are part of all nodes"
        yield invalid(f"{path}.readyNum", reported.ready_num, rule)


def _sizes(reported: ResourceSummary) -> Iterator[Cause]:
    """Yield the causes to refuse a report that is too large to count with.

    The scheduler has a number for each resource of each free amount of nodes. An agent that is hostile, or wrong, would
    take all memory of the control plane with a document of a megabyte.
    """
    path, pools = "status.resourceSummary", reported.node_pools
    free = (*(quota.free for quota in reported.namespace_quotas), *(room.free for pool in pools for room in pool.nodes))
    names = set(chain(reported.allocatable, reported.allocating, reported.allocated, *free))
    for field, what, number, most in (
        (path, "names of resources", len(names), MAX_RESOURCES),
        (f"{path}.nodePools", "pools", len(pools), MAX_POOLS),
        (f"{path}.nodePools", "entries in nodes of all pools", sum(len(pool.nodes) for pool in pools), MAX_ROOMS),
    ):
        if number > most:
            yield invalid(field, number, f"must have at most {most} {what}")


def _resources(reported: ResourceSummary) -> Iterator[Cause]:
    path = "status.resourceSummary"
    for part, amounts in (
        ("allocatable", reported.allocatable),
        ("allocating", reported.allocating),
        ("allocated", reported.allocated),
    ):
        for name, amount in sorted(amounts.items()):
            if quantities.parse(amount).nano < 0:
                yield invalid(f"{path}.{part}[{name}]", amount, NEGATIVE)
    grades = set[int]()
    for index, modeling in enumerate(reported.allocatable_modelings):
        for field, number in (("grade", modeling.grade), ("count", modeling.count)):
            if number < 0:
                yield invalid(f"{path}.allocatableModelings[{index}].{field}", number, NEGATIVE)
        if modeling.grade in grades:
            yield duplicate(f"{path}.allocatableModelings[{index}].grade", modeling.grade, "report each grade once")
        grades.add(modeling.grade)
    for index, quota in enumerate(reported.namespace_quotas):
        for name, amount in sorted(quota.free.items()):
            if quantities.parse(amount).nano < 0:
                yield invalid(f"{path}.namespaceQuotas[{index}].free[{name}]", amount, NEGATIVE)
    for index, pool in enumerate(reported.node_pools):
        yield from _pool(f"{path}.nodePools[{index}]", pool)


def _pool(path: str, reported: NodePool) -> Iterator[Cause]:
    for index, room in enumerate(reported.nodes):
        if room.count < 0:
            yield invalid(f"{path}.nodes[{index}].count", room.count, NEGATIVE)
        for name, amount in sorted(room.free.items()):
            if quantities.parse(amount).nano < 0:
                yield invalid(f"{path}.nodes[{index}].free[{name}]", amount, NEGATIVE)


def _remedies(reported: tuple[str, ...]) -> Iterator[Cause]:
    twice = repeated(reported)
    for index, action in enumerate(reported):
        field = f"status.remedyActions[{index}]"
        if not action:
            yield required(field, "name the action, or leave it out")
        elif index in twice:
            yield duplicate(field, action)
