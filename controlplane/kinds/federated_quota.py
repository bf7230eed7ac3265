"""FederatedResourceQuota (policy.karmada.io/v1alpha1): how much the workloads of a namespace may use
[federated-quotas]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Object, QuantityText, Struct, UserStruct
from controlplane.apimachinery.quantities import ZERO, Quantity, QuantityError
from controlplane.apimachinery.selectors import dns1123_label_errors
from controlplane.kind import Index, Kind
from controlplane.kinds.cluster.rules import MAX_NAME
from controlplane.kinds.field_texts import BOTH, explain
from controlplane.kube.config_types import quota_causes
from controlplane.settings import Settings
from controlplane.wire.resource import Column, Resource
from controlplane.wire.structs import schema_of

FEDERATED_QUOTA = "policy.karmada.io/FederatedResourceQuota"
ENFORCEMENT_GATE: Final = "FederatedQuotaEnforcement"
MAX_QUOTA_NAME: Final = 63

Amounts = dict[str, QuantityText]
_UNCOUNTED: Final = frozenset(
    (
        *("pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"),
        *("persistentvolumeclaims", "services.nodeports", "services.loadbalancers", "requests.storage"),
    )
)
"""Resources of quotas that are no requests of a workload. Only quotas of members limit them."""


class StaticClusterAssignment(UserStruct, frozen=True):
    """The part of a quota that a cluster gets. It becomes a ResourceQuota there."""

    cluster_name: str
    hard: Amounts


class FederatedResourceQuotaSpec(UserStruct, frozen=True):
    overall: Amounts
    static_assignments: tuple[StaticClusterAssignment, ...] = ()


class ClusterQuotaStatus(Struct, frozen=True):
    """What the ResourceQuota of a cluster reports."""

    cluster_name: str
    hard: Amounts = {}
    used: Amounts = {}


class FederatedResourceQuotaStatus(Struct, frozen=True):
    overall: Amounts = {}
    overall_used: Amounts = {}
    aggregated_status: tuple[ClusterQuotaStatus, ...] = ()


class FederatedResourceQuota(Object, frozen=True):
    spec: FederatedResourceQuotaSpec = FederatedResourceQuotaSpec(overall={})
    status: FederatedResourceQuotaStatus = FederatedResourceQuotaStatus()


def counted_as(resource: str) -> str | None:
    """Return the request of workloads that a resource of a quota limits: "requests.cpu" limits "cpu".

    None: it limits no request, so only the ResourceQuotas on members enforce it.
    """
    name = resource.removeprefix("requests.")
    if resource in _UNCOUNTED or resource.startswith(("limits.", "count/")):
        return None
    return None if ".storageclass.storage.k8s.io/" in resource else name


def amount(text: str) -> Quantity:
    """Return a quantity; zero for a text that is not a quantity, which the rules report."""
    try:
        return Quantity.of(text)
    except QuantityError:
        return ZERO


def validate(new: FederatedResourceQuota, old: FederatedResourceQuota | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a quota."""
    name, spec = new.metadata.name, new.spec
    causes = [invalid("metadata.name", name, f"must be no more than {MAX_QUOTA_NAME} characters")]
    causes = causes if len(name) > MAX_QUOTA_NAME else []
    causes += quota_causes(spec.overall, "spec.overall")
    for index, assignment in enumerate(spec.static_assignments):
        causes += _assignment(assignment, spec.overall, f"spec.staticAssignments[{index}]")
    for resource, text in sorted(spec.overall.items()):
        assigned = sum((amount(item.hard[resource]) for item in spec.static_assignments if resource in item.hard), ZERO)
        if amount(text) < assigned:
            causes.append(invalid(f"spec.overall[{resource}]", text, f"overall is less than assignments: {assigned}"))
    return causes


def _assignment(assignment: StaticClusterAssignment, overall: Mapping[str, str], path: str) -> Iterator[Cause]:
    cluster = assignment.cluster_name
    if not cluster:
        yield invalid(f"{path}.clusterName", cluster, "must be not empty")
    else:
        if len(cluster) > MAX_NAME:
            yield invalid(f"{path}.clusterName", cluster, f"must be no more than {MAX_NAME} characters")
        for rule in dns1123_label_errors(cluster):
            yield invalid(f"{path}.clusterName", cluster, rule)
    yield from quota_causes(assignment.hard, f"{path}.hard")
    for resource in sorted(assignment.hard):
        if resource not in overall:
            rule = "assignment resourceName is not exist in overall: add it to spec.overall"
            yield invalid(f"{path}.hard[{resource}]", resource, rule)


def warn(new: FederatedResourceQuota, old: FederatedResourceQuota | None, settings: Settings) -> list[str]:
    """Return warnings about parts of a quota that limit nothing, or not what the author may expect."""
    spec, warnings = new.spec, list[str]()
    if not settings.gate(ENFORCEMENT_GATE):
        warnings.append(
            f"spec.overall is not enforced, because the feature gate {ENFORCEMENT_GATE} is off; quotas of "
            "spec.staticAssignments are created on their clusters"
        )
    named = [assignment.cluster_name for assignment in spec.static_assignments]
    for cluster in sorted({name for name in named if named.count(name) > 1}):
        warnings.append(f'spec.staticAssignments: cluster "{cluster}" is named more than once: the last one counts')
    uncounted = sorted(resource for resource in spec.overall if counted_as(resource) is None)
    if uncounted:
        warnings.append(
            f"spec.overall: {', '.join(uncounted)}: only what workloads request is counted over all clusters; limit "
            "these resources by spec.staticAssignments"
        )
    return warnings


def _clusters(quota: FederatedResourceQuota) -> list[str]:
    return sorted({assignment.cluster_name for assignment in quota.spec.static_assignments})


def _amounts(part: str) -> Any:
    def cell(doc: dict[str, Any], now: datetime) -> str:
        amounts = (doc.get("status") or {}).get(part) or {}
        return ", ".join(f"{name}: {text}" for name, text in sorted(amounts.items()))

    return cell


def shown(amounts: Mapping[str, Quantity | str]) -> str:
    """Return amounts as Kubernetes writes them in messages: "cpu=20m,memory=1Gi"."""
    return ",".join(f"{name}={value}" for name, value in sorted(amounts.items()))


explain(
    {
        FederatedResourceQuota: BOTH,
        FederatedResourceQuotaSpec: """
overall: Limits of what workloads request on all clusters together, by resource.
static_assignments: Parts of the limits for clusters. Each becomes a ResourceQuota on its cluster.
""",
        StaticClusterAssignment: """
cluster_name: Name of the cluster.
hard: Limits of the ResourceQuota, by resource. Each resource has to be in spec.overall.
""",
        FederatedResourceQuotaStatus: """
overall: Limits that apply.
overall_used: Sum of what workloads request on all clusters.
aggregated_status: What the ResourceQuotas of clusters report.
""",
        ClusterQuotaStatus: """
cluster_name: Name of the cluster.
hard: Limits on the cluster.
used: What is used on the cluster.
""",
    }
)

DECLARED = (
    Kind(
        resource=Resource(
            "policy.karmada.io",
            "v1alpha1",
            "FederatedResourceQuota",
            "federatedresourcequotas",
            "federatedresourcequota",
            True,
            categories=("karmada-io",),
            subresources=("status",),
            columns=(Column("Overall", _amounts("overall")), Column("Overall_Used", _amounts("overallUsed"))),
        ),
        type=FederatedResourceQuota,
        schema=lambda: schema_of(FederatedResourceQuota),
        validate=validate,
        warn=warn,
        indexes=(
            Index("namespace", lambda quota: [quota.metadata.namespace], "federated_quotas, scheduler: of a namespace"),
            Index("cluster", _clusters, "controllers.federated_quotas: quotas that give a cluster a part"),
        ),
    ),
)
