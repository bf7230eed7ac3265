"""The index `nodePort`: finds the Services that use a node port. `admission.node_ports` reads it."""

from __future__ import annotations

from controlplane.kinds.template import Template

SERVICE = "Service"
NODE_PORT = "nodePort"
"""Name of the index."""


def node_ports(service: Template) -> list[str]:
    """Return the node ports of a Service as index values."""
    ports = service.spec.get("ports")
    numbers = {port.get("nodePort") for port in ports if isinstance(port, dict)} if isinstance(ports, list) else set()
    return sorted(str(number) for number in numbers if isinstance(number, int) and number)
