"""Workloads that an autoscaler scales on their members: which keep their replicas there, and how many they have
[scaled-workloads]."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controlplane.apimachinery.names import (
    RETAIN_REPLICAS_LABEL,
    RETAIN_REPLICAS_LABEL_VALUE,
    SCALED_BY_ANNOTATION,
)
from controlplane.kinds.binding import Binding
from controlplane.kinds.policy import DIVIDED
from controlplane.kinds.template import Template
from controlplane.propagation.matching import CLAIM_LABELS


def retains(template: Template) -> bool:
    """Test whether members keep the number of replicas of their copies."""
    return template.metadata.labels.get(RETAIN_REPLICAS_LABEL) == RETAIN_REPLICAS_LABEL_VALUE


def mark(template: Template) -> tuple[str | None, str | None]:
    """Return the label that leaves the replicas of a workload to members, and the annotation that explains it."""
    metadata = template.metadata
    return metadata.labels.get(RETAIN_REPLICAS_LABEL), metadata.annotations.get(SCALED_BY_ANNOTATION)


def marked(template: Template, autoscalers: Iterable[Template]) -> Template:
    """Return a workload with the label that leaves its replicas to members, if a propagated autoscaler scales it.

    Without one, the label is removed if this rule set it. The annotation shows that the label is not a user's.
    """
    propagated = sorted(
        autoscaler.metadata.name
        for autoscaler in autoscalers
        if autoscaler.metadata.deletion_timestamp is None
        and any(label in autoscaler.metadata.labels for label in CLAIM_LABELS)
    )
    labels, annotations = dict(template.metadata.labels), dict(template.metadata.annotations)
    if propagated:
        if not retains(template) or SCALED_BY_ANNOTATION in annotations:
            labels[RETAIN_REPLICAS_LABEL] = RETAIN_REPLICAS_LABEL_VALUE
            annotations[SCALED_BY_ANNOTATION] = propagated[0]
    elif annotations.pop(SCALED_BY_ANNOTATION, None) is not None:
        labels.pop(RETAIN_REPLICAS_LABEL, None)
    return template.with_meta(labels=labels, annotations=annotations)


def reported_replicas(deployment: Template, binding: Binding) -> int | None:
    """Return the replicas that the members of a Deployment run, if its spec is to follow them.

    None: its replicas are equal already, are not left to members or not divided; or the number is not certain yet. It
    is certain once binding and scheduler have seen the spec, every target has reported replicas, and the status of the
    Deployment has their sum.
    """
    wanted, shown = deployment.spec.get("replicas"), deployment.status.get("replicas") or 0
    placement = binding.spec.placement
    strategy = None if placement is None else placement.replica_scheduling
    divided = strategy is not None and strategy.replica_scheduling_type == DIVIDED
    if not retains(deployment) or not divided or wanted is None or wanted == shown:
        return None
    if wanted != binding.spec.replicas or binding.metadata.generation != binding.status.scheduler_observed_generation:
        return None
    targets = {target.name for target in binding.spec.clusters}
    items = binding.status.aggregated_status
    counts = [_replicas(item.status) for item in items]
    if {item.cluster_name for item in items} != targets or any(item.out_of_reach_since for item in items):
        return None
    return shown if all(count > 0 for count in counts) and sum(counts) == shown else None


def _replicas(status: Any) -> int:
    count = status.get("replicas") if isinstance(status, dict) else None
    return count if isinstance(count, int) else 0
