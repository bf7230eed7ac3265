"""Divides the completions of a Job among its clusters [work-rendering]."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.template import Template
from controlplane.scheduling.webster import dispense


def split(binding: Binding, template: Template, targets: Iterable[TargetCluster]) -> dict[str, int]:
    """Return each cluster's share of the completions of a Job. {}: the completions are not divided.

    Shares are in proportion to the replicas, so that all clusters finish at about the same time.
    """
    spec = binding.spec
    if template.kind != "Job" or not spec.replicas or spec.placement is None or not spec.placement.divided:
        return {}
    completions = template.spec.get("completions")
    if completions is None:
        return {}
    weights = {target.name: target.replicas for target in targets}
    return dispense(int(completions), weights, uid=spec.resource.uid)
