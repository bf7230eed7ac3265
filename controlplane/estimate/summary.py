"""From the nodes and pods of a member to its ResourceSummary: totals, and how many nodes are of which grade."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from controlplane.apimachinery.quantities import ZERO, Quantity, parse
from controlplane.estimate.models import grade_of
from controlplane.estimate.request import PODS
from controlplane.kinds.cluster import AllocatableModeling, NodeSummary, ResourceModel, ResourceSummary

Document = Mapping[str, Any]
Amounts = dict[str, Quantity]

_ONE: Final = parse("1")
_FINISHED: Final = ("Succeeded", "Failed")


def summarise(
    nodes: Sequence[Document], pods: Iterable[Document], models: Sequence[ResourceModel] = ()
) -> ResourceSummary:
    """Return what the member has, what is taken on its nodes, and what waits for a node.

    A node that is not Ready or is cordoned takes no new pod: it and its pods are left out (ours; S003 is silent, the
    original counts all nodes). A node without a free pod slot is of no grade. Without `models` no node is graded.
    Raises QuantityError where an amount is no quantity.
    """
    usable = {
        node["metadata"]["name"]: _amounts(node.get("status", {}).get("allocatable"))
        for node in nodes
        if takes_pods(node)
    }
    allocatable: Amounts = {}
    for amounts in usable.values():
        _add(allocatable, amounts)
    taken: dict[str, Amounts] = {}
    allocating: Amounts = {}
    for pod in pods:
        home = pod.get("spec", {}).get("nodeName", "")
        if not home:
            _add(allocating, requests_of(pod))
        elif home in usable and pod.get("status", {}).get("phase") not in _FINISHED:
            _add(taken.setdefault(home, {}), requests_of(pod))
    allocated: Amounts = {}
    for amounts in taken.values():
        _add(allocated, amounts)
    return ResourceSummary(
        allocatable=_texts(allocatable),
        allocating=_texts(allocating),
        allocated=_texts(allocated),
        allocatable_modelings=_grade(usable, taken, models) if models else (),
    )


def count_nodes(nodes: Iterable[Document]) -> NodeSummary:
    """Return how many nodes there are, and how many are Ready."""
    ready = [_ready(node) for node in nodes]
    return NodeSummary(total_num=len(ready), ready_num=sum(ready))


def takes_pods(node: Document) -> bool:
    """Test whether a node is Ready and not cordoned; one that reports no Ready condition counts as Ready."""
    return _ready(node) and not node.get("spec", {}).get("unschedulable", False)


def _ready(node: Document) -> bool:
    for one in node.get("status", {}).get("conditions") or ():
        if one.get("type") == "Ready":
            return bool(one.get("status") == "True")
    return True


def requests_of(pod: Document) -> Amounts:
    """Return what a pod takes of its node: its containers together, or the largest init container where that is more,
    plus overhead, plus one pod slot. Sidecars (init containers that keep running) count as containers."""
    spec = pod.get("spec", {})
    running: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        asked = _asked(container)
        if container.get("restartPolicy") == "Always":
            _add(running, asked)
            _raise(starting, running)
        else:
            together = dict(running)
            _add(together, asked)
            _raise(starting, together)
    for container in spec.get("containers") or ():
        _add(running, _asked(container))
    _raise(running, starting)
    _add(running, _amounts(spec.get("overhead")))
    _add(running, {PODS: _ONE})
    return running


def _asked(container: Document) -> Amounts:
    return _amounts((container.get("resources") or {}).get("requests"))


def _amounts(texts: Mapping[str, Any] | None) -> Amounts:
    return {name: Quantity.of(text) for name, text in (texts or {}).items()}


def _add(into: Amounts, amounts: Mapping[str, Quantity]) -> None:
    for name, amount in amounts.items():
        into[name] = into[name] + amount if name in into else amount


def _raise(into: Amounts, amounts: Mapping[str, Quantity]) -> None:
    for name, amount in amounts.items():
        into[name] = max(into.get(name, ZERO), amount)


def _texts(amounts: Amounts) -> dict[str, str]:
    return {name: str(amounts[name]) for name in sorted(amounts)}


def _grade(
    nodes: Mapping[str, Amounts], taken: Mapping[str, Amounts], models: Sequence[ResourceModel]
) -> tuple[AllocatableModeling, ...]:
    counts = [0] * len(models)
    for name, has in nodes.items():
        free = dict(has)
        for resource, amount in taken.get(name, {}).items():
            if resource in free:
                free[resource] = free[resource] - amount
        if free.get(PODS, ZERO).sign() > 0 and (grade := grade_of(models, free)) >= 0:
            counts[grade] += 1
    return tuple([AllocatableModeling(model.grade, count) for model, count in zip(models, counts, strict=True)])
