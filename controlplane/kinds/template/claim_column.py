"""The column POLICY of `kubectl get -o wide`: the policy that claims a template."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from controlplane.apimachinery.names import (
    CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION,
    PROPAGATION_POLICY_NAME_ANNOTATION,
)
from controlplane.wire.resource import Column, Resource


def _claim(document: dict[str, Any], now: datetime) -> str:
    """Return the policy as an argument of kubectl: "pp/web", "cpp/all"; "<none>": no policy claims the template."""
    annotations = document.get("metadata", {}).get("annotations") or {}
    if name := annotations.get(PROPAGATION_POLICY_NAME_ANNOTATION):
        return f"pp/{name}"
    name = annotations.get(CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION)
    return f"cpp/{name}" if name else "<none>"


POLICY: Final = Column(
    "Policy",
    _claim,
    priority=1,
    is_timed=False,
    description="PropagationPolicy (pp) or ClusterPropagationPolicy (cpp) that claims the object.",
)


def with_policy(resource: Resource) -> Resource:
    """Return a resource with the column POLICY as its last column, unless it already has a column of that name."""
    if any(column.name == POLICY.name for column in resource.columns):
        return resource
    return replace(resource, columns=(*resource.columns, POLICY))
