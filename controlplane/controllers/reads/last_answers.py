"""When fenced clusters answered last. A fence ends when its cluster has answered after the fence was made."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import CLUSTER_NAMESPACE
from controlplane.clusters import fence, heartbeats
from controlplane.engine.state import State
from controlplane.kinds import LEASE
from controlplane.kinds.cluster import PULL, Cluster
from controlplane.kinds.rows import Observation


def last_answers(state: State, clusters: Iterable[Cluster]) -> dict[str, datetime]:
    """Return when each fenced cluster answered last, by name.

    Clusters without a fence are left out; if there is none with a fence, no query is made. A heartbeat counts from the
    time at which it was received, even if controllers.cluster_status has not processed it yet.
    """
    fenced = [cluster for cluster in clusters if fence.fence_of(cluster) is not None]
    if not fenced:
        return {}
    names = [cluster.metadata.name for cluster in fenced]
    observations = state.rows(Observation, "key", names)
    pulled = [Ref(LEASE, CLUSTER_NAMESPACE, item.metadata.name) for item in fenced if item.spec.sync_mode == PULL]
    leases = state.get(pulled) if pulled else {}
    found: dict[str, datetime] = {}
    for name in names:
        lease = leases.get(Ref(LEASE, CLUSTER_NAMESPACE, name))
        answers = [row.answered_at for row in observations.get(name, ())] + [heartbeats.received(lease)]
        latest = max((at for at in answers if at is not None), default=None)
        if latest is not None:
            found[name] = latest
    return found
