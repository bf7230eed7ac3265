"""`make node-rooms`: divides Deployments by the room that single nodes of three real members have.

Each member gets nodes with labels, taints and pods. A Deployment has as many replicas as fit. Fails if a cluster gets
another number than its nodes have room for, by what the member's own API says of its nodes and pods.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from controlplane.apimachinery.quantities import parse
from tests.lab import kubectl, listed, members, stack
from tests.processes import until

SPACE: Final = "rooms"
WITHIN: Final = 180.0
NOT_READY: Final = "node.kubernetes.io/not-ready"  # of every new node; no controller of the lab's members removes it
SSD: Final = {"disk": "ssd"}
GPU: Final = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
OTHER: Final = {"key": "other", "effect": "NoSchedule"}
# The resource models count as well, and the smaller number decides. They put a node into the grade of its scarcest
# resource, so a large node has much of both.
LARGE: Final = {"cpu": "32", "memory": "256Gi"}

Document = dict[str, Any]


class Node(NamedTuple):
    """A node of a member. `used`: requests of a pod that runs on it."""

    name: str
    size: Mapping[str, str]
    labels: Mapping[str, str] = SSD
    taints: Sequence[Document] = ()
    used: Mapping[str, str] | None = None
    cordoned: bool = False
    ready: bool = True


class Case(NamedTuple):
    """What the pods of a Deployment ask for."""

    requests: Mapping[str, str]
    selector: Mapping[str, str] = SSD
    tolerations: Sequence[Document] = ()


NODES: Final = {
    "member1": (
        Node("used", {"cpu": "4", "memory": "8Gi"}, used={"cpu": "1500m", "memory": "100Mi"}),
        Node("free", {"cpu": "4", "memory": "8Gi"}),
        Node("slow", LARGE, labels={"disk": "hdd"}),
    ),
    "member2": (
        Node("small", {"cpu": "2", "memory": "8Gi"}),
        Node("gpu", {"cpu": "8", "memory": "8Gi"}, taints=[GPU]),
        Node("other", LARGE, taints=[OTHER]),
        Node("cordoned", LARGE, cordoned=True),
    ),
    "member3": (
        Node("little-memory", {"cpu": "16", "memory": "3Gi"}),
        Node("few-pods", {"cpu": "16", "memory": "64Gi", "pods": "2"}, used={"cpu": "100m", "memory": "100Mi"}),
        Node("not-ready", LARGE, ready=False),
    ),
}
TOLERATED: Final = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
CASES: Final = {
    "selector-and-toleration": Case({"cpu": "500m", "memory": "256Mi"}, tolerations=[TOLERATED]),
    "selector": Case({"cpu": "500m", "memory": "256Mi"}),
    "much-memory": Case({"cpu": "100m", "memory": "2Gi"}, tolerations=[TOLERATED]),
    "one-member": Case({"cpu": "6", "memory": "1Gi"}, selector={"disk": "hdd"}),
}
POLICY: Final[Document] = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": "rooms", "namespace": SPACE},
    "spec": {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
        "placement": {
            "replicaScheduling": {
                "replicaSchedulingType": "Divided",
                "replicaDivisionPreference": "Weighted",
                "weightPreference": {"dynamicWeight": "AvailableReplicas"},
            }
        },
    },
}
ACCURATE: Final[Document] = {
    "apiVersion": "failover.lifeboat.io/v1alpha1",
    "kind": "FailoverConfiguration",
    "metadata": {"name": "default"},
    "spec": {"enableSchedulerEstimator": True},
}


def main() -> int:
    """Run all cases. Raises AssertionError at the first number that is not the expected one."""
    parser = argparse.ArgumentParser(prog="make node-rooms")
    parser.add_argument("--lab", type=Path, required=True, help="folder with the programs and scripts of members")
    parser.add_argument("--dir", type=Path, required=True, help="folder for members and the stack")
    arguments = parser.parse_args()
    lab, folder = arguments.lab.resolve(), arguments.dir.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "LAB": str(folder)}
    with members(lab, environment) as configs, stack(folder / "stack", environment, configs) as kubeconfig:
        for config in configs:
            for node in NODES[config.stem]:
                _create_node(config, node)
            kubectl(config, "taint", "nodes", "-l", "disk", f"{NOT_READY}:NoSchedule-")
        for document in (
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}},
            ACCURATE,
            POLICY,
        ):
            kubectl(kubeconfig, "apply", "-f", "-", given=document)
        until(lambda: _reported(kubeconfig), within=WITHIN)
        for name, case in CASES.items():
            _check(kubeconfig, configs, name, case)
    return 0


def _create_node(config: Path, node: Node) -> None:
    spec: Document = {"taints": list(node.taints), "unschedulable": node.cordoned}
    metadata = {"name": node.name, "labels": dict(node.labels)}
    kubectl(config, "create", "-f", "-", given={"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})
    size = {"pods": "110", **node.size}
    ready = {"type": "Ready", "status": str(node.ready), "reason": "Test"}
    status = {"status": {"capacity": size, "allocatable": size, "conditions": [ready]}}
    kubectl(config, "patch", "node", node.name, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    if node.used is not None:
        container = {"name": "used", "image": "nginx", "resources": {"requests": dict(node.used)}}
        pod = {"nodeName": node.name, "containers": [container]}
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"on-{node.name}"}, "spec": pod}
        kubectl(config, "create", "-n", "default", "-f", "-", given=document)


def _reported(kubeconfig: Path) -> bool:
    """Test whether the control plane knows the nodes without their first taint."""
    summaries = [one["status"].get("resourceSummary", {}) for one in listed(kubeconfig, "clusters", *NODES)]
    pools = [pool for summary in summaries for pool in summary.get("nodePools", ()) if "disk" in pool["labels"]]
    taints = [taint["key"] for pool in pools for taint in pool.get("taints", ())]
    used = [summary for summary in summaries if summary.get("allocated")]
    return bool(pools) and NOT_READY not in taints and len(used) == 2


def _check(kubeconfig: Path, configs: Sequence[Path], name: str, case: Case) -> None:
    rooms = {config.stem: sum(_room(config, case).values()) for config in configs}
    print(f"{name}: room by the members' nodes {rooms}", flush=True)
    expected = {cluster: room for cluster, room in rooms.items() if room}
    kubectl(kubeconfig, "apply", "-f", "-", given=_deployment(name, case, replicas=sum(rooms.values())))

    def divided() -> dict[str, int]:
        bindings = listed(kubeconfig, "resourcebindings", "-n", SPACE)
        return {target["name"]: target["replicas"] for one in bindings for target in one["spec"].get("clusters", ())}

    found = until(divided, within=WITHIN)
    print(f"{name}: divided {found}", flush=True)
    assert found == expected, (found, expected)
    until(lambda: all(len(_pods(config)) == rooms[config.stem] for config in configs), within=WITHIN)
    kubectl(kubeconfig, "delete", "deployment", name, "-n", SPACE)
    until(lambda: not any(_pods(config) for config in configs), within=WITHIN)
    until(lambda: not divided(), within=WITHIN)


def _room(config: Path, case: Case) -> dict[str, int]:
    """Return how many pods of a case each node of a member takes, by its nodes and pods."""
    pods = [pod for pod in listed(config, "pods", "-A") if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    rooms = {}
    for node in listed(config, "nodes"):
        labels, spec = node["metadata"]["labels"], node["spec"]
        ready = [one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready"] == ["True"]
        tolerated = {one["key"] for one in case.tolerations}
        taken = all(taint["key"] in tolerated for taint in spec.get("taints", ()))
        cordoned = spec.get("unschedulable", False)
        if cordoned or not (ready and taken and case.selector.items() <= labels.items()):
            continue
        here = [pod for pod in pods if pod["spec"].get("nodeName") == node["metadata"]["name"]]
        free = node["status"]["allocatable"]
        fits = [int(free["pods"]) - len(here)]
        for resource, wanted in case.requests.items():
            used = [each["resources"].get("requests", {}) for pod in here for each in pod["spec"]["containers"]]
            left = _milli(free[resource]) - sum(_milli(one.get(resource, "0")) for one in used)
            fits.append(left // _milli(wanted))
        rooms[node["metadata"]["name"]] = max(0, min(fits))
    return rooms


def _milli(quantity: str) -> int:
    return int(parse(quantity).milli_value())


def _deployment(name: str, case: Case, *, replicas: int) -> Document:
    container = {"name": "main", "image": "nginx", "resources": {"requests": dict(case.requests)}}
    pod = {
        "nodeSelector": dict(case.selector),
        "tolerations": list(case.tolerations),
        "containers": [container],
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def _pods(config: Path) -> list[Document]:
    return listed(config, "pods", "-n", SPACE)


if __name__ == "__main__":
    sys.exit(main())
