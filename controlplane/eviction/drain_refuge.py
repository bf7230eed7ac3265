"""Whether a copy may leave a cluster that a Drain empties, and where the binding would be [unjoin-and-drain]."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from controlplane.eviction.holds import Holds
from controlplane.eviction.refuge import DryRunResult, Refuge, refuge_from
from controlplane.eviction.scheduler_dry_run import NO_PLACEMENT, SchedulerDryRun
from controlplane.eviction.state_preservation import PreservedState, missing_state_reason, preserved_state
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.settings import Settings


def drain_refuge(
    binding: Binding,
    cluster: Cluster,
    dry_run: SchedulerDryRun,
    holds: Holds,
    settings: Settings,
    *,
    clusters: Mapping[str, Cluster],
    now: datetime,
) -> tuple[Refuge, PreservedState]:
    """Return the refuge of a copy that a Drain would move away, and the state that it takes along.

    Without a refuge the copy stays; `Refuge.why` is the reason. `clusters`: all clusters by name.
    """
    name = cluster.metadata.name
    state = preserved_state(binding, name, settings)
    obstacle = _obstacle(binding, cluster, state, holds, settings, now=now)
    result = DryRunResult(refused=obstacle) if obstacle else dry_run.place_or_refuse(binding, {name}, lost=False)
    return refuge_from(binding, {name}, result, settings, source_ready=True, clusters=clusters), state


def _obstacle(
    binding: Binding, cluster: Cluster, state: PreservedState, holds: Holds, settings: Settings, *, now: datetime
) -> str:
    """Return why a binding cannot leave the cluster whatever the scheduler finds, "" if it may leave."""
    if binding.spec.placement is None:
        return NO_PLACEMENT
    if missing := missing_state_reason(state, cluster.metadata.name, settings):
        return missing
    return holds.why_asked(binding, cluster, now=now)[1]
