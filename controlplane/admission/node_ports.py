"""Node ports of Services: allocated here, so that all members use the same [node-ports].

A member allocates a node port itself if the manifest has none. Then every member has another one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import Cause, Invalid
from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import State
from controlplane.kinds.template import Template
from controlplane.kinds.template.node_port_index import NODE_PORT, SERVICE

FIRST: Final = 30086  # 30000 to 30085 are left to users who choose a port, as kube-apiserver does
LAST: Final = 32767
CANDIDATES: Final = 64  # ports that are looked up at once

Port = dict[str, Any]


def with_node_ports(state: State, service: Any, old: Any) -> Any:
    """Return a Service in which every port that needs a node port has one. A port keeps the one it has.

    `old`: the stored Service; None: it is created.

    Raises Invalid if a node port that the author chose belongs to another Service. Two Services that are created in the
    same moment may get the same port, if their names also lead to the same first choice; the members then refuse the
    second, and the condition Applied of its Works is False.
    """
    ports = service.spec.get("ports")
    if not isinstance(ports, list) or not all(isinstance(port, dict) for port in ports):
        return service
    ports = [_kept(port, old) if _needs_node_ports(service) else port for port in ports]
    _refuse_taken(state, service, ports, old)
    missing = [index for index, port in enumerate(ports) if _needs_node_ports(service) and not port.get("nodePort")]
    free = iter(_free(state, service, ports, count=len(missing)))
    allocated = [{**port, "nodePort": next(free)} if index in missing else port for index, port in enumerate(ports)]
    if allocated == service.spec["ports"]:
        return service
    return service.with_content({**service.content, "spec": {**service.spec, "ports": allocated}})


def _needs_node_ports(service: Template) -> bool:
    kind = service.spec.get("type")
    return kind == "NodePort" or (
        kind == "LoadBalancer" and service.spec.get("allocateLoadBalancerNodePorts") is not False
    )


def _kept(port: Port, old: Template | None) -> Port:
    """Return a port with the node port that it has in the stored Service, unless it names a node port itself."""
    if port.get("nodePort") or old is None:
        return port
    for stored in old.spec.get("ports") or ():
        if _identity(stored) == _identity(port) and stored.get("nodePort"):
            return {**port, "nodePort": stored["nodePort"]}
    return port


def _identity(port: Port) -> tuple[Any, Any]:
    return port.get("protocol") or "TCP", port.get("port")


def _refuse_taken(state: State, service: Template, ports: list[Port], old: Template | None) -> None:
    """Raise Invalid if a node port belongs to another Service. Node ports that the Service has already are not checked
    again."""
    before = {port.get("nodePort") for port in (old.spec.get("ports") or () if old is not None else ())}
    chosen = {port["nodePort"] for port in ports if isinstance(port.get("nodePort"), int)} - before
    taken = _taken(state, service.ref, chosen)
    causes: list[Cause] = [
        invalid(f"spec.ports[{index}].nodePort", port["nodePort"], "provided port is already allocated")
        for index, port in enumerate(ports)
        if port.get("nodePort") in taken
    ]
    if causes:
        raise Invalid.of(SERVICE, service.metadata.name, causes)


def _taken(state: State, own: Ref, wanted: set[int]) -> set[int]:
    """Return which of these node ports belong to other Services. Without any, no query is made."""
    values = [str(number) for number in sorted(wanted)]
    found = state.by_index(SERVICE, NODE_PORT, values) if values else {}
    return {int(value) for value, services in found.items() if any(item.ref != own for item in services)}


def _free(state: State, service: Template, ports: list[Port], *, count: int) -> list[int]:
    """Return `count` node ports that no Service uses. Their order of choice depends on the Service alone.

    Raises Invalid if there are none left.
    """
    found: list[int] = []
    used = {port.get("nodePort") for port in ports}
    candidates = _candidates(service)
    while len(found) < count:
        batch = [number for number in islice(candidates, CANDIDATES) if number not in used]
        if not batch:
            cause = invalid(
                "spec.ports", count, f"all node ports from {FIRST} to {LAST} are allocated: delete Services"
            )
            raise Invalid.of(SERVICE, service.metadata.name, [cause])
        taken = _taken(state, service.ref, set(batch))
        found += [number for number in batch if number not in taken][: count - len(found)]
    return found


def _candidates(service: Template) -> Iterator[int]:
    """Yield all node ports once, beginning at one that depends on the name of the Service."""
    size = LAST - FIRST + 1
    start = zlib.crc32(str(service.ref).encode()) % size
    return (FIRST + (start + step) % size for step in range(size))
