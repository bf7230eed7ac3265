"""When an object in a member is healthy, for the kinds that have a rule (semantics 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.interpret.interpreter import Document


def deployment(doc: Document) -> bool:
    """Seen by its controller, all replicas updated, all of those available."""
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
    """Done, or running and ready."""
    status = _status(doc)
    if status.get("phase") == "Succeeded":
        return True
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ())
    return status.get("phase") == "Running" and ready


def service(doc: Document) -> bool:
    """A LoadBalancer needs an address; other Services need nothing."""
    spec = doc.get("spec") or {}
    return spec.get("type") != "LoadBalancer" or ingress(doc)


def ingress(doc: Document) -> bool:
    """A load balancer answered with an address or a name."""
    addresses = (_status(doc).get("loadBalancer") or {}).get("ingress") or ()
    return any(one.get("ip") or one.get("hostname") for one in addresses)


def persistent_volume_claim(doc: Document) -> bool:
    return bool(_status(doc).get("phase") == "Bound")


def pod_disruption_budget(doc: Document) -> bool:
    status = _status(doc)
    return _number(status, "currentHealthy") >= _number(status, "desiredHealthy")


def ready_replicas(status: Mapping[str, Any]) -> int:
    """Return how many replicas a member says are ready (D11: fewer than asked are not health)."""
    return _number(status, "readyReplicas")


def _spec_observed(doc: Document) -> bool:
    """The member's controller has looked at the present spec."""
    return _number(_status(doc), "observedGeneration") == _number(doc.get("metadata") or {}, "generation")


def _replicas(doc: Document) -> int | None:
    replicas = (doc.get("spec") or {}).get("replicas")
    return None if replicas is None else int(replicas)


def _status(doc: Document) -> Document:
    status = doc.get("status")
    return status if isinstance(status, dict) else {}


def _number(doc: Mapping[str, Any], field: str) -> int:
    return int(doc.get(field) or 0)
