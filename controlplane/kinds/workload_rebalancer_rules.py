"""What has to hold of a WorkloadRebalancer."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.apimachinery.causes import duplicate, forbidden, invalid, required
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.selectors import selector_errors
from controlplane.kinds.workload_rebalancer import RebalancedWorkload, WorkloadRebalancer, WorkloadSelector
from controlplane.settings import Settings


def validate(new: WorkloadRebalancer, old: WorkloadRebalancer | None, settings: Settings) -> list[Cause]:
    """Return everything that is wrong with a rebalancer."""
    spec = new.spec
    causes: list[Cause] = []
    if not spec.workloads and spec.workload_selector is None:
        causes.append(required("spec.workloads", "name the workloads to place anew, here or by spec.workloadSelector"))
    for index, workload in enumerate(spec.workloads):
        causes += _named(workload, f"spec.workloads[{index}]")
        if workload in spec.workloads[:index]:
            causes.append(duplicate(f"spec.workloads[{index}]", workload))
    if spec.workload_selector is not None:
        causes += _selector(spec.workload_selector, "spec.workloadSelector")
    if old is not None and old.spec.workload_selector not in (None, spec.workload_selector):
        rule = "what was placed anew stays so; create another WorkloadRebalancer to do it again"
        causes.append(forbidden("spec.workloadSelector", rule))
    ttl = spec.ttl_seconds_after_finished
    if ttl is not None and ttl < 0:
        causes.append(invalid("spec.ttlSecondsAfterFinished", ttl, "must be greater than or equal to 0"))
    return causes


def _named(workload: RebalancedWorkload | WorkloadSelector, path: str) -> Iterator[Cause]:
    fields = {"apiVersion": workload.api_version, "kind": workload.kind}
    if isinstance(workload, RebalancedWorkload):
        fields["name"] = workload.name
    for field, value in fields.items():
        if not value:
            yield required(f"{path}.{field}")


def _selector(selector: WorkloadSelector, path: str) -> Iterator[Cause]:
    yield from _named(selector, path)
    if selector.label_selector is not None:
        for field, message in selector_errors(selector.label_selector):
            yield invalid(f"{path}.labelSelector.{field}", selector.label_selector, message)
