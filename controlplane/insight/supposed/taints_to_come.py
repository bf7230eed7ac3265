"""The taints that a cluster will have once all windows have ended, if nothing else changes.

The same functions decide as in `controllers.cluster_taints`, moment by moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from controlplane.clusters import taint_policies, taints
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import MatchWindow
from controlplane.kinds.taint_policy import ClusterTaintPolicy
from controlplane.settings import Settings

MOST_MOMENTS = 50  # each window of a policy adds one


def with_taints_to_come(
    cluster: Cluster,
    policies: Iterable[ClusterTaintPolicy],
    settings: Settings,
    *,
    windows: Iterable[MatchWindow] = (),
    moving_since: datetime | None,
    counting_since: datetime | None,
    now: datetime,
) -> Cluster:
    """Return a cluster whose conditions changed at `now` with the taints that follow, each with its future timeAdded.

    `moving_since`, `counting_since`: as in `taint_policies.wanted`. `counting_since` None: the gate Failover is off.
    `windows`: of policies that were edited at `now`, with the rule of before. All others begin as the conditions say.
    """
    known_windows = {window.key: window for window in windows}
    policies, moment = tuple(policies), now
    for _ in range(MOST_MOMENTS):
        known = taints.owners(cluster)
        automatic = taints.automatic(cluster, settings, moving_since=moving_since, now=moment)
        by_policy = taint_policies.Policies(taints.Wanted())
        if counting_since is not None:
            by_policy = taint_policies.wanted(
                cluster,
                policies,
                known,
                known_windows,
                sight=taint_policies.Sight(moment),
                moving_since=moving_since,
                counting_since=counting_since,
                now=moment,
            )
            known_windows = {window.key: window for window in by_policy.windows}
        wants = automatic.wants + by_policy.wanted.wants
        after, owned = taints.settled(cluster.spec.taints, known, wants, now=moment)
        cluster = taints.with_owned(cluster, after, owned)
        wakes = [one for one in (automatic.wake_at, by_policy.wanted.wake_at) if one is not None and one > moment]
        if not wakes:
            return cluster
        moment = min(wakes)
    return cluster
