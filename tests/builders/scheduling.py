"""Questions to the scheduler and its verdicts, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.kinds.binding import (
    GracefulEvictionTask,
    ObjectReference,
    ReplicaRequirements,
    ResourceBindingSpec,
    ResourceBindingStatus,
    TargetCluster,
)
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import ClusterFailoverBehavior, FailoverBehavior, Placement
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.schedule import Placed, Refused, Verdict, schedule
from controlplane.settings import Settings


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
    ledger: Ledger | None = more.pop("ledger", None)
    seen = status or ResourceBindingStatus()
    return schedule(wanted, seen, fleet, settings=switches, ledger=ledger, **more)


def shares(verdict: Verdict) -> dict[str, int]:
    """What a verdict places where. Fails where it refuses."""
    assert isinstance(verdict.outcome, Placed), verdict.outcome
    return {one.name: one.replicas for one in verdict.outcome.clusters}


def refused(verdict: Verdict) -> Refused:
    assert isinstance(verdict.outcome, Refused), verdict.outcome
    return verdict.outcome
