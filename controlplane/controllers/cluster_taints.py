"""ClusterTaints: one decision per cluster on all taints the system and the policies want (D1, D3, D9, D17, D22).

The model the other controllers copy: declare, load in a constant number of queries, decide, say when to look again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controlplane.apimachinery.meta import Ref
from controlplane.clusters import health, taint_policies, taints
from controlplane.controllers.reads.fleet_state import FLEET, fleet_state, fleet_state_changed
from controlplane.engine.controller import Controller, Ownership, all_clusters
from controlplane.engine.decision import Decision, Drop, Event, Put, Save
from controlplane.engine.state import State, Watch
from controlplane.kinds import CLUSTER, CLUSTER_TAINT_POLICY, FAILOVER_CONFIGURATION
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import FleetState, MatchWindow, Observation
from controlplane.kinds.taint_policy import ClusterTaintPolicy
from controlplane.settings import Settings

NOT_YET = timedelta(seconds=1)


class ClusterTaintsSnapshot(msgspec.Struct, frozen=True):
    """`blind`: all clusters are faulty at this moment, whatever FleetState remembers."""

    subject: Cluster
    policies: tuple[ClusterTaintPolicy, ...]
    windows: tuple[MatchWindow, ...]
    observation: Observation | None
    fleet: FleetState
    blind: bool


def _changed(old: Cluster | None, new: Cluster | None) -> Iterable[Ref]:
    """Look again where anything but the member's resources changed; a cluster that is gone needs no taints."""
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
    present = new or old
    return () if present is None or (old and new and old.spec == new.spec) else (present.ref,)


class ClusterTaints(Controller):
    name = "cluster_taints"
    group = "fleet"
    keys = (CLUSTER,)
    watches = (
        Watch(CLUSTER, _changed),
        Watch(CLUSTER_TAINT_POLICY, _policy_changed, fan_out=True),
        Watch(FAILOVER_CONFIGURATION, lambda old, new: (FLEET,), fan_out=True),
        Watch("row/FleetState", fleet_state_changed, fan_out=True),
    )
    owns = Ownership({CLUSTER: ("spec.taints", "metadata.annotations")}, rows=(MatchWindow,))
    due_at_start = (FLEET,)

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """A policy or the settings concern every cluster."""
        return all_clusters(state, after=after, limit=limit)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[ClusterTaintsSnapshot | None]:
        names = [ref.name for ref in refs]
        fleet = tuple(state.list(CLUSTER))
        known = {cluster.ref: cluster for cluster in fleet}
        policies = tuple(state.list(CLUSTER_TAINT_POLICY))
        windows = state.rows(MatchWindow, "cluster", names)
        observations = state.rows(Observation, "key", names)
        remembered, blind = fleet_state(state), health.fleet_health(fleet).blind
        return [
            ClusterTaintsSnapshot(
                known[ref],
                policies,
                tuple(windows.get(ref.name, ())),
                next(iter(observations.get(ref.name, ())), None),
                remembered,
                blind,
            )
            if ref in known
            else None
            for ref in refs
        ]

    def decide(
        self, snapshot: ClusterTaintsSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        cluster, gate = snapshot.subject, settings.gate("Failover")
        opened = snapshot.fleet.failover_on_since if gate else None
        blind = snapshot.blind or snapshot.fleet.blind_since is not None
        moving_since = health.clock_start(snapshot.fleet) if opened is not None and not blind else None

        automatic = taints.automatic(cluster, settings, moving_since=moving_since, now=now)
        policies = taint_policies.Policies(taints.Wanted())
        if opened is not None:
            policies = taint_policies.wanted(
                cluster,
                snapshot.policies,
                taints.owners(cluster),
                {window.key: window for window in snapshot.windows},
                sight=_sight(snapshot.observation, settings, now=now),
                moving_since=moving_since,
                counting_since=opened,
                now=now,
            )
        elif gate:  # controllers.fleet_watch has not noted yet since when: nothing of the policies changes meanwhile
            return Decision(wake_at=now + NOT_YET)

        wants = automatic.wants + policies.wanted.wants
        after, owned = taints.settled(cluster.spec.taints, taints.owners(cluster), wants, now=now)
        wakes = [moment for moment in (automatic.wake_at, policies.wanted.wake_at) if moment is not None]
        if blind:
            wakes.append(now + timedelta(seconds=settings.cluster_monitor_period))
        changed = _with_taints(cluster, after, owned)
        return Decision(
            changes=(
                *_windows(snapshot.windows, policies.windows),
                *((Put(changed, cluster),) if changed is not cluster else ()),
            ),
            events=_told(cluster, changed),
            wake_at=min(wakes, default=None),
            reason="ClusterTaints",
        )


def _sight(row: Observation | None, settings: Settings, *, now: datetime) -> taint_policies.Sight:
    """Return until when the cluster is observed; a cluster that nobody probes always is."""
    if row is None or row.observed_at is None:
        return taint_policies.Sight(now)
    until = health.observed_until(row, settings, now=now)
    return taint_policies.Sight(until, row.unobserved_seconds, row.resumed_at)


def _with_taints(cluster: Cluster, after: tuple[Any, ...], owned: taints.Owners) -> Cluster:
    annotations = {k: v for k, v in cluster.metadata.annotations.items() if k != taints.OWNERS_ANNOTATION}
    if text := taints.written(owned):
        annotations[taints.OWNERS_ANNOTATION] = text
    return cluster.with_spec(taints=after).with_meta(annotations=annotations)


def _windows(old: Sequence[MatchWindow], new: Sequence[MatchWindow]) -> Iterable[Save | Drop]:
    kept = {window.key for window in new}
    yield from (Drop(window) for window in old if window.key not in kept)
    yield from (Save(window) for window in new if window not in old)


def _told(old: Cluster, new: Cluster) -> tuple[Event, ...]:
    if old.spec.taints == new.spec.taints:
        return ()
    before = {(taint.key, taint.effect) for taint in old.spec.taints}
    after = {(taint.key, taint.effect) for taint in new.spec.taints}
    parts = [f"+{key}:{effect}" for key, effect in sorted(after - before)]
    parts += [f"-{key}:{effect}" for key, effect in sorted(before - after)]
    return (
        (Event(old, "TaintClusterSucceed", f"taints of cluster {old.metadata.name}: {' '.join(parts)}"),)
        if parts
        else ()
    )
