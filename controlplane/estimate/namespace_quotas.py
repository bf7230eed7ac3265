"""How many replicas the ResourceQuotas of a member leave room for in a namespace [replica-estimation].

Counted are cpu, memory and extended resources, with or without the prefix `requests.`. Limits, storage and numbers of
objects are not, because a binding does not say them. A quota counts if it has no scope, or if only scopes by priority
class select its pods: what other scopes select cannot be known before a pod exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from controlplane.apimachinery.quantities import Quantity, parse
from controlplane.estimate.request import Asked, Bundle, QuotaScope, Request, scaled
from controlplane.kinds.cluster import NamespaceQuota, PriorityClassTerm

ESTIMATE_GATE: Final = "ResourceQuotaEstimate"
_PRIORITY_CLASS: Final = "PriorityClass"
_REQUESTS: Final = "requests."

Document = Mapping[str, Any]
Use = Mapping[Asked, int]
"""How many replicas of each request, or sets of components, are placed and not yet counted by a quota."""


def read_quotas(documents: Iterable[Document]) -> tuple[NamespaceQuota, ...]:
    """Return what the ResourceQuotas of a member leave free, by namespace and name. Quotas that do not count are left
    out.

    Raises QuantityError if an amount is not a quantity.
    """
    found = []
    for document in documents:
        terms, free = _terms(document.get("spec") or {}), _free(document.get("status") or {})
        if terms is not None and free:
            metadata = document["metadata"]
            found.append(NamespaceQuota(metadata["namespace"], metadata["name"], free, terms))
    return tuple(sorted(found, key=lambda quota: (quota.namespace, quota.name)))


def _terms(spec: Document) -> tuple[PriorityClassTerm, ...] | None:
    """Return the scopes of a quota by priority class. None: it has another scope, so it does not count."""
    selectors = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    selectors += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    if any(selector.get("scopeName") != _PRIORITY_CLASS for selector in selectors):
        return None
    return tuple(
        PriorityClassTerm(selector.get("operator", ""), tuple(selector.get("values") or ())) for selector in selectors
    )


def _free(status: Document) -> dict[str, str]:
    """Return by resource what a quota leaves. If it limits cpu and requests.cpu, the smaller amount counts."""
    used, free = status.get("used") or {}, dict[str, Quantity]()
    for name, hard in (status.get("hard") or {}).items():
        resource = name.removeprefix(_REQUESTS)
        if _is_requested(resource) and name in used:
            left = max(Quantity.of(hard) - Quantity.of(used[name]), Quantity(0))
            free[resource] = min(free[resource], left) if resource in free else left
    return {resource: str(free[resource]) for resource in sorted(free)}


def _is_requested(resource: str) -> bool:
    """Test whether a quota of this resource limits what containers request: cpu, memory or an extended resource."""
    domain, slash, _ = resource.partition("/")
    if not slash:
        return resource in ("cpu", "memory")
    return domain != "count" and not domain.startswith("limits.") and not domain.endswith(("kubernetes.io", "k8s.io"))


def counts_for(quota: NamespaceQuota, priority_class: str) -> bool:
    """Test whether a quota limits pods of this priority class; "": they have none."""
    return all(_selects(term, priority_class) for term in quota.priority_classes)


def _selects(term: PriorityClassTerm, priority_class: str) -> bool:
    if term.operator == "In":
        return priority_class in term.values
    if term.operator == "NotIn":
        return priority_class not in term.values
    return bool(priority_class) == (term.operator == "Exists")


def room(quota: NamespaceQuota, asked: Asked, taken: Use) -> int | None:
    """Return how many replicas with this request, or sets of components, a quota leaves room for. None: no limit.

    `taken` is subtracted first.
    """
    needed = _needed(quota, asked)
    if not needed:
        return None
    free = free_of(quota)
    used = dict.fromkeys(needed, 0)
    for other, count in taken.items():
        for resource, amount in _needed(quota, other).items():
            if resource in used:
                used[resource] += amount * count
    return max(0, min((free[resource] - used[resource]) // amount for resource, amount in needed.items()))


def _needed(quota: NamespaceQuota, asked: Asked) -> dict[str, int]:
    """Return what a replica, or a set of components, takes of a quota, by resource."""
    needed: dict[str, int] = {}
    for replicas, request in _parts(asked):
        if isinstance(request.quota, QuotaScope) and counts_for(quota, request.quota.priority_class):
            for resource, amount in request.amounts:
                if resource in quota.free and replicas:
                    needed[resource] = needed.get(resource, 0) + replicas * amount
    return needed


def _parts(asked: Asked) -> Iterator[tuple[int, Request]]:
    if isinstance(asked, Bundle):
        yield from asked.parts
    else:
        yield 1, asked


def free_of(quota: NamespaceQuota) -> Mapping[str, int]:
    """Return what a quota leaves in the units of requests. Raises QuantityError if an amount is not a quantity."""
    return _amounts(tuple(quota.free.items()))


@lru_cache(maxsize=65_536)
def _amounts(free: tuple[tuple[str, str], ...]) -> dict[str, int]:
    return {resource: scaled(resource, parse(text)) for resource, text in free}
