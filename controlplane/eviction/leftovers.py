"""Leftovers: copies nobody wants any more on clusters that cannot be reached (fault 33), or beside others whose
clusters went away before anybody removed them (I1).

Their Work is not deleted but marked. A deletion that waits for a cluster to come back would be carried out whatever has
happened since; a mark is looked at again when it does, and the copy goes only once the wanted ones are healthy. Where
they are not, it may be the last that works, and the cluster is a place to go again. A deletion that was begun before
the cluster went away, or that the cluster refused, is looked at again in the same way (`Late`). So are fewer replicas
that could not be brought to a cluster, or that were decided before it came back: that the others are enough was true
then. When they were is kept on the Work, as its deletion time is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from controlplane import interpret
from controlplane.apimachinery.meta import condition, to_seconds
from controlplane.apimachinery.names import LEFTOVER_ANNOTATION, REDUCED_ANNOTATION
from controlplane.eviction.graceful import ClusterState, unhealthy_reason
from controlplane.kinds.binding import Binding, GracefulEvictionTask, TargetCluster
from controlplane.kinds.cluster import EVICTING_EFFECTS, READY, Cluster
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.work import APPLIED, APPLIED_FAILED, CLEANUP_FAILED, REPLICAS_KEPT, Work
from controlplane.propagation import works


def is_leftover(work: Work) -> bool:
    """Test whether a Work is of a copy that was let go while its cluster, or that of another copy, was away."""
    return LEFTOVER_ANNOTATION in work.metadata.annotations


def as_leftover(work: Work) -> Work:
    """Return the Work as a leftover."""
    return work.with_meta(annotations={**work.metadata.annotations, LEFTOVER_ANNOTATION: "true"})


def without_leftover_mark(work: Work) -> Work:
    """Return the Work without the mark: its cluster is a target again."""
    if not is_leftover(work):
        return work
    return work.with_meta(
        annotations={key: value for key, value in work.metadata.annotations.items() if key != LEFTOVER_ANNOTATION}
    )


def with_reduction_time(renewed: Work, *, before: int | None, after: int | None, now: datetime) -> Work:
    """Return a Work that is given `after` replicas instead of `before` with when it was last given fewer; None: of a
    workload that is not Divided."""
    if before is None or after is None or before == after:
        return renewed
    kept = {key: value for key, value in renewed.metadata.annotations.items() if key != REDUCED_ANNOTATION}
    fewer = {REDUCED_ANNOTATION: f"{to_seconds(now):%Y-%m-%dT%H:%M:%SZ}"} if after < before else {}
    return renewed.with_meta(annotations=kept | fewer)


class LateRemoval(NamedTuple):
    """What is known of a copy whose removal, or the loss of some of its replicas, comes late. `wanted`: its cluster
    gets one again; `keeps`: how many replicas stay there for now, 0 where it gets what its Work asks for."""

    wanted: bool
    may_go: bool
    keeps: int = 0


def is_late_removal(work: Work, cluster: Cluster | None) -> bool:
    """Test whether a Work was to be removed, or to shrink, at another time: others may have failed since.

    It was if its cluster came back since, if it is a leftover, or if it was tried before and failed.
    """
    deleted, said = work.metadata.deletion_timestamp, condition(work.status.conditions, APPLIED)
    if cluster is None or cluster.terminating:
        return False
    if deleted is None:
        failed = said is not None and said.reason in (APPLIED_FAILED, REPLICAS_KEPT)
        return (failed or _ready_changed_since(cluster, _reduced_at(work))) and _ready_replicas(
            work
        ) > _requested_replicas(work)
    if said is not None and said.reason == CLEANUP_FAILED:
        return True
    return is_leftover(work) or _ready_changed_since(cluster, deleted)


def may_be_target_again(work: Work, cluster: Cluster | None) -> bool:
    """Test whether a Work is being removed from a cluster that stays: that may have become a target again since, and
    other copies may have been let go because this one is healthy (I1)."""
    return work.metadata.deletion_timestamp is not None and cluster is not None and not cluster.terminating


def _ready_changed_since(cluster: Cluster, moment: datetime | None) -> bool:
    """Test whether a cluster came back, or went away, at a moment or later."""
    ready = condition(cluster.status.conditions, READY)
    turned = None if ready is None else ready.last_transition_time
    return moment is not None and turned is not None and turned >= moment


def _reduced_at(work: Work) -> datetime | None:
    """Return when a Work was last given fewer replicas; None where nobody noted it."""
    try:
        found = datetime.fromisoformat(work.metadata.annotations.get(REDUCED_ANNOTATION, ""))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None  # somebody else wrote it


def decide_late_removal(
    binding: Binding,
    work: Work,
    cluster: str,
    clusters: Mapping[str, Cluster],
    *,
    overdue: bool = True,
    needed: bool = False,
) -> LateRemoval:
    """Return what a removal or a late shrinking of a binding's copy on a cluster has to mind now. `overdue`: a removal
    comes late, so that others may have failed since it was decided. `needed`: by a workload that still has a copy there
    (propagateDeps)."""
    task = binding.spec.task(cluster)
    if work.metadata.deletion_timestamp is None:
        return LateRemoval(wanted=True, may_go=False, keeps=_replicas_to_keep(binding, work, cluster, clusters))
    if binding.metadata.deletion_timestamp is not None or (task is not None and task.purge_mode == DIRECTLY):
        return LateRemoval(wanted=False, may_go=True)
    stays = task is not None and task.suppress_deletion is True
    wanted = any(one.name == cluster for one in works.targets(binding))  # a task alone makes no Work anew
    free = not overdue or (not stays and not needed and may_be_removed(binding, cluster, clusters))
    return LateRemoval(wanted=wanted, may_go=free)


def may_be_removed(binding: Binding, cluster: str, clusters: Mapping[str, Cluster]) -> bool:
    """Test whether the copy left on a cluster that is back may be removed: every wanted copy is healthy (D11), also of
    what is wanted only beside others (propagateDeps)."""
    wanted = tuple(works.targets(binding))
    return bool(wanted) and _all_healthy(binding, cluster, wanted, clusters)


def _replicas_to_keep(binding: Binding, work: Work, cluster: str, clusters: Mapping[str, Cluster]) -> int:
    """Return how many replicas of a Divided workload stay where fewer are asked for, until all others are healthy."""
    placement = binding.spec.placement
    others = [one for one in binding.spec.clusters if one.name != cluster]
    if placement is None or not placement.divided or _all_healthy(binding, cluster, others, clusters):
        return 0
    kept = min(_ready_replicas(work), binding.spec.replicas)
    return kept if kept > _requested_replicas(work) else 0


def _all_healthy(
    binding: Binding, cluster: str, targets: Iterable[TargetCluster], clusters: Mapping[str, Cluster]
) -> bool:
    """Test whether these targets are healthy and the last word of the scheduler, who has none about what only goes
    along with others; `cluster` loses by it."""
    places = {
        name: ClusterState(ready=one.answers, moving=one.has_taint(*EVICTING_EFFECTS), observed_at=None)
        for name, one in clusters.items()
    }
    task = GracefulEvictionTask(from_cluster=cluster)
    generation = binding.metadata.generation
    scheduled = binding.spec.placement is None or binding.status.scheduler_observed_generation == generation
    return scheduled and all(not unhealthy_reason(binding, one, task, places) for one in targets)


def _ready_replicas(work: Work) -> int:
    """Return how many replicas a member last said are ready; 0 where it said nothing, or the kind has none."""
    counts = [(one.status or {}).get("readyReplicas") for one in work.status.manifest_statuses]
    return max((one for one in counts if isinstance(one, int)), default=0)


def _requested_replicas(work: Work) -> int:
    """Return how many replicas a Work asks for; as many as serve where that is nothing we could write into it."""
    knows = interpret.interpreter_for(work.manifest.get("apiVersion", ""), work.manifest.get("kind", ""))
    return (
        _ready_replicas(work)
        if knows.replicas is None or knows.revise is None
        else knows.replicas(work.manifest).replicas
    )
