"""The copies of a binding: where each should be, where it is, how healthy it is, and how old this knowledge is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from controlplane.apimachinery.meta import Struct, condition
from controlplane.kinds.binding import AggregatedStatusItem, Binding, GracefulEvictionTask
from controlplane.kinds.rows import Observation
from controlplane.kinds.work import APPLIED, Work
from controlplane.kinds.work.applied_overrides import applied_overrides, shown

TARGET, LEAVING, NEEDED, LEFT_BEHIND = "Target", "Leaving", "Needed", "LeftBehind"
ROLES = {
    TARGET: "the scheduler placed it there",
    LEAVING: "it is evicted, and stays until the other copies are healthy",
    NEEDED: "another workload needs it there",
    LEFT_BEHIND: "it should be gone, and its removal has not been confirmed",
}
"""Why a copy is on a cluster, in a few words."""


class Copy(Struct, frozen=True):
    """A copy of a binding on one cluster.

    `health`: as last reported; "": never reported. `is_last_known`: the cluster is out of reach, so that all values are
    those from before. `as_of`: when they were last known to be true; None: unknown. `ready`: ready replicas; None: not
    reported. `applied` "": no answer of the cluster is known. `task`: the eviction task of a copy that leaves.
    `overrides`: the override policies that change it.
    """

    cluster: str
    role: str
    replicas: int = 0
    ready: int | None = None
    health: str = ""
    is_last_known: bool = False
    as_of: datetime | None = None
    applied: str = ""
    message: str = ""
    task: GracefulEvictionTask | None = None
    overrides: tuple[str, ...] = ()


def copies(
    binding: Binding,
    works: Sequence[Work] = (),
    *,
    observations: Mapping[str, Observation] = {},
    out_of_reach: Mapping[str, datetime] = {},
) -> tuple[Copy, ...]:
    """Return the copies of a binding: its targets first, in the order of the binding, then all others by name.

    `works`: those of the binding that the reader may see. `observations`: the last probes, by cluster. `out_of_reach`:
    since when clusters cannot be reached, by name; of a copy that should be gone, the binding does not report this.
    """
    work_of = {work.cluster: work for work in works if work.cluster}
    reported = {item.cluster_name: item for item in binding.status.aggregated_status}
    targets = [target.name for target in binding.spec.clusters]
    leaving = [task.from_cluster for task in binding.spec.graceful_eviction_tasks]
    needed = [target.name for parent in binding.spec.required_by for target in parent.clusters]
    others = sorted({*leaving, *needed, *work_of, *reported} - set(targets))
    return tuple(
        _copy(binding, name, work_of.get(name), reported.get(name), observations.get(name), out_of_reach.get(name))
        for name in (*dict.fromkeys(targets), *others)
    )


def _copy(
    binding: Binding,
    cluster: str,
    work: Work | None,
    item: AggregatedStatusItem | None,
    observation: Observation | None,
    out_of_reach_since: datetime | None,
) -> Copy:
    target, task = binding.spec.target(cluster), binding.spec.task(cluster)
    applied = None if work is None else condition(work.status.conditions, APPLIED)
    lost_since = out_of_reach_since if item is None else item.out_of_reach_since or out_of_reach_since
    ready = (item.status or {}).get("readyReplicas") if item is not None else None
    return Copy(
        cluster=cluster,
        role=_role(binding, cluster),
        replicas=0 if target is None else target.replicas,
        ready=ready if isinstance(ready, int) else None,
        health="" if item is None else item.reported_health,
        is_last_known=lost_since is not None,
        as_of=lost_since or (None if observation is None else observation.answered_at),
        applied=applied.status if applied is not None else "" if item is None else str(item.applied),
        message=applied.message if applied is not None else "" if item is None else item.applied_message,
        task=task,
        overrides=() if work is None else tuple(map(shown, applied_overrides(work.metadata.annotations))),
    )


def _role(binding: Binding, cluster: str) -> str:
    if binding.spec.target(cluster) is not None:
        return TARGET
    if binding.spec.task(cluster) is not None:
        return LEAVING
    if any(target.name == cluster for parent in binding.spec.required_by for target in parent.clusters):
        return NEEDED
    return LEFT_BEHIND
