"""Leftovers: copies nobody wants any more on clusters that cannot be reached (fault 33).

Their Work is not deleted but marked. A deletion that waits for a cluster to come back would be carried out whatever has
happened since; a mark is looked at again when it does, and the copy goes only once the wanted ones are healthy. Where
they are not, it may be the last that works, and the cluster is a place to go again. A deletion that was begun before
the cluster went away is looked at again in the same way (`Late`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from controlplane.eviction.graceful import Place, ailing
from controlplane.kinds.binding import Binding, GracefulEvictionTask
from controlplane.kinds.cluster import EVICTING_EFFECTS, READY, Cluster
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.work import Work
from controlplane.meta import condition
from controlplane.names import LEFTOVER_ANNOTATION


def is_leftover(work: Work) -> bool:
    """Test whether a Work is of a copy that was let go while its cluster was away."""
    return LEFTOVER_ANNOTATION in work.metadata.annotations


def marked(work: Work) -> Work:
    """Return the Work as a leftover."""
    return work.with_meta(annotations={**work.metadata.annotations, LEFTOVER_ANNOTATION: "true"})


def wanted_again(work: Work) -> Work:
    """Return the Work without the mark: its cluster is a target again."""
    if not is_leftover(work):
        return work
    return work.with_meta(
        annotations={key: value for key, value in work.metadata.annotations.items() if key != LEFTOVER_ANNOTATION}
    )


class Late(NamedTuple):
    """What is known of a copy whose removal comes late. `wanted`: its cluster shall hold one again."""

    wanted: bool
    may_go: bool


def is_late(work: Work, cluster: Cluster | None) -> bool:
    """Test whether a Work was to be removed before its cluster came back, or as a leftover: others may have failed."""
    deleted = work.metadata.deletion_timestamp
    if deleted is None or cluster is None or cluster.terminating:
        return False
    ready = condition(cluster.status.conditions, READY)
    turned = None if ready is None else ready.last_transition_time
    return is_leftover(work) or (turned is not None and turned >= deleted)


def late(binding: Binding, cluster: str, clusters: Mapping[str, Cluster]) -> Late:
    """Return what a late removal of a binding's copy on a cluster has to mind now."""
    task = binding.spec.task(cluster)
    if binding.metadata.deletion_timestamp is not None or (task is not None and task.purge_mode == DIRECTLY):
        return Late(wanted=False, may_go=True)
    return Late(wanted=cluster in set(binding.clusters_kept()), may_go=may_go(binding, cluster, clusters))


def may_go(binding: Binding, cluster: str, clusters: Mapping[str, Cluster]) -> bool:
    """Test whether the copy left on a cluster that is back may be removed: every wanted copy is healthy (D11)."""
    places = {
        name: Place(ready=one.ready == "True", moving=one.has_taint(*EVICTING_EFFECTS), observed_at=None)
        for name, one in clusters.items()
    }
    task = GracefulEvictionTask(from_cluster=cluster)
    targets = binding.spec.clusters
    scheduled = binding.status.scheduler_observed_generation == binding.metadata.generation
    return scheduled and bool(targets) and all(not ailing(binding, one, task, places) for one in targets)
