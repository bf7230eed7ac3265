"""Clusters, placements and bindings for tests of scheduling, in few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.apimachinery.meta import ObjectMeta
from controlplane.kinds.binding import (
    GracefulEvictionTask,
    ObjectReference,
    ReplicaRequirements,
    ResourceBindingSpec,
    ResourceBindingStatus,
    TargetCluster,
)
from controlplane.kinds.cluster import (
    APIEnablement,
    APIResource,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    ResourceSummary,
    Taint,
)
from controlplane.kinds.policy import (
    ClusterAffinity,
    ClusterAffinityTerm,
    ClusterFailoverBehavior,
    ClusterPreferences,
    FailoverBehavior,
    Placement,
    ReplicaSchedulingStrategy,
    SpreadConstraint,
    StaticClusterWeight,
    Toleration,
)
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.schedule import Placed, Refused, Verdict, schedule
from controlplane.settings import Settings

APPS = (APIEnablement("apps/v1", (APIResource("deployments", "Deployment"),)),)
DYNAMIC = ReplicaSchedulingStrategy("Divided", "Weighted", ClusterPreferences(dynamic_weight="AvailableReplicas"))
AGGREGATED = ReplicaSchedulingStrategy("Divided", "Aggregated")
EVENLY = ReplicaSchedulingStrategy("Divided", "Weighted")


def cluster(
    name: str,
    *,
    room: int = 100,
    region: str = "",
    zones: Sequence[str] = (),
    labels: Mapping[str, str] = {},
    taints: Sequence[Taint] = (),
    apis: Sequence[APIEnablement] = APPS,
) -> Cluster:
    """A cluster with room for so many pods and as many cpu."""
    return Cluster(
        "cluster.karmada.io/v1alpha1",
        "Cluster",
        ObjectMeta(name=name, uid=f"uid-{name}", labels=dict(labels)),
        ClusterSpec(region=region, zones=tuple(zones), taints=tuple(taints)),
        ClusterStatus(
            api_enablements=tuple(apis),
            resource_summary=ResourceSummary(allocatable={"pods": str(room), "cpu": str(room)}),
        ),
    )


def weights(**by_name: int) -> ReplicaSchedulingStrategy:
    rules = tuple(
        StaticClusterWeight(ClusterAffinity(cluster_names=(name,)), weight) for name, weight in by_name.items()
    )
    return ReplicaSchedulingStrategy("Divided", "Weighted", ClusterPreferences(rules))


def placement(
    *names: str,
    how: ReplicaSchedulingStrategy | None = None,
    spread: Sequence[SpreadConstraint] = (),
    tolerations: Sequence[Toleration] = (),
    groups: Sequence[ClusterAffinityTerm] = (),
) -> Placement:
    return Placement(
        cluster_affinity=ClusterAffinity(cluster_names=names) if names else None,
        cluster_affinities=tuple(groups),
        cluster_tolerations=tuple(tolerations),
        spread_constraints=tuple(spread),
        replica_scheduling=how,
    )


def spec(
    where: Placement,
    *,
    replicas: int = 1,
    on: Mapping[str, int] = {},
    uid: str = "",
    tasks: Sequence[GracefulEvictionTask] = (),
    fails_over: bool = False,
    cpu: str = "1",
    kind: str = "Deployment",
    **fields: Any,
) -> ResourceBindingSpec:
    return ResourceBindingSpec(
        ObjectReference("apps/v1", kind, "web", "default", uid=uid),
        replicas=replicas,
        replica_requirements=ReplicaRequirements(resource_request={"cpu": cpu}),
        clusters=tuple(TargetCluster(*pair) for pair in on.items()),
        placement=where,
        graceful_eviction_tasks=tuple(tasks),
        failover=FailoverBehavior(cluster=ClusterFailoverBehavior()) if fails_over else None,
        **fields,
    )


def ask(
    clusters: Sequence[Cluster],
    wanted: ResourceBindingSpec,
    *,
    status: ResourceBindingStatus | None = None,
    settings: Settings | None = None,
    **more: Any,
) -> Verdict:
    switches = settings or Settings()
    fleet = Fleet.of(clusters, settings=switches)
    promised: Ledger | None = more.pop("promised", None)
    seen = status or ResourceBindingStatus()
    return schedule(wanted, seen, fleet, settings=switches, promised=promised, **more)


def shares(verdict: Verdict) -> dict[str, int]:
    """What a verdict places where. Fails where it refuses."""
    assert isinstance(verdict.outcome, Placed), verdict.outcome
    return {one.name: one.replicas for one in verdict.outcome.clusters}


def refused(verdict: Verdict) -> Refused:
    assert isinstance(verdict.outcome, Refused), verdict.outcome
    return verdict.outcome
