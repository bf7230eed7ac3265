"""Rows of readiness: the stored answer for each binding, and the digest of the fleet that makes all answers due."""

from __future__ import annotations

import math
import operator
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from controlplane.estimate.capacity import free_capacity
from controlplane.estimate.namespace_quotas import free_of
from controlplane.estimate.node_pools import read
from controlplane.eviction.capacity_digest import CapacityDigest, digest
from controlplane.insight.failure_outlook import Situation
from controlplane.insight.readiness import Readiness, is_attached
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import AllocatableModeling, Cluster, NodePool, NodeRoom, ResourceSummary
from controlplane.kinds.obstacle import BLOCKS, Obstacle
from controlplane.kinds.rows import BindingReadiness
from controlplane.scheduling.cluster_facts import facts
from controlplane.settings import Settings

READY, IMPAIRED, BLOCKED, ATTACHED = "Ready", "Impaired", "Blocked", "Attached"
VERDICTS: Final = {
    READY: "would move away from each of its clusters",
    IMPAIRED: "would move, with restrictions",
    BLOCKED: "would stay on at least one of its clusters",
    ATTACHED: "is placed with another workload and moves with it",
}
CAPACITY_STEP: Final = 1.25
"""Free capacity counts in steps of this factor, so that answers are not computed again for each Pod that starts."""


def row_of(binding: Binding, answer: Readiness) -> BindingReadiness:
    """Return the row of an answer, without the time of its last change."""
    spec, blocked = binding.spec, any(one.severity == BLOCKS for one in answer.obstacles)
    verdict = BLOCKED if blocked else IMPAIRED if answer.obstacles else READY
    return BindingReadiness(
        key=str(binding.ref),
        namespace=binding.metadata.namespace,
        name=binding.metadata.name,
        workload=f"{spec.resource.api_version}/{spec.resource.kind}",
        verdict=ATTACHED if is_attached(binding) else verdict,
        named=",".join(sorted({one.what for one in answer.obstacles})),
        clusters=tuple(target.name for target in spec.clusters),
        obstacles=answer.obstacles,
    )


def failed_row(binding: Binding, error: Exception) -> BindingReadiness:
    """Return the row of a binding whose readiness could not be computed."""
    message = f"its readiness could not be computed: {error}"
    remedy = f"read {binding.metadata.name}/explain, correct the value that the message names, or report a defect"
    return row_of(binding, Readiness(str(binding.ref), False, (Obstacle("NotAssessed", BLOCKS, message, remedy),)))


def changed_row(new: BindingReadiness, stored: BindingReadiness | None, *, now: datetime) -> BindingReadiness | None:
    """Return the row to store; None: the stored answer is the same."""
    if stored is not None and replace(new, since=stored.since) == stored:
        return None
    return replace(new, since=now)


class FleetDigest:
    """Computes a digest of what answers depend on besides their bindings. It caches APIs of clusters to encode less."""

    def __init__(self) -> None:
        self._capacity = CapacityDigest()

    def digest(
        self, situation: Situation, settings: Settings, *, groups_changed_at: datetime | None, now: datetime
    ) -> str:
        """Return the digest of clusters, policies, holds, settings and `groups_changed_at`.

        Messages and the time stamps of clusters have no part in it.
        """
        parts = (
            self._capacity.digest([coarse(cluster) for cluster in situation.clusters]),
            [_conditions(cluster) for cluster in situation.clusters],
            [cluster.terminating for cluster in situation.clusters],
            [(one.metadata.name, one.metadata.deletion_timestamp is None, one.spec) for one in situation.policies],
            situation.holds.digest(now=now),
            settings,
            groups_changed_at,
        )
        return digest((msgspec.json.encode(parts, order="sorted"),))


def coarse(cluster: Cluster) -> Cluster:
    """Return a cluster with its free capacity in steps, and taints without times, so that small changes are equal."""
    taints = tuple(replace(taint, time_added=None) for taint in cluster.spec.taints)
    with_taints = cluster.with_spec(taints=taints) if taints else cluster
    return with_taints.with_status(resource_summary=_steps(cluster))


def relevant_change(old: Cluster | None, new: Cluster | None) -> bool:
    """Test whether a change of a cluster may change answers. A heartbeat or a new Pod is no such change."""
    if old is None or new is None:
        return True
    if facts(old) != facts(new):
        return True
    if old.spec != new.spec or old.status.api_enablements != new.status.api_enablements:
        return True
    if old.status.conditions != new.status.conditions and _conditions(old) != _conditions(new):
        return True
    return old.status.resource_summary != new.status.resource_summary and _steps(old) != _steps(new)


def _conditions(cluster: Cluster) -> list[tuple[str, str]]:
    return sorted((one.type, one.status) for one in cluster.status.conditions)


def _steps(cluster: Cluster) -> ResourceSummary | None:
    """Return the free capacity of a cluster as numbers of steps; None: it reports none that can be read."""
    found = free_capacity(cluster)
    if not found.known:
        return None
    free = {name: str(_step(amount)) for name, amount in sorted(found.free.items())}
    graded = tuple(AllocatableModeling(grade, _step(count)) for grade, count in enumerate(found.graded))
    reported = cluster.status.resource_summary
    quotas = tuple(
        replace(quota, free={name: str(_step(amount)) for name, amount in free_of(quota).items()})
        for quota in (() if reported is None else reported.namespace_quotas)
    )
    return ResourceSummary(
        allocatable=free,
        allocatable_modelings=graded,
        namespace_quotas=quotas,
        node_pools=tuple(map(_pool_steps, () if reported is None else reported.node_pools)),
    )


def _pool_steps(pool: NodePool) -> NodePool:
    """Return a node pool with the sums of what its nodes have free as numbers of steps."""
    free: dict[str, int] = {}
    for rooms in read((pool,)):
        for name, amounts in rooms.free.items():
            free[name] = sum(map(operator.mul, amounts, rooms.counts))
    return replace(pool, nodes=(NodeRoom(1, {name: str(_step(free[name])) for name in sorted(free)}),))


def _step(amount: int) -> int:
    """Return the number of the step that an amount is in, so that small changes of large amounts change nothing.

    Amounts up to 4 are their own steps."""
    return amount if amount <= 4 else 4 + math.ceil(math.log(amount / 4, CAPACITY_STEP))
