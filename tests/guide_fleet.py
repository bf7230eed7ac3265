"""The clusters of the page on resource models as their members show them, nodes and pods, and what the guide says of
them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Document = dict[str, Any]


class Shown(NamedTuple):
    """What a member shows of itself."""

    nodes: list[Document]
    pods: list[Document]


class Row(NamedTuple):
    """One table of the guide: what one replica asks for, the room on member1, 2 and 3, and where it goes."""

    clusters: Mapping[str, Shown]
    graded: bool
    requests: dict[str, str]
    room: tuple[int, int, int]
    preferred: str


def node(name: str, cpu: str, memory: str, *, pods: int = 110) -> Document:
    ready = [{"type": "Ready", "status": "True"}]
    allocatable = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    return {"metadata": {"name": name}, "status": {"allocatable": allocatable, "conditions": ready}}


def pod(on: str, requests: dict[str, str], *, name: str = "p") -> Document:
    containers = [{"name": "main", "image": "nginx", "resources": {"requests": requests}}]
    return {"metadata": {"name": name}, "spec": {"nodeName": on, "containers": containers}, "status": {}}


def _nodes(**by_size: int) -> Shown:
    """Return as many nodes of each size, written cpu_memory: c2_16=1 is one node with 2 cpu and 16Gi free."""
    found = []
    for size, many in by_size.items():
        cpu, memory = size[1:].split("_")
        found += [node(f"{size.replace('_', '-')}-{number}", cpu, f"{memory}Gi") for number in range(many)]
    return Shown(found, [])


def _busy(pods: int, cpu: str) -> Shown:
    """Return a node of four cpu with so many pods, the first of which asks for that much."""
    taken = [pod("only", {"cpu": cpu} if number == 0 else {}, name=f"busy-{number}") for number in range(pods)]
    return Shown([node("only", "4", "16265856Ki")], taken)


PLAIN = {"member1": _busy(11, "950m"), "member2": _busy(11, "2"), "member3": _busy(110, "2")}
"""3.05 cpu free, 2 cpu free, and no pod slot free."""

MODELLED = {"member1": _nodes(c2_16=1, c5_62=6), "member2": _nodes(c2_16=4, c5_62=4), "member3": _nodes(c32_256=1)}
"""The guide tells grades; those of grade 3 are so large here that they do hold the 60Gi it puts on them."""

TABLES = (
    Row(PLAIN, False, {"cpu": "500m"}, (6, 4, 0), "member1"),
    Row(MODELLED, True, {"cpu": "3", "memory": "20Gi"}, (7, 8, 10), "member3"),
    Row(MODELLED, True, {"cpu": "3", "memory": "60Gi"}, (6, 4, 4), "member1"),
)

THREE_GRADES = [
    {"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "1"}, {"name": "memory", "min": "0", "max": "4Gi"}]},
    {"grade": 1, "ranges": [{"name": "cpu", "min": "1", "max": "2"}, {"name": "memory", "min": "4Gi", "max": "16Gi"}]},
    {
        "grade": 2,
        "ranges": [
            {"name": "cpu", "min": "2", "max": "9223372036854775807"},
            {"name": "memory", "min": "16Gi", "max": "9223372036854775807"},
        ],
    },
]
"""The guide's own models; a node with 0.5 cpu and 2Gi free is of grade 0, one with 1.5 cpu and 10Gi of grade 1."""

BY_ROOM = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: by-room
  namespace: default
spec:
  resourceSelectors:
    - apiVersion: apps/v1
      kind: Deployment
  placement:
    spreadConstraints: %s
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference:
        dynamicWeight: AvailableReplicas
"""
ON_ONE_CLUSTER = BY_ROOM % "[{spreadByField: cluster, minGroups: 1, maxGroups: 1}]"
ANYWHERE = BY_ROOM % "[]"
