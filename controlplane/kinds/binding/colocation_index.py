"""Colocation: the bindings that are parts of one application, which is placed on one cluster.

Bindings are parts of one application if they are in one namespace, one policy claims them, and the policy asks for
exactly one cluster. A PropagationPolicy colocates its bindings unless an annotation says no. A ClusterPropagationPolicy
is usually a rule for many applications, so it colocates the bindings of each namespace only if an annotation says yes.
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
"""If an application has more parts, only the first ones by name are read."""


def application(binding: Binding) -> str:
    """Return the application that a binding is a part of, as a value of the index `together`; "": of no application."""
    placement, metadata = binding.spec.placement, binding.metadata
    if placement is None or not placement.spread_constraints or not metadata.namespace:
        return ""
    annotations = metadata.annotations
    name, together = annotations.get(PROPAGATION_POLICY_NAME_ANNOTATION), annotations.get(TOGETHER_ANNOTATION)
    if name is None:
        if together != YES or (cluster_policy := annotations.get(CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION)) is None:
            return ""
        name = f"/{cluster_policy}"
    elif together == NO:
        return ""
    return f"{metadata.namespace}/{name}" if one_cluster(placement) else ""


def one_cluster(placement: Placement) -> bool:
    """Test whether the spread constraints of a placement take effect and ask for exactly one cluster."""
    by_cluster = (item for item in reversed(placement.spread_constraints) if item.spread_by_field == "cluster")
    bounds = next(by_cluster, None)
    return bounds is not None and bounds.min_groups == bounds.max_groups == 1 and not placement.ignores_spread


def together_keys(binding: Binding) -> list[str]:
    """Return the values of the index `together`."""
    name = application(binding)
    return [name] if name else []


def placed_with_others(binding: Binding) -> bool:
    """Test whether a placement depends on those of other bindings: parts of its application, its affinity groups."""
    return bool(application(binding)) or binding.spec.workload_affinity_groups is not None
