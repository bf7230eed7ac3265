"""Parts of one application follow a part that application failover evicted from a cluster (docs/decisions/0007).

If the policy requires that the parts stay together, all of them follow. Otherwise only objects without pods follow,
once no part with pods is wanted on that cluster: a running workload is not moved because another one is unhealthy. A
part waits until the part it follows has a new placement. It then leaves as its own policy says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from controlplane.apimachinery.names import TOGETHER_ANNOTATION
from controlplane.eviction import application_failover
from controlplane.kinds.binding import APPLICATION_FAILURE, Binding
from controlplane.kinds.binding.colocation_index import YES
from controlplane.kinds.binding.colocation_index import application as application_of
from controlplane.scheduling.colocation import runs_pods
from controlplane.settings import Settings

ClustersLeft = Mapping[str, Iterable[str]]
"""By binding (reference as text): the clusters that its present version has left because it was unhealthy there."""


def application_to_follow(binding: Binding) -> str:
    """Return the application whose parts have to be checked, because this part was evicted and has a new placement; "":
    none."""
    return application_of(binding) if _clusters_left(binding) else ""


def clusters_to_follow_from(binding: Binding, parts: Iterable[Binding], moves: ClustersLeft) -> dict[str, str]:
    """Return the clusters that a binding leaves to follow another part, each with the name of that part."""
    others = [part for part in parts if part.ref != binding.ref and part.metadata.deletion_timestamp is None]
    stays_together = binding.metadata.annotations.get(TOGETHER_ANNOTATION) == YES
    leaders: dict[str, str] = {}
    for leader in others:
        for cluster in _clusters_left(leader, moves.get(str(leader.ref), ())):
            if binding.spec.target(cluster) is None or binding.spec.task(cluster) is not None:
                continue
            if stays_together or (not runs_pods(binding) and not _pods_wanted_on(cluster, others)):
                leaders.setdefault(cluster, leader.metadata.name)
    return leaders


def with_following_tasks(
    binding: Binding,
    clusters: Mapping[str, str],
    settings: Settings,
    *,
    find_refuge: application_failover.FindRefuge | None = None,
    now: datetime,
) -> tuple[Binding, dict[str, str], dict[str, str]]:
    """Return a binding with tasks for clusters that it leaves to follow others, where missing state keeps it, and where
    it stays because there is no refuge. `find_refuge`: as in `decide_application_failover`."""
    behaviour = None if binding.spec.failover is None else binding.spec.failover.application
    if behaviour is None:
        return binding, {}, {}
    after, missing, held = binding, dict[str, str](), dict[str, str]()
    for cluster, leader in clusters.items():
        if find_refuge is not None and not (refuge := find_refuge(after, cluster)).found:
            held[cluster] = refuge.why
            continue
        state = application_failover.state_to_preserve(binding, cluster, behaviour, settings)
        if state.problem and settings.state_preservation_on_missing == "Hold":
            missing[cluster] = state.problem
            continue
        message = f"follows {leader}, which was unhealthy there"
        after = application_failover.with_application_task(
            after, binding, cluster, behaviour, state, message=message, now=now
        )
    return after, missing, held


def _clusters_left(binding: Binding, moves: Iterable[str] = ()) -> Sequence[str]:
    """Return the clusters that a placed binding has left because it was unhealthy there, or because it followed another
    part.

    `moves`: clusters that are known although the task for them has ended.
    """
    spec = binding.spec
    if not spec.clusters:
        return ()
    tasks = (
        graceful_eviction_task.from_cluster
        for graceful_eviction_task in spec.graceful_eviction_tasks
        if graceful_eviction_task.reason == APPLICATION_FAILURE
    )
    return [name for name in dict.fromkeys((*tasks, *moves)) if spec.target(name) is None]


def _pods_wanted_on(cluster: str, parts: Iterable[Binding]) -> bool:
    return any(runs_pods(part) and part.spec.target(cluster) is not None for part in parts)
