"""The nodes of a member and their free capacity."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from controlplane.apimachinery.quantities import QuantityError, parse

Document = dict[str, Any]


class NodeShape(msgspec.Struct, frozen=True):
    """The size and labels of each node. The hostname label is added to `labels`."""

    count: int = 3
    cpu: str = "8"
    memory: str = "32Gi"
    pods: int = 110
    labels: dict[str, str] = {}


class Amount(NamedTuple):
    """Capacity or requests: thousandths of a CPU, bytes of memory, pods."""

    cpu: int
    memory: int
    pods: int

    def plus(self, other: Amount, sign: int = 1) -> Amount:
        """Return the sum; sign -1: the difference."""
        return Amount(self.cpu + sign * other.cpu, self.memory + sign * other.memory, self.pods + sign * other.pods)

    def holds(self, other: Amount) -> bool:
        """Test whether the other amount fits into this one."""
        return self.cpu >= other.cpu and self.memory >= other.memory and self.pods >= other.pods


NOTHING = Amount(0, 0, 0)


class NodeCapacity:
    """The capacity of each node, and how much of it pods use."""

    def __init__(self) -> None:
        self._offered: dict[str, Amount] = {}
        self._taken: dict[str, Amount] = {}
        self._nodes: dict[str, Document] = {}

    def set_node(self, name: str, document: Document | None) -> None:
        """Update a node. document None: it was removed."""
        if document is None:
            self._nodes.pop(name, None)
            self._offered.pop(name, None)
            return
        offered = (document.get("status") or {}).get("allocatable") or {}
        self._nodes[name] = document
        self._offered[name] = Amount(
            parse(str(offered.get("cpu", "0"))).milli_value(),
            parse(str(offered.get("memory", "0"))).value(),
            parse(str(offered.get("pods", "0"))).value(),
        )

    def nodes(self) -> list[Document]:
        """Return the nodes that accept pods."""
        return [node for node in self._nodes.values() if usable(node)]

    def is_ready(self, name: str) -> bool:
        """Test whether a node exists and is Ready."""
        return name in self._nodes and ready(self._nodes[name])

    def take(self, node: str, demand: Amount, sign: int = 1) -> None:
        """Add the requests of a pod to a node; sign -1: subtract them."""
        self._taken[node] = self._taken.get(node, NOTHING).plus(demand, sign)

    def place(self, spec: Document, demand: Amount) -> str | None:
        """Return the usable node with the most free capacity that fits a pod; None: no node fits."""
        selector = spec.get("nodeSelector") or {}
        best: tuple[Amount, str] | None = None
        for name, node in self._nodes.items():
            free = self._offered[name].plus(self._taken.get(name, NOTHING), -1)
            if not usable(node) or not free.holds(demand) or not _selected(selector, node):
                continue
            if best is None or free > best[0]:
                best = (free, name)
        return best[1] if best else None


def demand_of(spec: Document) -> Amount:
    """Return the total requests of a pod's containers. Quantities that cannot be parsed count as 0."""
    cpu = memory = 0
    for container in spec.get("containers") or ():
        requests = (container.get("resources") or {}).get("requests") or {}
        try:
            cpu += parse(str(requests.get("cpu", "0"))).milli_value()
            memory += parse(str(requests.get("memory", "0"))).value()
        except QuantityError:
            continue
    return Amount(cpu, memory, 1)


def node(name: str, shape: NodeShape, *, now: str) -> Document:
    """Return a Node that is Ready."""
    offered = {"cpu": shape.cpu, "memory": shape.memory, "pods": str(shape.pods), "ephemeral-storage": "100Gi"}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **shape.labels,
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "capacity": offered,
            "allocatable": offered,
            "conditions": [ready_condition(True, now=now)],
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {"kubeletVersion": "v1.32.0", "operatingSystem": "linux", "architecture": "amd64"},
        },
    }


def ready_condition(is_ready: bool, *, now: str) -> Document:
    """Return the Ready condition of a Node."""
    reason = "KubeletReady" if is_ready else "KubeletNotReady"
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return {"type": "Ready", "status": "True" if is_ready else "False", "reason": reason, "message": reason, **times}


def ready(node: Document) -> bool:
    """Test whether the Ready condition of a Node is True."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


def usable(node: Document) -> bool:
    """Test whether a Node accepts pods: it is Ready, schedulable, and has no taint that keeps pods off."""
    spec = node.get("spec") or {}
    kept_off = any(taint.get("effect") in ("NoSchedule", "NoExecute") for taint in spec.get("taints") or ())
    return ready(node) and not spec.get("unschedulable") and not kept_off


def _selected(selector: dict[str, str], node: Document) -> bool:
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in selector.items())
