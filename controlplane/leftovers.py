"""Leftovers: copies nobody wants any more on clusters that cannot be reached (fault 33).

Their Work is not deleted but marked. A deletion that waits for a cluster to come back would be carried out whatever has
happened since; a mark is looked at again when it does, and the copy goes only once the wanted ones are healthy. Where
they are not, it may be the last that works, and the cluster is a place to go again.
"""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.eviction.graceful import Place, ailing
from controlplane.kinds.binding import Binding, GracefulEvictionTask
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster
from controlplane.kinds.work import Work
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
