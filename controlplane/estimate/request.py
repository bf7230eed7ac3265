"""The resources that one replica requests, as whole numbers in the units of free capacity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.as_written import plain
from controlplane.apimachinery.quantities import MAX_INT64, Quantity, parse
from controlplane.kinds.binding import Component, ReplicaRequirements, ResourceBindingSpec
from controlplane.kinds.policy import Toleration

CPU, PODS = "cpu", "pods"


class QuotaScope(msgspec.Struct, frozen=True):
    """What the ResourceQuotas of members select pods by: their namespace and priority class ("": none)."""

    namespace: str
    priority_class: str = ""


class NodeRequirement(msgspec.Struct, frozen=True):
    """A condition on a label of a node, or on its name (`of_field`). `operator`: In, NotIn, Exists, DoesNotExist, Gt
    or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    of_field: bool = False


class NodeTerms(msgspec.Struct, frozen=True):
    """Which nodes the pods of a replica may be placed on.

    `selector`: labels that a node must have. `affinity`: a node must meet all requirements of one of these terms; None:
    there is no affinity. `tolerations`: those of the pods.
    """

    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[tuple[NodeRequirement, ...], ...] | None = None
    tolerations: tuple[Toleration, ...] = ()


class Request(msgspec.Struct, frozen=True):
    """Positive amounts by resource name, sorted: cpu in thousandths, everything else in whole units, rounded up."""

    amounts: tuple[tuple[str, int], ...] = ()
    slot_only: bool = False
    """True: the workload states no requirements, so a replica needs a pod slot and nothing else."""
    quota: QuotaScope | msgspec.UnsetType = msgspec.UNSET
    """Unset: the quotas of members are not considered, because the gate ResourceQuotaEstimate is off."""
    nodes: NodeTerms | msgspec.UnsetType = msgspec.UNSET
    """Unset: single nodes are not considered, because `enable_scheduler_estimator` is off."""

    def of(self, resource: str) -> int:
        """Return the requested amount of a resource; 0 if it is not requested."""
        return next((amount for name, amount in self.amounts if name == resource), 0)


class Bundle(msgspec.Struct, frozen=True):
    """One set of a workload that consists of several components. `parts`: (replicas, request) of each component."""

    parts: tuple[tuple[int, Request], ...] = ()

    @property
    def pods(self) -> int:
        return sum(replicas for replicas, _ in self.parts)

    @property
    def total(self) -> Request:
        """The sum of the requests of the whole set, limited to 64 bits as each request is."""
        sums: dict[str, int] = {}
        for replicas, request in self.parts:
            for name, amount in request.amounts:
                sums[name] = sums.get(name, 0) + replicas * amount
        return Request(tuple(sorted((name, min(amount, MAX_INT64)) for name, amount in sums.items() if amount > 0)))


Asked = Request | Bundle
NOTHING_ASKED = Request(slot_only=True)


def scaled(resource: str, amount: Quantity) -> int:
    """Return an amount in the unit of its resource (thousandths of cpu, else whole units), limited to 64 bits."""
    number = amount.milli_value() if resource == CPU else amount.value()
    return max(-MAX_INT64, min(MAX_INT64, number))


def request_of(requirements: ReplicaRequirements | None) -> Request:
    """Return the request of one replica. `requirements` None: a replica needs only a pod slot.

    Raises QuantityError if an amount is not a quantity.
    """
    return NOTHING_ASKED if requirements is None else request_from(requirements.resource_request)


def request_from(amounts: Mapping[str, str]) -> Request:
    """Return the request for quantities written as text. Raises QuantityError if an amount is not a quantity."""
    return _request(tuple(sorted(amounts.items())))


@lru_cache(maxsize=65_536)
def _request(amounts: tuple[tuple[str, str], ...]) -> Request:
    numbers = ((name, scaled(name, parse(text))) for name, text in amounts)
    return Request(tuple((name, number) for name, number in numbers if number > 0))


def bundle_of(components: Iterable[Component]) -> Bundle:
    """Return one set of the components. Raises QuantityError if an amount is not a quantity."""
    return Bundle(tuple((part.replicas, request_of(part.replica_requirements)) for part in components))


def in_namespace(asked: Asked, spec: ResourceBindingSpec) -> Asked:
    """Return the request of a binding as one that the quotas of its namespace on members limit."""
    namespace = spec.resource.namespace
    if not namespace:
        return asked
    if isinstance(asked, Request):
        return _limited(asked, namespace, spec.replica_requirements)
    parts = zip(asked.parts, spec.components, strict=True)
    return Bundle(
        tuple((count, _limited(request, namespace, one.replica_requirements)) for (count, request), one in parts)
    )


def _limited(request: Request, namespace: str, requirements: ReplicaRequirements | None) -> Request:
    if not request.amounts:
        return request
    scope = QuotaScope(namespace, "" if requirements is None else requirements.priority_class_name)
    return replace(request, quota=scope)


def namespace_of(asked: Asked) -> str:
    """Return the namespace whose quotas limit a request; "": no quota does."""
    for request in (request for _, request in asked.parts) if isinstance(asked, Bundle) else (asked,):
        if isinstance(request.quota, QuotaScope):
            return request.quota.namespace
    return ""


@lru_cache(maxsize=65_536)
def without_quota(asked: Asked) -> Asked:
    """Return a request without namespace and priority class, so equal requests of all namespaces share a result."""
    if isinstance(asked, Request):
        return replace(asked, quota=msgspec.UNSET)
    return Bundle(tuple((count, replace(request, quota=msgspec.UNSET)) for count, request in asked.parts))


class _Requirement(msgspec.Struct):
    key: str
    operator: str
    values: list[str] | None = None


class _Term(msgspec.Struct, rename="camel"):
    """A term of a node affinity as Kubernetes writes it."""

    match_expressions: list[_Requirement] | None = None
    match_fields: list[_Requirement] | None = None


def on_nodes(asked: Asked, spec: ResourceBindingSpec) -> Asked:
    """Return the request of a binding as one that only fits on the nodes that its pods may be placed on.

    Raises ValueError if the node affinity or a toleration is malformed.
    """
    if isinstance(asked, Request):
        return replace(asked, nodes=_terms(spec.replica_requirements))
    parts = zip(asked.parts, spec.components, strict=True)
    return Bundle(
        tuple((count, replace(request, nodes=_terms(one.replica_requirements))) for (count, request), one in parts)
    )


def _terms(requirements: ReplicaRequirements | None) -> NodeTerms:
    claim = None if requirements is None else requirements.node_claim
    if claim is None:
        return NodeTerms()
    tolerations = tuple(_toleration(item) for item in claim.tolerations)
    affinity = claim.hard_node_affinity
    listed = affinity.get("nodeSelectorTerms") or () if affinity else ()
    if not isinstance(listed, (list, tuple)):
        raise ValueError("nodeClaim.hardNodeAffinity: nodeSelectorTerms is not a list")
    terms = tuple(map(_requirements, listed)) if affinity else None
    return NodeTerms(tuple(sorted(claim.node_selector.items())), terms, tolerations)


def _requirements(term: Mapping[str, Any]) -> tuple[NodeRequirement, ...]:
    """Return the requirements of a term of a node affinity. Raises ValueError if one is malformed."""
    try:
        found = msgspec.convert(term, _Term)
    except msgspec.ValidationError as error:
        raise ValueError(f"nodeClaim.hardNodeAffinity: {error}") from None
    return tuple(
        NodeRequirement(item.key, item.operator, tuple(item.values or ()), of_field)
        for items, of_field in ((found.match_expressions, False), (found.match_fields, True))
        for item in items or ()
    )


def _toleration(item: Mapping[str, Any]) -> Toleration:
    """Return a toleration of pods. Raises ValueError if it is malformed."""
    try:
        return msgspec.convert(item, Toleration)
    except msgspec.ValidationError as error:
        raise ValueError(f"nodeClaim.tolerations: {error}") from None


_encoder = msgspec.json.Encoder(enc_hook=plain)


def encoded(asked: Asked) -> str:
    """Return a request as the JSON text that rows of reserved capacity store."""
    return _encoder.encode(asked).decode()


@lru_cache(maxsize=4096)
def decoded(text: str) -> Asked:
    """Return the request that `encoded` wrote."""
    found = msgspec.json.decode(text)
    return msgspec.convert(found, Bundle) if "parts" in found else msgspec.convert(found, Request)
