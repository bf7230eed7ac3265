"""Divides the completions of a Job among its clusters [work-rendering]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.template import Template
from controlplane.scheduling.webster import dispense


def split(
    binding: Binding, template: Template, targets: Iterable[TargetCluster], begun: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return each cluster's share of the completions of a Job. {}: the completions are not divided.

    Shares are in proportion to the replicas, so that all clusters finish at about the same time. `begun`: the shares of
    copies that exist. No member lets the completions of a Job change, so these stay, and new copies get the rest. If
    that does not add up, all is divided again: of an elastic Job, and of one that has lost a copy and gets no new one.
    For the latter the members refuse it, which says why the Job cannot end.
    """
    spec = binding.spec
    if template.kind != "Job" or spec.placement is None or not spec.placement.divided:
        return {}
    completions = template.spec.get("completions")
    if completions is None:
        return {}
    weights = {target.name: target.replicas for target in targets}
    kept = {name: share for name, share in (begun or {}).items() if name in weights}
    rest = int(completions) - sum(kept.values())
    if rest < 0 or (rest > 0 and kept.keys() == weights.keys()):
        kept, rest = {}, int(completions)
    new = {name: weight for name, weight in weights.items() if name not in kept}
    if not any(new.values()):
        new = dict.fromkeys(new, 1)  # a Job that is paused: its shares have to add up when it goes on
    return kept | dispense(rest, new, uid=spec.resource.uid)
