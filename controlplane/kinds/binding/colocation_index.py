"""Which bindings are parts of one application: those of one policy in one namespace that go to exactly one cluster.

A PropagationPolicy is an application's own, so its parts stay together unless it says not; a ClusterPropagationPolicy
is a rule for many applications, whose parts stay together, namespace by namespace, where it says so.
"""

from __future__ import annotations

from typing import Final

from controlplane.apimachinery.names import (
    CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION,
    PROPAGATION_POLICY_NAME_ANNOTATION,
    TOGETHER_ANNOTATION,
)
from controlplane.kinds.binding import Binding
from controlplane.kinds.policy import Placement

YES, NO = "true", "false"

MAX_PARTS_READ: Final = 200
"""Of an application with more parts, the first by name speak for all."""


def application(binding: Binding) -> str:
    """Return the application a binding is a part of, as a value of the index `together`; "" it stands alone."""
    placement, metadata = binding.spec.placement, binding.metadata
    if placement is None or not placement.spread_constraints or not metadata.namespace or not one_cluster(placement):
        return ""
    said, own = (
        metadata.annotations.get(TOGETHER_ANNOTATION),
        metadata.annotations.get(PROPAGATION_POLICY_NAME_ANNOTATION),
    )
    if own is not None:
        return "" if said == NO else f"{metadata.namespace}/{own}"
    fleet_wide = metadata.annotations.get(CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION)
    return f"{metadata.namespace}//{fleet_wide}" if fleet_wide is not None and said == YES else ""


def one_cluster(placement: Placement) -> bool:
    """Test whether spread constraints ask for exactly one cluster, and are heeded."""
    bounds = next((one for one in reversed(placement.spread_constraints) if one.spread_by_field == "cluster"), None)
    return bounds is not None and bounds.min_groups == bounds.max_groups == 1 and not placement.ignores_spread


def together_keys(binding: Binding) -> list[str]:
    """Return the values of the index `together`."""
    found = application(binding)
    return [found] if found else []
