"""The Works with the ResourceQuotas of a FederatedResourceQuota, and the status that follows from them
[federated-quotas]."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from controlplane.apimachinery.meta import ObjectMeta, Ref, to_seconds
from controlplane.apimachinery.names import (
    BINDING_ANNOTATION,
    CONFLICT_RESOLUTION_ANNOTATION,
    QUOTA_NAME_LABEL,
    QUOTA_NAMESPACE_LABEL,
    WORK_FINALIZER,
    execution_namespace,
    work_name,
)
from controlplane.apimachinery.uids import child_uid
from controlplane.estimate.quota import Use, overall_used
from controlplane.kinds.federated_quota import (
    ClusterQuotaStatus,
    FederatedResourceQuota,
    amount,
)
from controlplane.kinds.work import Work, Workload, WorkSpec
from controlplane.propagation import works

_KIND = "ResourceQuota"


def is_for(work: Work, quota: Ref) -> bool:
    """Test whether a Work has the name of the Works of a quota."""
    return works.is_copy_of(work, _KIND, quota.name, quota.namespace)


def of_assignments(quota: FederatedResourceQuota, *, now: datetime) -> dict[str, Work]:
    """Return the Work for each static assignment, by cluster. If a cluster is named twice, the last one counts."""
    return {
        item.cluster_name: _work(quota, item.cluster_name, item.hard, now) for item in quota.spec.static_assignments
    }


def _work(quota: FederatedResourceQuota, cluster: str, hard: Mapping[str, str], now: datetime) -> Work:
    place, space = quota.metadata, execution_namespace(cluster)
    name = work_name(_KIND, place.name, place.namespace)
    metadata = works.managed_metadata(place.name, place.namespace, work=name, execution_space=space)
    manifest: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": _KIND,
        "metadata": metadata,
        "spec": {"hard": dict(sorted(hard.items()))},
    }
    return Work(
        api_version=works.API_VERSION,
        kind=works.KIND,
        metadata=ObjectMeta(
            name=name,
            namespace=space,
            uid=child_uid(place.uid, "work", cluster),
            generation=1,
            creation_timestamp=to_seconds(now),
            labels={QUOTA_NAMESPACE_LABEL: place.namespace, QUOTA_NAME_LABEL: place.name},
            annotations={BINDING_ANNOTATION: str(quota.ref), CONFLICT_RESOLUTION_ANNOTATION: works.ABORT},
            finalizers=(WORK_FINALIZER,),
        ),
        spec=WorkSpec(workload=Workload((manifest,))),
    )


def counted(quota: FederatedResourceQuota, stored: Mapping[str, Work], used: Use | None) -> FederatedResourceQuota:
    """Return a quota with its status; the same object if nothing changes.

    `used`: what its namespace requests. None: quotas are not enforced, and overallUsed is the sum of what the clusters
    report.
    """
    reports = tuple(
        report for item in _names(quota) if item in stored and (report := _report(item, stored[item])) is not None
    )
    return quota.with_status(
        overall=dict(quota.spec.overall),
        overall_used=_sum(reports) if used is None else overall_used(quota, used),
        aggregated_status=reports,
    )


def _names(quota: FederatedResourceQuota) -> list[str]:
    return sorted({item.cluster_name for item in quota.spec.static_assignments})


def _report(cluster: str, work: Work) -> ClusterQuotaStatus | None:
    """Return what the ResourceQuota of a cluster reports; None: it has not reported yet."""
    for reported in work.status.manifest_statuses:
        status = reported.status or {}
        return ClusterQuotaStatus(cluster, _texts(status.get("hard")), _texts(status.get("used")))
    return None


def _texts(amounts: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in amounts.items()} if isinstance(amounts, Mapping) else {}


def _sum(reports: tuple[ClusterQuotaStatus, ...]) -> dict[str, str]:
    sums: dict[str, Any] = {}
    for report in reports:
        for name, text in report.used.items():
            sums[name] = sums[name] + amount(text) if name in sums else amount(text)
    return {name: str(total) for name, total in sorted(sums.items())}
