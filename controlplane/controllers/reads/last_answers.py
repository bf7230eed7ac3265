"""When clusters that carry a fence last answered, read beside what their fence decides."""

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
    """Return when each fenced cluster last answered, by name. Clusters without a fence are left out and cost no query.

    A heartbeat counts from its receipt, also before controllers.cluster_status has looked at it.
    """
    fenced = [one for one in clusters if fence.fence_of(one) is not None]
    if not fenced:
        return {}
    seen = state.rows(Observation, "key", [one.metadata.name for one in fenced])
    pulled = [Ref(LEASE, CLUSTER_NAMESPACE, one.metadata.name) for one in fenced if one.spec.sync_mode == PULL]
    leases = state.get(pulled) if pulled else {}
    found: dict[str, datetime] = {}
    for one in fenced:
        name = one.metadata.name
        lease = leases.get(Ref(LEASE, CLUSTER_NAMESPACE, name))
        moments = [row.answered_at for row in seen.get(name, ())] + [heartbeats.received(lease)]
        latest = max((moment for moment in moments if moment is not None), default=None)
        if latest is not None:
            found[name] = latest
    return found
