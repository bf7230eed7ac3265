"""The status with which kube-apiserver stores a new object, where clients show it: phases, and the QoS of pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from controlplane.apimachinery.quantities import Quantity
from controlplane.kube.rules import Document

_COMPUTE = ("cpu", "memory")  # the resources that decide about the QoS class


def initial_status(kind: str, spec: Document) -> Document:
    """Return the status of a new object of a built-in kind ("Pod") with this spec, defaults included.

    {}: kube-apiserver stores none, or only zeros.
    """
    made = _MADE.get(kind)
    return {} if made is None else made(spec)


def _pending(spec: Document) -> Document:
    return {"phase": "Pending"}


def _pod(spec: Document) -> Document:
    return {"phase": "Pending", "qosClass": _qos_class(spec)}


def _qos_class(spec: Document) -> str:
    """Return the QoS class of a pod: Guaranteed, Burstable or BestEffort.

    Guaranteed: every container has limits of CPU and memory, and its requests are equal to them. BestEffort: no
    container asks for CPU or memory. Amounts of 0 do not count. Resources of the pod, if set, replace its containers'.
    """
    asked = [_amounts(resources) for resources in _resources(spec)]
    if not any(requests or limits for requests, limits in asked):
        return "BestEffort"
    guaranteed = all(len(limits) == len(_COMPUTE) and requests == limits for requests, limits in asked)
    return "Guaranteed" if guaranteed else "Burstable"


def _resources(spec: Document) -> Iterator[Document]:
    if spec.get("resources"):
        yield spec["resources"]
        return
    for part in ("containers", "initContainers"):
        for container in spec.get(part) or ():
            yield container.get("resources") or {}


def _amounts(resources: Document) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    """Return the requests and the limits of CPU and memory that are above 0."""
    requests, limits = (
        {
            name: amount
            for name, text in (resources.get(part) or {}).items()
            if name in _COMPUTE and (amount := Quantity.of(text)).sign() > 0
        }
        for part in ("requests", "limits")
    )
    return requests, limits


_MADE: dict[str, Callable[[Any], Document]] = {
    "PersistentVolume": _pending,
    "PersistentVolumeClaim": _pending,
    "Pod": _pod,
}
