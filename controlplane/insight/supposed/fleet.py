"""The fleet as it will be after changes: clusters with the taints to come, settings, holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, Ref, condition, to_seconds, with_condition
from controlplane.apimachinery.names import UNJOIN_ANNOTATION, UNSCHEDULABLE_TAINT
from controlplane.clusters import eviction_tier, health, taint_policies, unjoin
from controlplane.eviction import failback
from controlplane.eviction.holds import Holds
from controlplane.insight.changes import (
    Change,
    ClusterRemoved,
    ClustersDrained,
    ClustersLost,
    Cordoned,
    Failback,
    GateOrRateChanged,
    HoldEdited,
    ObjectsDeleted,
    PolicyEdited,
    TaintAdded,
    TaintRemoved,
    lost_clusters,
)
from controlplane.insight.supposed.snapshot import Snapshot
from controlplane.insight.supposed.taints_to_come import with_taints_to_come
from controlplane.kinds import CLUSTER, CLUSTER_TAINT_POLICY, EVICTION_HOLD, MAINTENANCE_WINDOW
from controlplane.kinds.cluster import ACCESS_LOST, FLAPPING, NO_SCHEDULE, PULL, READY, Cluster, Taint
from controlplane.kinds.cluster.rules import UNJOIN_DELETE, UNJOIN_KEEP
from controlplane.kinds.eviction_hold import EvictionHold
from controlplane.kinds.maintenance_window import MaintenanceWindow
from controlplane.kinds.rows import FleetState, MatchWindow, window_key
from controlplane.kinds.taint_policy import ClusterTaintPolicy
from controlplane.settings import Settings
from controlplane.settings.checks import SettingError, with_overrides


class SupposedFleet(msgspec.Struct, frozen=True):
    """The fleet after changes.

    clusters: by name, with the taints to come. touched: the clusters whose evictions follow from the changes.
    drained: the clusters with a new Drain, each with its rate. removed: the clusters whose copies are not evicted, but
    placed again at once, because the Cluster is deleted. failbacks: the clusters that bindings return to, each with the
    rate. deleted: the references of deleted objects.
    """

    clusters: dict[str, Cluster]
    settings: Settings
    state: FleetState
    holds: Holds
    touched: frozenset[str] = frozenset()
    drained: dict[str, float] = {}
    removed: frozenset[str] = frozenset()
    failbacks: dict[str, float] = {}
    deleted: frozenset[Ref] = frozenset()
    refused: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def tier(self) -> Callable[[datetime], eviction_tier.Tier]:
        """Return the function that returns the eviction tier at a moment."""

        def at(now: datetime) -> eviction_tier.Tier:
            seen = eviction_tier.fleet_health(self.clusters.values(), maintained=self.holds.maintained(now=now))
            return eviction_tier.in_force(seen, self.state, self.settings)

        return at


def supposed_fleet(
    snapshot: Snapshot, changes: Sequence[Change], settings: Settings, *, now: datetime
) -> SupposedFleet:
    """Return the fleet after changes. Invalid changes are refused, and so are those of clusters that do not exist."""
    supposing = _Supposing(snapshot, settings, now)
    for change in changes:
        supposing.apply(change)
    return supposing.result()


class _Supposing:
    """Applies one change after the other. Taints come last, because they depend on all changes."""

    def __init__(self, snapshot: Snapshot, settings: Settings, now: datetime) -> None:
        self._snapshot, self._settings, self._now = snapshot, settings, now
        self._clusters = {cluster.metadata.name: cluster for cluster in snapshot.clusters}
        self._holds, self._state = snapshot.holds, snapshot.fleet
        self._taints_from: dict[str, datetime] = {}  # clusters whose taints follow from their conditions, since when
        self._touched: set[str] = set()
        self._drained: dict[str, float] = {}
        self._removed: set[str] = set()
        self._failbacks: dict[str, float] = {}
        self._deleted: set[Ref] = set()
        self._policies = {policy.ref: policy for policy in snapshot.taint_policies}
        self._windows: list[MatchWindow] = []  # of edited ClusterTaintPolicies, which start again
        self._refused: list[str] = list(snapshot.invalid)

    def apply(self, change: Change) -> None:
        match change:
            case ClustersLost():
                for name in self._known(change.names):
                    self._lose(name)
                self._check_groups(change)
                for name in lost_clusters(change, self._snapshot.clusters):
                    self._lose(name)
            case ClustersDrained(names, rate):
                for name in self._known(names):
                    self._cordon(name)
                    self._drained[name] = rate
            case Cordoned(names):
                for name in self._known(names):
                    self._cordon(name)
            case TaintAdded(name, taint):
                for known in self._known([name]):
                    self._taint(known, replace(taint, time_added=taint.time_added or to_seconds(self._now)))
                    self._touched.add(known)
            case TaintRemoved(name, key, effect):
                for known in self._known([name]):
                    self._untaint(known, key, effect)
                    self._touched.add(known)
            case ClusterRemoved(name, copies):
                for known in self._known([name]):
                    self._remove(known, copies)
            case GateOrRateChanged(configuration):
                self._configure(configuration)
            case Failback(name, rate):
                for known in self._known([name]):
                    self._fail_back(known, rate)
            case PolicyEdited():
                self._edit_taint_policies()
            case HoldEdited():
                self._edit_holds()
            case ObjectsDeleted():
                self._delete(change)

    def _known(self, names: Iterable[str]) -> list[str]:
        wrong = [name for name in names if name not in self._clusters]
        self._refused += [f"there is no cluster {name}" for name in wrong]
        return [name for name in names if name in self._clusters]

    def _check_groups(self, change: ClustersLost) -> None:
        """Refuse a region or provider that has no cluster: a wrong name must not read as a loss without effects."""
        regions = {one.spec.region for one in self._clusters.values()}
        providers = {one.spec.provider for one in self._clusters.values()}
        for what, names, known in (("region", change.regions, regions), ("provider", change.providers, providers)):
            self._refused += [f"there is no cluster of {what} {name}" for name in names if name not in known - {""}]

    def _lose(self, name: str) -> None:
        """Let a cluster stop answering: Ready changes once this has lasted for as long as the settings demand."""
        cluster, settings = self._clusters[name], self._settings
        self._touched.add(name)
        pulled = cluster.spec.sync_mode == PULL
        seconds = settings.cluster_monitor_grace_period if pulled else settings.cluster_failure_threshold
        at = self._now + timedelta(seconds=seconds)
        silent = Condition(READY, health.UNKNOWN, health.STATUS_UNKNOWN, "supposed: it stopped sending heartbeats")
        if not pulled:
            silent = Condition(READY, health.FALSE, health.CLUSTER_NOT_REACHABLE, "supposed: it does not answer")
        conditions = with_condition(cluster.status.conditions, silent, now=at)
        for ended in (ACCESS_LOST, FLAPPING):  # an address that does not answer refuses nothing, and is stable
            if condition(conditions, ended) is not None:
                conditions = with_condition(conditions, Condition(ended, health.FALSE, "Supposed"), now=at)
        self._clusters[name] = cluster.with_status(conditions=conditions)
        if cluster.ready == health.TRUE:
            self._taints_from[name] = at
        flapping = {one: taints for one, taints in self._holds.flapping.items() if one != name}
        self._holds = replace(self._holds, flapping=flapping)

    def _taint(self, name: str, taint: Taint) -> None:
        cluster = self._clusters[name]
        rest = (one for one in cluster.spec.taints if (one.key, one.effect) != (taint.key, taint.effect))
        self._clusters[name] = cluster.with_spec(taints=(*rest, taint))

    def _untaint(self, name: str, key: str, effect: str) -> None:
        cluster = self._clusters[name]
        rest = tuple(one for one in cluster.spec.taints if (one.key, one.effect) != (key, effect))
        self._clusters[name] = cluster.with_spec(taints=rest)

    def _cordon(self, name: str) -> None:
        self._taint(name, Taint(UNSCHEDULABLE_TAINT, NO_SCHEDULE, time_added=to_seconds(self._now)))

    def _remove(self, name: str, copies: str) -> None:
        cluster = self._clusters[name]
        if copies in (UNJOIN_KEEP, UNJOIN_DELETE):
            cluster = cluster.with_meta(annotations={**cluster.metadata.annotations, UNJOIN_ANNOTATION: copies})
        placed = any(binding.spec.target(name) for binding in self._snapshot.bindings.values())
        if placed and not unjoin.forced(cluster) and not unjoin.evicts(self._settings):
            self._refused.append(
                f"bindings are placed on cluster {name}: drain it first, or annotate it with "
                f"{UNJOIN_ANNOTATION}={UNJOIN_KEEP} or ={UNJOIN_DELETE}"
            )
            return
        self._clusters[name] = cluster.with_meta(deletion_timestamp=to_seconds(self._now))
        self._touched.add(name)
        if unjoin.evicts(self._settings):
            self._taints_from[name] = self._now
        else:
            self._removed.add(name)

    def _configure(self, configuration: dict[str, object]) -> None:
        before = self._settings
        try:
            self._settings = with_overrides(self._snapshot.base, configuration)
        except SettingError as error:
            self._refused.append(str(error))
            return
        opened = self._settings.gate("Failover")
        if opened and self._state.failover_on_since is None:
            self._state = replace(self._state, failover_on_since=self._now)
        elif not opened:
            self._state = replace(self._state, failover_on_since=None)
        if before != self._settings:
            self._all_taints_change()

    def _fail_back(self, name: str, rate: float) -> None:
        why = failback.unfit_reason(self._clusters[name], name, now=self._now)
        if not why and name in self._holds.maintained(now=self._now):
            why = f"cluster {name} is in a MaintenanceWindow"
        if why:
            self._refused.append(why)
        else:
            self._failbacks[name] = rate

    def _edit_taint_policies(self) -> None:
        """Put edited ClusterTaintPolicies in place. Their windows start again, on every cluster."""
        for policy in self._snapshot.edited.values():
            if isinstance(policy, ClusterTaintPolicy):
                old = self._policies.get(policy.ref)
                self._policies[policy.ref] = policy
                if old is None or taint_policies.digest(old.spec) != taint_policies.digest(policy.spec):
                    name = policy.metadata.name
                    self._windows += [MatchWindow(window_key(name, one), name, one) for one in self._clusters]
                self._all_taints_change()

    def _all_taints_change(self) -> None:
        self._touched.update(self._clusters)
        self._taints_from |= {name: self._now for name in self._clusters if name not in self._taints_from}

    def _delete(self, change: ObjectsDeleted) -> None:
        self._deleted.update(map(Ref.parse, change.refs))
        for ref in change.of_kinds({CLUSTER_TAINT_POLICY}):
            if self._policies.pop(ref, None) is not None:
                self._all_taints_change()
        for ref in change.of_kinds({CLUSTER}):
            for name in self._known([ref.name]):
                self._remove(name, "")
        gone = set(change.of_kinds({EVICTION_HOLD, MAINTENANCE_WINDOW}))
        if gone:
            holds = tuple(one for one in self._holds.holds if one.ref not in gone)
            windows = tuple(one for one in self._holds.windows if one.ref not in gone)
            self._replace_holds(holds, windows)

    def _edit_holds(self) -> None:
        """Put edited EvictionHolds and MaintenanceWindows in place."""
        edited = self._snapshot.edited
        holds = {one.ref: one for one in self._holds.holds}
        windows = {one.ref: one for one in self._holds.windows}
        holds |= {ref: one for ref, one in edited.items() if isinstance(one, EvictionHold)}
        windows |= {ref: one for ref, one in edited.items() if isinstance(one, MaintenanceWindow)}
        self._replace_holds(tuple(holds.values()), tuple(windows.values()))

    def _replace_holds(self, holds: tuple[EvictionHold, ...], windows: tuple[MaintenanceWindow, ...]) -> None:
        """Replace all holds. All evictions are concerned if the eviction tier stops them, or no longer does."""
        stopped = self._tier_stops()
        self._holds = replace(self._holds, holds=holds, windows=windows)
        if self._tier_stops() != stopped:
            self._touched.update(self._clusters)

    def _tier_stops(self) -> bool:
        """Test whether the eviction tier allows no evictions."""
        seen = eviction_tier.fleet_health(self._clusters.values(), maintained=self._holds.maintained(now=self._now))
        return eviction_tier.in_force(seen, self._state, self._settings).rate <= 0

    def result(self) -> SupposedFleet:
        gate = self._settings.gate("Failover")
        opened = self._state.failover_on_since if gate else None
        blind = eviction_tier.fleet_health(self._clusters.values()).blind or self._state.blind_since is not None
        moving_since = None if blind or opened is None else eviction_tier.clock_start(self._state)
        for name, since in self._taints_from.items():
            self._clusters[name] = with_taints_to_come(
                self._clusters[name],
                self._policies.values(),
                self._settings,
                windows=[window for window in self._windows if window.cluster == name],
                moving_since=moving_since,
                counting_since=opened,
                now=since,
            )
        remarks = () if gate or not self._touched else ("the feature gate Failover is off, so no taint evicts copies",)
        return SupposedFleet(
            self._clusters,
            self._settings,
            self._state,
            self._holds,
            frozenset(self._touched),
            self._drained,
            frozenset(self._removed),
            self._failbacks,
            frozenset(self._deleted),
            tuple(self._refused),
            remarks,
        )
