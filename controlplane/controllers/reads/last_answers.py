"""When clusters answered last, and how they are observed.

A fence ends when its cluster has answered after the fence was made. The time limit of a policy counts from the last
answer. A copy whose cluster fails its probes is no reason to remove another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import CLUSTER_NAMESPACE
from controlplane.clusters import fence, heartbeats
from controlplane.controllers.reads.fleet_state import observations_of
from controlplane.engine.state import State
from controlplane.eviction.directly import Answers
from controlplane.kinds import LEASE
from controlplane.kinds.cluster import PULL, Cluster


def last_answers(state: State, clusters: Iterable[Cluster], *, observed: Collection[str]) -> Answers:
    """Return when clusters answered last and how they are observed, by name: fenced ones, and those in `observed`.

    Other clusters are left out; if there are none, no query is made. A heartbeat counts from the time at which it was
    received, even if controllers.cluster_status has not processed it yet.
    """
    asked = [one for one in clusters if fence.fence_of(one) is not None or one.metadata.name in observed]
    if not asked:
        return Answers()
    observations = observations_of(state, [cluster.metadata.name for cluster in asked])
    pulled = [Ref(LEASE, CLUSTER_NAMESPACE, item.metadata.name) for item in asked if item.spec.sync_mode == PULL]
    leases = state.get(pulled) if pulled else {}
    found: dict[str, datetime] = {}
    for cluster in asked:
        name = cluster.metadata.name
        row, lease = observations.get(name), leases.get(Ref(LEASE, CLUSTER_NAMESPACE, name))
        answers = (None if row is None else row.answered_at, heartbeats.received(lease))
        latest = max((at for at in answers if at is not None), default=None)
        if latest is not None:
            found[name] = latest
    return Answers(found, observations)
