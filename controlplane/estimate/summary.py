"""Computes the ResourceSummary of a member cluster from its nodes and pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from controlplane.apimachinery.quantities import ZERO, Quantity, parse
from controlplane.estimate.node_pools import pools_of
from controlplane.estimate.request import PODS
from controlplane.estimate.resource_models import grade_of
from controlplane.kinds.cluster import AllocatableModeling, NodePool, NodeSummary, ResourceModel, ResourceSummary

Document = Mapping[str, Any]
Amounts = dict[str, Quantity]

_ONE: Final = parse("1")
_FINISHED: Final = ("Succeeded", "Failed")


def summarise(
    nodes: Sequence[Document],
    pods: Iterable[Document],
    models: Sequence[ResourceModel] = (),
    *,
    single_nodes: bool = False,
) -> ResourceSummary:
    """Return the member's capacity, what its pods request of it, and what pods without a node request.

    Nodes that are not Ready or are cordoned take no new pods, so they and their pods are not counted. Karmada counts
    all nodes. A node without a free pod slot has no grade. Without `models` no node is graded.
    `single_nodes`: the summary also says what nodes have free, by their labels and taints [node-estimate].
    Raises QuantityError if an amount is not a quantity.
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
        node_name = pod.get("spec", {}).get("nodeName", "")
        if not node_name:
            _add(allocating, requests_of(pod))
        elif node_name in usable and pod.get("status", {}).get("phase") not in _FINISHED:
            _add(taken.setdefault(node_name, {}), requests_of(pod))
    allocated: Amounts = {}
    for amounts in taken.values():
        _add(allocated, amounts)
    pools, unlisted = _pools(nodes, usable, taken) if single_nodes else ((), ())
    return ResourceSummary(
        node_pools=pools,
        unlisted_node_labels=unlisted,
        allocatable=_texts(allocatable),
        allocating=_texts(allocating),
        allocated=_texts(allocated),
        allocatable_modelings=_grade(usable, taken, models) if models else (),
    )


def _pools(
    nodes: Sequence[Document], usable: Mapping[str, Amounts], taken: Mapping[str, Amounts]
) -> tuple[tuple[NodePool, ...], tuple[str, ...]]:
    documents = {node["metadata"]["name"]: node for node in nodes}
    return pools_of((documents[name], _left(offered, taken.get(name, {}))) for name, offered in usable.items())


def _left(allocatable: Amounts, taken: Amounts) -> Amounts:
    """Return what a node has left of what it offers."""
    return {name: amount - taken.get(name, ZERO) for name, amount in allocatable.items()}


def count_nodes(nodes: Iterable[Document]) -> NodeSummary:
    """Return how many nodes there are, and how many are Ready."""
    ready = [_ready(node) for node in nodes]
    return NodeSummary(total_num=len(ready), ready_num=sum(ready))


def takes_pods(node: Document) -> bool:
    """Test whether a node is Ready and not cordoned. A node without a Ready condition counts as Ready."""
    return _ready(node) and not node.get("spec", {}).get("unschedulable", False)


def _ready(node: Document) -> bool:
    for condition in node.get("status", {}).get("conditions") or ():
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return True


def requests_of(pod: Document) -> Amounts:
    """Return what a pod requests of its node, as kube-scheduler computes it.

    That is the sum of its containers, or the largest init container if that is more, plus overhead and one pod slot.
    Sidecars (init containers with restartPolicy Always) count as containers.
    """
    spec = pod.get("spec", {})
    running: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        requested = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(running, requested)
            _raise(starting, running)
        else:
            with_sidecars = dict(running)
            _add(with_sidecars, requested)
            _raise(starting, with_sidecars)
    for container in spec.get("containers") or ():
        _add(running, _requests(container))
    _raise(running, starting)
    _add(running, _amounts(spec.get("overhead")))
    _add(running, {PODS: _ONE})
    return running


def _requests(container: Document) -> Amounts:
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
    for name, allocatable in nodes.items():
        free = _left(allocatable, taken.get(name, {}))
        if free.get(PODS, ZERO).sign() > 0 and (grade := grade_of(models, free)) >= 0:
            counts[grade] += 1
    return tuple([AllocatableModeling(model.grade, count) for model, count in zip(models, counts, strict=True)])
