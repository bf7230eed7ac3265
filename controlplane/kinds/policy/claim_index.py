"""The index of objects by the policy that claims them."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import (
    CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION,
    PROPAGATION_POLICY_NAME_ANNOTATION,
    PROPAGATION_POLICY_NAMESPACE_ANNOTATION,
)
from controlplane.kinds.policy import CLUSTER_PROPAGATION_POLICY, PROPAGATION_POLICY


def claimed_by(obj: Any) -> list[str]:
    """Return a list with the policy that claims a template or binding, as a reference; empty if no policy does."""
    annotations = obj.metadata.annotations
    if PROPAGATION_POLICY_NAME_ANNOTATION in annotations:
        namespace = annotations.get(PROPAGATION_POLICY_NAMESPACE_ANNOTATION, "")
        return [str(Ref(PROPAGATION_POLICY, namespace, annotations[PROPAGATION_POLICY_NAME_ANNOTATION]))]
    name = annotations.get(CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION)
    return [] if name is None else [str(Ref(CLUSTER_PROPAGATION_POLICY, "", name))]
