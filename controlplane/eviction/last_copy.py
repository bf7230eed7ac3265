"""Whether a copy that is not wanted any more may be the last healthy one [no-healthy-copy-lost]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controlplane.eviction import leftovers, supporting_objects
from controlplane.kinds.binding import HEALTHY, Binding, origin
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.policy.affinity import affinities, chooses
from controlplane.kinds.work import Work
from controlplane.propagation import works
from controlplane.propagation.bindings import template_ref
from controlplane.wire.definition import KEY as DEFINITION


def may_be_last(binding: Binding, work: Work, clusters: Mapping[str, Cluster]) -> bool:
    """Test whether an unwanted copy has to wait until others are healthy.

    That is so if no eviction has checked it before: the copy is a leftover [returning-copies], its cluster is being
    unjoined [unjoin-and-drain], or its cluster was given up, because copies on others were evicted or because the
    scheduler has chosen others. It is so as well if a cluster of another copy does not answer any more, or if
    dispatching to it is suspended.
    """
    own, spec = clusters.get(work.cluster), binding.spec
    if leftovers.is_leftover(work) or (own is not None and own.terminating):
        return True
    if _given_up_for_others(binding, work.cluster) or (own is not None and _others_were_chosen(binding, work, own)):
        return True
    if any(spec.dispatching_suspended(target.name) for target in works.targets(binding)):
        return True
    others = (clusters.get(name) for name in binding.clusters_kept())
    return any(cluster is None or not cluster.answers for cluster in others)


def is_supporting(binding: Binding, copies: Iterable[Work]) -> bool:
    """Test whether a binding is of an object that pods may need on a cluster that the scheduler has given up.

    A copy that was evicted has waited for them under its task [graceful-timeout].
    """
    kind = template_ref(binding).kind
    if binding.spec.placement is None or kind not in supporting_objects.KINDS or kind == DEFINITION:
        return False
    kept = set(binding.clusters_kept())
    return any(work.cluster not in kept and not origin.has_left(binding, work.cluster) for work in copies)


def _given_up_for_others(binding: Binding, cluster: str) -> bool:
    """Test whether a cluster may have been given up because copies on others are evicted gracefully, for example the
    second cluster of an affinity group when the first one is lost."""
    tasks = binding.spec.graceful_eviction_tasks
    return any(task.purge_mode != DIRECTLY for task in tasks) and binding.spec.task(cluster) is None


def _others_were_chosen(binding: Binding, work: Work, cluster: Cluster) -> bool:
    """Test whether the scheduler has chosen other clusters instead of one whose copy runs and that the policy allows.

    It chooses again when a cluster recovers, if replicas are duplicated: spread constraints may prefer another region,
    for example. Divided replicas go to another affinity group if their own has no room for more of them. A copy that
    was evicted is not meant: its task has ended, healthy copies or not [graceful-timeout].
    """
    placement, name = binding.spec.placement, cluster.metadata.name
    if placement is None or binding.spec.task(name) is not None or origin.has_left(binding, name):
        return False
    runs = any(one.health == HEALTHY for one in work.status.manifest_statuses)
    return runs and any(chooses(affinity, cluster) for affinity in affinities(placement))
