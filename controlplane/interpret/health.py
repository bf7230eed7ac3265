"""Health rules: whether the copy of an object on a member is healthy, by the status it has there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.interpret.interpreter import Document


def deployment(doc: Document) -> bool:
    """Test whether the controller has observed the spec, and all replicas are updated and available."""
    wanted, status = _replicas(doc), _status(doc)
    updated = _number(status, "updatedReplicas")
    return (
        _spec_observed(doc)
        and (wanted is None or updated >= wanted)
        and _number(status, "availableReplicas") >= updated
    )


def replica_set(doc: Document) -> bool:
    wanted = _replicas(doc)
    return _spec_observed(doc) and (wanted is None or _number(_status(doc), "availableReplicas") >= wanted)


def daemon_set(doc: Document) -> bool:
    status = _status(doc)
    updated = _number(status, "updatedNumberScheduled")
    return (
        _spec_observed(doc)
        and updated >= _number(status, "desiredNumberScheduled")
        and _number(status, "numberAvailable") >= updated
    )


def pod(doc: Document) -> bool:
    """Test whether a pod has succeeded, or is running and ready."""
    status = _status(doc)
    if status.get("phase") == "Succeeded":
        return True
    ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    return status.get("phase") == "Running" and ready


def service(doc: Document) -> bool:
    """Test whether a LoadBalancer has an address. Other Services are always healthy."""
    spec = doc.get("spec") or {}
    return spec.get("type") != "LoadBalancer" or ingress(doc)


def ingress(doc: Document) -> bool:
    """Test whether the load balancer has reported an IP address or a host name."""
    addresses = (_status(doc).get("loadBalancer") or {}).get("ingress") or ()
    return any(address.get("ip") or address.get("hostname") for address in addresses)


def persistent_volume_claim(doc: Document) -> bool:
    return bool(_status(doc).get("phase") == "Bound")


def pod_disruption_budget(doc: Document) -> bool:
    status = _status(doc)
    return _number(status, "currentHealthy") >= _number(status, "desiredHealthy")


def ready_replicas(status: Mapping[str, Any]) -> int:
    """Return the number of replicas that a member reports as ready.

    A copy with fewer ready replicas than requested does not count as healthy [graceful-timeout].
    """
    return _number(status, "readyReplicas")


def _spec_observed(doc: Document) -> bool:
    """Test whether the member's controller has observed the latest generation of the spec."""
    return _number(_status(doc), "observedGeneration") == _number(doc.get("metadata") or {}, "generation")


def _replicas(doc: Document) -> int | None:
    replicas = (doc.get("spec") or {}).get("replicas")
    return None if replicas is None else int(replicas)


def _status(doc: Document) -> Document:
    status = doc.get("status")
    return status if isinstance(status, dict) else {}


def _number(doc: Mapping[str, Any], field: str) -> int:
    return int(doc.get(field) or 0)
