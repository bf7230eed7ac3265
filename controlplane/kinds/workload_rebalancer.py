"""WorkloadRebalancer (apps.karmada.io/v1alpha1): places workloads anew, once (semantics 1.6)."""

from __future__ import annotations

from datetime import datetime

from controlplane.apimachinery.meta import Int32, Object, Struct, UserStruct
from controlplane.apimachinery.selectors import LabelSelector


class RebalancedWorkload(UserStruct, frozen=True):
    """A template by reference."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""


class WorkloadSelector(UserStruct, frozen=True):
    """All templates of a kind, in a namespace or in all (""), whose labels match. Ours; the original knows lists."""

    api_version: str
    kind: str
    namespace: str = ""
    label_selector: LabelSelector | None = None  # None: whatever their labels


class WorkloadRebalancerSpec(UserStruct, frozen=True):
    workloads: tuple[RebalancedWorkload, ...] = ()
    workload_selector: WorkloadSelector | None = None
    ttl_seconds_after_finished: Int32 | None = None  # None: it is kept


SUCCESSFUL, FAILED = "Successful", "Failed"
REFERENCED_BINDING_NOT_FOUND = "ReferencedBindingNotFound"


class ObservedWorkload(Struct, frozen=True):
    """What became of one listed workload."""

    workload: RebalancedWorkload
    result: str = ""  # Successful, Failed
    reason: str = ""


class SelectedWorkloads(Struct, frozen=True):
    """How far a selector has been followed, in the order of namespace and name."""

    rebalanced: int = 0
    unplaced: int = 0  # matching templates that no policy propagates
    after_namespace: str = ""
    after_name: str = ""
    complete: bool = False


class WorkloadRebalancerStatus(Struct, frozen=True):
    observed_workloads: tuple[ObservedWorkload, ...] = ()
    selected_workloads: SelectedWorkloads | None = None
    observed_generation: int = 0
    finish_time: datetime | None = None  # None: not finished


class WorkloadRebalancer(Object, frozen=True):
    spec: WorkloadRebalancerSpec = WorkloadRebalancerSpec()
    status: WorkloadRebalancerStatus = WorkloadRebalancerStatus()
