"""Leftovers: copies that are not wanted any more but may still be the last healthy ones [returning-copies].

A copy becomes a leftover if its cluster cannot be reached, or if the cluster of another copy went away before this copy
was removed. The Work of a leftover is marked, not deleted. A pending deletion would be carried out when the cluster
comes back, whatever has happened since. A marked Work is checked then, and the copy is removed only if all wanted
copies are healthy. Otherwise its cluster may become a target again [no-healthy-copy-lost].

Two more cases are checked in the same way (`LateRemoval`): a deletion that began before the cluster went away, or that
the cluster refused; and a lower replica count that has not reached the cluster yet. The time when the count was lowered
is kept on the Work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from controlplane import interpret
from controlplane.apimachinery.meta import condition, to_seconds
from controlplane.apimachinery.names import (
    LEFTOVER_ANNOTATION,
    REDUCED_ANNOTATION,
    TEMPLATE_UID_ANNOTATION,
    WANTED_AGAIN_ANNOTATION,
)
from controlplane.clusters import health
from controlplane.engine.decision import Guard
from controlplane.eviction.directly import DIRECTLY_WAITING
from controlplane.eviction.graceful import is_scheduled, unhealthy_reason
from controlplane.eviction.replacements import are_still_prevented, states_of
from controlplane.kinds.binding import OVERRIDES_APPLIED, Binding, GracefulEvictionTask, TargetCluster
from controlplane.kinds.binding.origin import placed_without
from controlplane.kinds.binding.quota_index import over_quota_keys
from controlplane.kinds.cluster import PULL, READY, Cluster
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.rows import Observation
from controlplane.kinds.work import APPLIED, APPLIED_FAILED, CLEANUP_FAILED, REPLICAS_KEPT, Work
from controlplane.propagation import works
from controlplane.settings import Settings


def is_leftover(work: Work) -> bool:
    """Test whether a Work is marked as a leftover."""
    return LEFTOVER_ANNOTATION in work.metadata.annotations


def as_leftover(work: Work) -> Work:
    """Return the Work with the leftover mark."""
    return work.with_meta(annotations={**work.metadata.annotations, LEFTOVER_ANNOTATION: "true"})


def without_leftover_mark(work: Work) -> Work:
    """Return the Work without the leftover mark, because its cluster is a target again."""
    if not is_leftover(work):
        return work
    return work.with_meta(
        annotations={key: value for key, value in work.metadata.annotations.items() if key != LEFTOVER_ANNOTATION}
    )


def as_wanted_again(work: Work, binding: Binding) -> Work:
    """Return a Work that is being deleted with the mark that the binding, as it is now, wants a copy there.

    The deletion is looked at at once because of it: the copy gets its new content without waiting for the next try.
    """
    mark = f"{binding.metadata.uid}/{binding.metadata.generation}"
    return work.with_meta(annotations={**work.metadata.annotations, WANTED_AGAIN_ANNOTATION: mark})


def with_reduction_time(renewed: Work, *, before: int | None, after: int | None, now: datetime) -> Work:
    """Return a Work that gets `after` replicas instead of `before`, with the time when its count was last lowered.

    `before` or `after` None: the workload is not Divided.
    """
    if before is None or after is None or before == after:
        return renewed
    kept = {key: value for key, value in renewed.metadata.annotations.items() if key != REDUCED_ANNOTATION}
    fewer = {REDUCED_ANNOTATION: f"{to_seconds(now):%Y-%m-%dT%H:%M:%SZ}"} if after < before else {}
    return renewed.with_meta(annotations=kept | fewer)


class LateRemoval(NamedTuple):
    """How to treat a copy whose removal, or the removal of some replicas, comes late.

    `wanted`: its cluster is a target again. `keeps`: how many replicas stay there for now; 0: as many as the Work
    requests. `rests_on`: the binding as it was read, which must be unchanged when a Work ends because of it.
    `observations`: of the clusters of the copies for which this one goes.
    """

    wanted: bool
    may_go: bool
    keeps: int = 0
    rests_on: Guard | None = None
    observations: tuple[Observation, ...] = ()

    def goes(self, settings: Settings, *, now: datetime) -> bool:
        """Test whether the copy may be removed now.

        What is known of the other copies may be from before a time in which their clusters were not observed. Then
        these are observed first [outage-of-our-own].
        """
        known = not any(health.is_out_of_date(row, settings, now=now) for row in self.observations)
        return known and self.may_go and not self.wanted


def is_late_removal(work: Work, cluster: Cluster | None) -> bool:
    """Test whether a removal has to be checked again, because other copies may have failed since it was decided.

    The removal is that of a Work, or of some of its replicas. True if the cluster came back since, if the Work is a
    leftover, or if an earlier try failed. False if the cluster is gone or terminating. A lower number of replicas is
    late only while more replicas are ready than requested; also while the cluster is away.
    """
    deleted, applied = work.metadata.deletion_timestamp, condition(work.status.conditions, APPLIED)
    if cluster is None or cluster.terminating:
        return False
    if deleted is None:
        failed = applied is not None and applied.reason in (APPLIED_FAILED, REPLICAS_KEPT)
        late = failed or cluster.ready != "True" or _ready_changed_since(cluster, _reduced_at(work))
        return late and _ready_replicas(work) > _requested_replicas(work)
    if applied is not None and applied.reason == CLEANUP_FAILED:
        return True
    return is_leftover(work) or _ready_changed_since(cluster, deleted)


def left_to_agent(work: Work, cluster: Cluster | None) -> datetime | None:
    """Return since when the agent of a Pull cluster is to remove a copy, or some of its replicas; None: it is not.

    Its heartbeats may arrive while it does not hear of its Works, so that it carries out the removal minutes later.
    """
    if cluster is None or cluster.spec.sync_mode != PULL or cluster.terminating:
        return None
    if work.metadata.deletion_timestamp is not None:
        return work.metadata.deletion_timestamp
    applied = condition(work.status.conditions, APPLIED)
    done = applied is not None and applied.observed_generation == work.metadata.generation
    return None if done or _ready_replicas(work) <= _requested_replicas(work) else _reduced_at(work)


def may_be_target_again(work: Work, cluster: Cluster | None) -> bool:
    """Test whether a Work is being deleted from a cluster that stays in the fleet.

    The cluster may have become a target again, and other copies may have been removed because this one is healthy
    [no-healthy-copy-lost].
    """
    return work.metadata.deletion_timestamp is not None and cluster is not None and not cluster.terminating


def _ready_changed_since(cluster: Cluster, moment: datetime | None) -> bool:
    """Test whether the condition Ready of a cluster changed at this time or later. None: False."""
    ready = condition(cluster.status.conditions, READY)
    turned = None if ready is None else ready.last_transition_time
    return moment is not None and turned is not None and turned >= moment


def _reduced_at(work: Work) -> datetime | None:
    """Return when the replica count of a Work was last lowered; None: no valid time is recorded."""
    try:
        reduced_at = datetime.fromisoformat(work.metadata.annotations.get(REDUCED_ANNOTATION, ""))
    except ValueError:
        return None
    return reduced_at if reduced_at.tzinfo is not None else None


def leaves_directly(binding: Binding, cluster: str) -> bool:
    """Test whether a copy leaves its cluster Directly, before others start."""
    task = binding.spec.task(cluster)
    return task is not None and task.purge_mode == DIRECTLY and binding.spec.target(cluster) is None


def decide_late_removal(
    binding: Binding,
    work: Work,
    cluster: str,
    clusters: Mapping[str, Cluster],
    *,
    overdue: bool = True,
    needed: bool = False,
) -> LateRemoval:
    """Return whether a copy that was to be removed earlier may be removed now, and how many replicas it keeps.

    `overdue`: the removal comes late, so other copies may have failed since it was decided. `needed`: a workload that
    still has a copy on the cluster needs this object (propagateDeps). A wanted copy keeps its Work while no other
    Work would take the copy over: without one it could not be removed later [directly-unreachable]. The task of a copy
    whose cluster is a target again is about to end [recovered-clusters-cancel]. A Job that was made again does not take
    over the one before: it would be complete before it has run.
    """
    task = binding.spec.task(cluster)
    if work.metadata.deletion_timestamp is None:
        return LateRemoval(wanted=True, may_go=False, keeps=_replicas_to_keep(binding, work, cluster, clusters))
    if binding.metadata.deletion_timestamp is not None:
        return LateRemoval(wanted=False, may_go=True)
    if _is_older(binding, work) and _runs_once(binding):
        return LateRemoval(wanted=False, may_go=True)
    if task is not None and leaves_directly(binding, cluster):
        return LateRemoval(wanted=False, may_go=not are_still_prevented(binding, task, clusters))
    stays = task is not None and task.suppress_deletion is True
    wanted = any(target.name == cluster for target in works.targets(binding))  # a task alone creates no Work
    if wanted and _no_work_follows(binding):
        return LateRemoval(wanted=False, may_go=False)
    may_go = may_be_removed(binding, cluster, clusters) or _has_no_successor(binding, work)
    free = not overdue or (not stays and not needed and may_go)
    return LateRemoval(wanted=wanted, may_go=free)


def _no_work_follows(binding: Binding) -> bool:
    """Test whether new Works of a binding may not be made: they wait for a Directly eviction, or an override policy
    cannot be applied."""
    waiting, applied = (condition(binding.status.conditions, name) for name in (DIRECTLY_WAITING, OVERRIDES_APPLIED))
    return (waiting is not None and waiting.status == "True") or (applied is not None and applied.status == "False")


def may_be_removed(binding: Binding, cluster: str, clusters: Mapping[str, Cluster]) -> bool:
    """Test whether the copy on a cluster that is back may be removed: every wanted copy is healthy [graceful-timeout].

    Copies that are wanted only because other workloads need them (propagateDeps) count as well. If no copy is wanted,
    the copy may be removed only if the workload is scaled to zero.
    """
    wanted = tuple(works.targets(binding))
    return (bool(wanted) or binding.scaled_to_zero) and _all_healthy(binding, cluster, wanted, clusters)


def _is_older(binding: Binding, work: Work) -> bool:
    """Test whether a copy is of a template that was deleted, and made again under its name."""
    made_from = (work.manifest.get("metadata", {}).get("annotations") or {}).get(TEMPLATE_UID_ANNOTATION)
    return made_from is not None and made_from != binding.spec.resource.uid


def _runs_once(binding: Binding) -> bool:
    template = binding.spec.resource
    return interpret.interpreter_for(template.api_version, template.kind).ends


def _has_no_successor(binding: Binding, work: Work) -> bool:
    """Test whether a copy is of a template that was deleted, and a quota refuses all copies of the one made again.

    It may never get a successor. It counts in no quota any more, and the user has deleted it.
    """
    return _is_older(binding, work) and not any(works.targets(binding)) and bool(over_quota_keys(binding))


def _replicas_to_keep(binding: Binding, work: Work, cluster: str, clusters: Mapping[str, Cluster]) -> int:
    """Return how many replicas of a Divided workload stay although fewer are requested; 0: as many as requested.

    They stay until all other targets are healthy, and while the cluster is away: the others may fail meanwhile.
    """
    placement, own = binding.spec.placement, clusters.get(cluster)
    others = [target for target in binding.spec.clusters if target.name != cluster]
    if placement is None or not placement.divided:
        return 0
    if (own is None or own.ready == "True") and _all_healthy(binding, cluster, others, clusters):
        return 0
    kept = min(_ready_replicas(work), binding.spec.replicas)
    return kept if kept > _requested_replicas(work) else 0


def _all_healthy(
    binding: Binding, cluster: str, targets: Iterable[TargetCluster], clusters: Mapping[str, Cluster]
) -> bool:
    """Test whether these targets are healthy and the scheduler has processed the binding's latest generation.

    The scheduler does not process attached bindings (those without a placement). If it has placed all replicas without
    the copy of the cluster, it does not matter that a later change is refused. `cluster`: the one that loses its copy.
    """
    states, task = states_of(clusters), GracefulEvictionTask(from_cluster=cluster)
    seen = binding.status.scheduler_observed_generation == binding.metadata.generation
    scheduled = binding.spec.placement is None or seen or (placed_without(binding, cluster) and is_scheduled(binding))
    return scheduled and all(not unhealthy_reason(binding, target, task, states) for target in targets)


def _ready_replicas(work: Work) -> int:
    """Return how many replicas a member last reported as ready; 0 without a report, and for kinds without replicas."""
    counts = [(manifest_status.status or {}).get("readyReplicas") for manifest_status in work.status.manifest_statuses]
    return max((count for count in counts if isinstance(count, int)), default=0)


def _requested_replicas(work: Work) -> int:
    """Return how many replicas a Work requests. As many as are ready: for a kind without replicas, and where they
    cannot be read, or a script or webhook of a user does not answer."""
    interpreter = interpret.interpreter_for(work.manifest.get("apiVersion", ""), work.manifest.get("kind", ""))
    try:
        requested = None if interpreter.revise is None else works.requested_replicas(work)
    except interpret.Unanswered:
        requested = None
    return _ready_replicas(work) if requested is None else requested
