"""ClusterTaints: keeps the taints that the system and the ClusterTaintPolicies want on a cluster [taint-policies].

This file is the model for other controllers. It declares what it watches and writes, loads in a constant number of
queries, decides, and returns when to look again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controlplane.apimachinery.meta import Ref
from controlplane.clusters import eviction_tier, health, taint_policies, taints
from controlplane.controllers.reads.fleet_state import FLEET, fleet_state, fleet_state_changed
from controlplane.engine.controller import Controller, Ownership, all_clusters
from controlplane.engine.decision import Decision, Drop, Event, Put, Save
from controlplane.engine.state import State, Unreadable, Watch
from controlplane.kinds import CLUSTER, CLUSTER_TAINT_POLICY, FAILOVER_CONFIGURATION
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import FleetState, MatchWindow, Observation
from controlplane.kinds.taint_policy import ClusterTaintPolicy
from controlplane.settings import Settings

SOON = timedelta(seconds=1)  # until controllers.fleet_watch has stored since when the Failover gate is on


class ClusterTaintsSnapshot(msgspec.Struct, frozen=True):
    """A cluster with all that decides which taints it carries.

    `blind`: all clusters are faulty now, even if the stored FleetState does not report it yet [blind-fleet].
    """

    subject: Cluster
    policies: tuple[ClusterTaintPolicy, ...]
    windows: tuple[MatchWindow, ...]
    observation: Observation | None
    fleet: FleetState
    blind: bool


def _cluster_changed(old: Cluster | None, new: Cluster | None) -> Iterable[Ref]:
    """A cluster is due when its spec, its metadata or its conditions changed. Its resources play no part."""
    if new is None:
        return ()
    same = (
        old is not None
        and old.spec == new.spec
        and old.metadata == new.metadata
        and old.status.conditions == new.status.conditions
    )
    return () if same else (new.ref,)


def _policy_changed(old: ClusterTaintPolicy | None, new: ClusterTaintPolicy | None) -> Iterable[Ref]:
    """All clusters are due when a policy was created, deleted, or its spec was edited."""
    present = new or old
    return () if present is None or (old and new and old.spec == new.spec) else (present.ref,)


class ClusterTaints(Controller):
    """Key: a Cluster. Writes its taints, their owners, and since when the conditions of policies hold."""

    name = "cluster_taints"
    group = "fleet"
    keys = (CLUSTER,)
    watches = (
        Watch(CLUSTER, _cluster_changed),
        Watch(CLUSTER_TAINT_POLICY, _policy_changed, fan_out=True),
        Watch(FAILOVER_CONFIGURATION, lambda old, new: (FLEET,), fan_out=True),
        Watch("row/FleetState", fleet_state_changed, fan_out=True),
    )
    owns = Ownership({CLUSTER: ("spec.taints", "metadata.annotations")}, rows=(MatchWindow,))
    due_at_start = (FLEET,)

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return all clusters: a change of a policy, of the settings or of the fleet concerns each of them."""
        return all_clusters(state, after=after, limit=limit)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[ClusterTaintsSnapshot | None]:
        names = [ref.name for ref in refs]
        fleet = tuple(state.list(CLUSTER))
        clusters = {cluster.ref: cluster for cluster in fleet}
        policies = tuple(state.list(CLUSTER_TAINT_POLICY))
        windows = state.rows(MatchWindow, "cluster", names)
        observations = state.rows(Observation, "key", names)
        stored_fleet, blind = fleet_state(state), eviction_tier.fleet_health(fleet).blind
        return [
            ClusterTaintsSnapshot(
                clusters[ref],
                policies,
                tuple(windows.get(ref.name, ())),
                next(iter(observations.get(ref.name, ())), None),
                stored_fleet,
                blind,
            )
            if ref in clusters
            else None
            for ref in refs
        ]

    def decide(
        self, snapshot: ClusterTaintsSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        cluster, gate = snapshot.subject, settings.gate("Failover")
        if cluster.unreadable:
            raise Unreadable(cluster.unreadable)
        opened = snapshot.fleet.failover_on_since if gate else None
        blind = snapshot.blind or snapshot.fleet.blind_since is not None
        moving_since = eviction_tier.clock_start(snapshot.fleet) if opened is not None and not blind else None

        automatic = taints.automatic(cluster, settings, moving_since=moving_since, now=now)
        policies = taint_policies.Policies(taints.Wanted())
        if opened is not None:
            policies = taint_policies.wanted(
                cluster,
                snapshot.policies,
                taints.owners(cluster),
                {window.key: window for window in snapshot.windows},
                sight=_observed_time(snapshot.observation, settings, now=now),
                moving_since=moving_since,
                counting_since=opened,
                now=now,
            )
        elif gate:  # it is not stored yet since when the gate is on: no taint of a policy changes meanwhile
            return Decision(wake_at=now + SOON)

        wants = automatic.wants + policies.wanted.wants
        after, owned = taints.settled(cluster.spec.taints, taints.owners(cluster), wants, now=now)
        wakes = [moment for moment in (automatic.wake_at, policies.wanted.wake_at) if moment is not None]
        if blind:
            wakes.append(now + timedelta(seconds=settings.cluster_monitor_period))
        changed = taints.with_owned(cluster, after, owned)
        return Decision(
            changes=(
                *_window_writes(snapshot.windows, policies.windows),
                *((Put(changed, cluster),) if changed is not cluster else ()),
            ),
            events=_taint_events(cluster, changed),
            wake_at=min(wakes, default=None),
            reason="ClusterTaints",
        )


def _observed_time(row: Observation | None, settings: Settings, *, now: datetime) -> taint_policies.Sight:
    """Return the times in which the cluster was observed. A cluster that is not probed counts as always observed."""
    if row is None or row.observed_at is None:
        return taint_policies.Sight(now)
    until = health.observed_until(row, settings, now=now)
    return taint_policies.Sight(until, row.unobserved_seconds, row.resumed_at)


def _window_writes(old: Sequence[MatchWindow], new: Sequence[MatchWindow]) -> Iterable[Save | Drop]:
    kept = {window.key for window in new}
    yield from (Drop(window) for window in old if window.key not in kept)
    yield from (Save(window) for window in new if window not in old)


def _taint_events(old: Cluster, new: Cluster) -> tuple[Event, ...]:
    if old.spec.taints == new.spec.taints:
        return ()
    before = {(taint.key, taint.effect) for taint in old.spec.taints}
    after = {(taint.key, taint.effect) for taint in new.spec.taints}
    parts = [f"+{key}:{effect}" for key, effect in sorted(after - before)]
    parts += [f"-{key}:{effect}" for key, effect in sorted(before - after)]
    message = f"taints of cluster {old.metadata.name}: {' '.join(parts)}"
    return (Event(old, "TaintClusterSucceed", message),) if parts else ()
