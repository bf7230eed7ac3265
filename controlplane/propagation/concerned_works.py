"""Whether a change of a binding concerns its Works, and which clusters these are on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from controlplane.apimachinery.names import DIRECTLY_UNREACHABLE_ANNOTATION, DRIFT_ANNOTATION
from controlplane.kinds.binding import Binding
from controlplane.kinds.policy import DIRECTLY
from controlplane.propagation import works


def concerns_works(old: Binding | None, new: Binding) -> bool:
    """Test whether the change of a binding concerns its Works.

    A new binding without a cluster concerns none. Neither does a graceful eviction from its last cluster, until the
    binding is placed again. While a member reports a copy that is no longer wanted, the status of the binding counts
    too: the copy is removed once the others are healthy and the scheduler has decided.
    """
    if old is None:
        return any(named_clusters(new))
    if _relevant_metadata(old) != _relevant_metadata(new):
        return True
    if old.metadata.generation == new.metadata.generation:
        return _status_progress(old) != _status_progress(new) and _has_unwanted_copy(new)
    return not _lost_last_cluster(old, new)


def _lost_last_cluster(old: Binding, new: Binding) -> bool:
    """Test whether a binding has lost its last cluster by graceful evictions, so that all its Works stay for now."""
    before, after = old.spec, new.spec
    if after.clusters or after.required_by or not before.clusters:
        return False
    if any(task.purge_mode == DIRECTLY for task in after.graceful_eviction_tasks):
        return False
    same = replace(before, clusters=(), graceful_eviction_tasks=after.graceful_eviction_tasks) == after
    return same and set(old.clusters_kept()) == set(new.clusters_kept())


def _status_progress(binding: Binding) -> tuple[Any, ...]:
    return binding.status.scheduler_observed_generation, binding.status.aggregated_status


def _has_unwanted_copy(binding: Binding) -> bool:
    """Test whether a member reports a copy although the binding wants none there."""
    kept = set(binding.clusters_kept())
    return any(item.cluster_name not in kept for item in binding.status.aggregated_status)


def _relevant_metadata(binding: Binding) -> tuple[Any, ...]:
    metadata = binding.metadata
    passed_on = (metadata.annotations.get(name) for name in (DIRECTLY_UNREACHABLE_ANNOTATION, DRIFT_ANNOTATION))
    return metadata.deletion_timestamp, *passed_on


def named_clusters(binding: Binding) -> Iterable[str]:
    """Yield the clusters that a binding is placed on, or is being evicted from."""
    spec = binding.spec
    yield from (target.name for target in works.targets(binding))
    yield from (task.from_cluster for task in spec.graceful_eviction_tasks)
