"""WorkloadRebalancer (apps.karmada.io/v1alpha1): reschedules workloads once [workload-rebalancer]."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from controlplane.apimachinery.causes import duplicate, forbidden, invalid, repeated, required
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Int32, Object, Ref, Struct, UserStruct, kind_key
from controlplane.apimachinery.selectors import LabelSelector, matches, selector_errors
from controlplane.kind import Kind
from controlplane.kinds import cells
from controlplane.kinds.field_texts import BOTH, OBJECT, explain
from controlplane.settings import Settings
from controlplane.wire.resource import Column, Resource
from controlplane.wire.structs import schema_of

WORKLOAD_REBALANCER = "apps.karmada.io/WorkloadRebalancer"


class RebalancedWorkload(UserStruct, frozen=True):
    """A reference to a template."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""


class WorkloadSelector(UserStruct, frozen=True):
    """A choice of templates by kind, namespace ("": all namespaces) and labels. Karmada has only lists."""

    api_version: str
    kind: str
    namespace: str = ""
    label_selector: LabelSelector | None = None  # None: any labels


class WorkloadRebalancerSpec(UserStruct, frozen=True):
    workloads: tuple[RebalancedWorkload, ...] = ()
    workload_selector: WorkloadSelector | None = None
    ttl_seconds_after_finished: Int32 | None = None  # None: it is never deleted


SUCCESSFUL, FAILED = "Successful", "Failed"
REFERENCED_BINDING_NOT_FOUND = "ReferencedBindingNotFound"


class ObservedWorkload(Struct, frozen=True):
    """The result for a listed workload."""

    workload: RebalancedWorkload
    result: str = ""  # Successful, Failed
    reason: str = ""


class SelectedWorkloads(Struct, frozen=True):
    """The progress on a selector. Templates are processed in the order of namespace and name."""

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


def listed_template(workload: RebalancedWorkload) -> Ref:
    """Return the reference of the template that is listed."""
    return Ref(kind_key(workload.api_version, workload.kind), workload.namespace, workload.name)


def selects(selector: WorkloadSelector, template: Object) -> bool:
    """Test whether a selector selects a template of its kind and namespace."""
    return selector.label_selector is None or matches(selector.label_selector, template.metadata.labels)


def validate(new: WorkloadRebalancer, old: WorkloadRebalancer | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a rebalancer."""
    spec = new.spec
    causes: list[Cause] = []
    if not spec.workloads and spec.workload_selector is None:
        causes.append(required("spec.workloads", "name the workloads to reschedule, here or by spec.workloadSelector"))
    twice = repeated(spec.workloads)
    for index, workload in enumerate(spec.workloads):
        causes += _named(workload, f"spec.workloads[{index}]")
        if index in twice:
            causes.append(duplicate(f"spec.workloads[{index}]", workload))
    if spec.workload_selector is not None:
        causes += _selector(spec.workload_selector, "spec.workloadSelector")
    if old is not None and old.spec.workload_selector not in (None, spec.workload_selector):
        rule = "must not change; create another WorkloadRebalancer to reschedule other workloads"
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


explain(
    {
        WorkloadRebalancer: BOTH,
        WorkloadRebalancerSpec: """
workloads: Workloads to reschedule.
workload_selector: Workloads to reschedule, by selector.
ttl_seconds_after_finished: Seconds after which the finished object is deleted.
""",
        RebalancedWorkload: OBJECT,
        WorkloadSelector: OBJECT,
        WorkloadRebalancerStatus: """
observed_workloads: Result for each workload of the list.
selected_workloads: Progress of the workloads of the selector.
observed_generation: Generation that was processed.
finish_time: When all workloads were rescheduled.
""",
        ObservedWorkload: """
workload: The workload.
result: Successful or Failed.
reason: Why it failed.
""",
        SelectedWorkloads: """
rebalanced: Number of workloads that were rescheduled.
unplaced: Number of workloads that no policy propagates.
after_namespace: Namespace of the last workload that was processed.
after_name: Name of the last workload that was processed.
complete: Whether all workloads were processed.
""",
    }
)

DECLARED = (
    Kind(
        resource=Resource(
            "apps.karmada.io",
            "v1alpha1",
            "WorkloadRebalancer",
            "workloadrebalancers",
            "workloadrebalancer",
            False,
            categories=("karmada-io",),
            subresources=("status",),
            columns=(Column("Finished", cells.field("status", "finishTime")),),
        ),
        type=WorkloadRebalancer,
        schema=lambda: schema_of(WorkloadRebalancer),
        validate=validate,
    ),
)
