"""What the status of a Cluster may not say, whoever reports it: nothing is counted or scheduled by nonsense."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.apimachinery import quantities
from controlplane.apimachinery.causes import duplicate, invalid, required
from controlplane.apimachinery.errors import Cause
from controlplane.kinds.cluster import Cluster, NodeSummary, ResourceSummary

NEGATIVE = "must be greater than or equal to 0: report what there is, or leave it out where nobody knows"


def validate_status(new: Cluster) -> list[Cause]:
    """Return everything that is wrong with what is reported of a cluster."""
    status = new.status
    return [
        *(() if status.node_summary is None else _nodes(status.node_summary)),
        *(() if status.resource_summary is None else _resources(status.resource_summary)),
        *_remedies(status.remedy_actions),
    ]


def _nodes(said: NodeSummary) -> Iterator[Cause]:
    path = "status.nodeSummary"
    numbers = {f"{path}.totalNum": said.total_num, f"{path}.readyNum": said.ready_num}
    negative = [invalid(field, number, NEGATIVE) for field, number in numbers.items() if number < 0]
    yield from negative
    if not negative and said.ready_num > said.total_num:
        rule = f"must not exceed totalNum ({said.total_num}): ready nodes are among them"
        yield invalid(f"{path}.readyNum", said.ready_num, rule)


def _resources(said: ResourceSummary) -> Iterator[Cause]:
    path = "status.resourceSummary"
    for part, amounts in (
        ("allocatable", said.allocatable),
        ("allocating", said.allocating),
        ("allocated", said.allocated),
    ):
        for name, amount in sorted(amounts.items()):
            if quantities.parse(amount).nano < 0:
                yield invalid(f"{path}.{part}[{name}]", amount, NEGATIVE)
    known = set[int]()
    for index, one in enumerate(said.allocatable_modelings):
        for field, number in (("grade", one.grade), ("count", one.count)):
            if number < 0:
                yield invalid(f"{path}.allocatableModelings[{index}].{field}", number, NEGATIVE)
        if one.grade in known:
            yield duplicate(f"{path}.allocatableModelings[{index}].grade", one.grade, "count the nodes of a grade once")
        known.add(one.grade)


def _remedies(said: tuple[str, ...]) -> Iterator[Cause]:
    for index, one in enumerate(said):
        field = f"status.remedyActions[{index}]"
        if not one:
            yield required(field, "name the action, or leave it out")
        elif one in said[:index]:
            yield duplicate(field, one)
