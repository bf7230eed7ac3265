"""Takes the latest failover of one binding back, for the API and the console [edits-by-hand]."""

from __future__ import annotations

from datetime import datetime

from apps.objects import failovers
from controlplane.apimachinery.errors import Conflict
from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import State
from controlplane.eviction import revert
from controlplane.kind import KINDS
from controlplane.kinds import CLUSTER
from controlplane.kinds.binding import Binding
from controlplane.kinds.drain import DRAIN
from controlplane.settings import Settings


def reverted(live: Binding, state: State, settings: Settings, *, by: str, now: datetime) -> Binding:
    """Return the binding with the placement it had before its latest failover.

    Raises Conflict if there is no failover on record for this binding, or if the binding cannot return to that
    placement. A failover of a deleted binding with the same name does not count.
    """
    resource, name = KINDS[live.ref.kind].resource, live.metadata.name
    before = failovers.before(live.ref)
    if before is None or before.metadata.uid != live.metadata.uid:
        raise Conflict.of(resource.plural, name, group=resource.group, why="no failover of it is on record")
    refs = [Ref(CLUSTER, "", target.name) for target in before.spec.clusters]
    clusters = {ref.name: cluster for ref, cluster in state.get(refs).items()}
    obstacles = list(revert.revert_obstacles(live, before, clusters, settings, drains=state.list(DRAIN)))
    if obstacles:
        raise Conflict.of(resource.plural, name, group=resource.group, why="; ".join(obstacles))
    return revert.reverted_binding(live, before, settings, by=by, now=now)
