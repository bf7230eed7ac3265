"""The resource request of one pod: the sum of its containers, or its largest init container if that is larger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from controlplane.apimachinery.quantities import BINARY_SI, DECIMAL_SI, NANO, Quantity
from controlplane.kinds.binding import NodeClaim, ReplicaRequirements

Document = Mapping[str, Any]
_TOLERATION = ("key", "operator", "value", "effect", "tolerationSeconds")
Amounts = dict[str, int]  # cpu in milli, everything else in whole units


def of_pod(spec: Document) -> ReplicaRequirements | None:
    """Return what one replica with this pod spec needs; None: it needs nothing in particular."""
    claim, request = _node_claim(spec), _request(spec)
    if claim is None and not request:
        return None
    return ReplicaRequirements(
        node_claim=claim, resource_request={name: _quantity_text(name, request[name]) for name in request}
    )


def _node_claim(spec: Document) -> NodeClaim | None:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    hard = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    selector, tolerations = spec.get("nodeSelector") or {}, spec.get("tolerations") or ()
    if not hard and not selector and not tolerations:
        return None
    return NodeClaim(hard_node_affinity=hard, node_selector=selector, tolerations=tuple(map(_known, tolerations)))


def _known(toleration: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that Kubernetes knows in a toleration. Kinds of other projects accept any field."""
    return {name: toleration[name] for name in _TOLERATION if name in toleration}


def _request(spec: Document) -> Amounts:
    """Return the amounts above zero, sorted by resource name."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _container(container))
    _cover_init(total, spec.get("initContainers") or ())
    _add(total, _amounts(spec.get("overhead") or {}))
    return {name: total[name] for name in sorted(total) if total[name] > 0}


def _cover_init(total: Amounts, containers: Iterable[Document]) -> None:
    """Raise the total to what the start of the pod needs.

    Init containers run one after the other, so the largest one counts. Sidecars (restartPolicy Always) keep running, so
    they are added to the total and to each init container after them.
    """
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in containers:
        needs = _container(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, needs)
            _raise_to(peak, sidecars)
        else:
            _raise_to(peak, {name: needs.get(name, 0) + sidecars.get(name, 0) for name in {*needs, *sidecars}})
    _add(total, sidecars)
    _raise_to(total, peak)


def _container(container: Document) -> Amounts:
    """Return the requests of a container. A limit counts as the request if there is no request."""
    resources = container.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(quantities: Document) -> Amounts:
    found = {}
    for name, text in quantities.items():
        amount = Quantity.of(text)
        found[name] = amount.milli_value() if name == "cpu" else amount.value()
    return found


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        if amount > total.get(name, 0):
            total[name] = amount


def _quantity_text(name: str, amount: int) -> str:
    if name == "cpu":
        return str(Quantity(amount * (NANO // 1000), DECIMAL_SI))
    binary = name in ("memory", "ephemeral-storage") or name.startswith("hugepages-")
    return str(Quantity(amount * NANO, BINARY_SI if binary else DECIMAL_SI))
