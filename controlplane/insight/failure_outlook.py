"""What the failure of each cluster would mean for any workload on it: the taints that it would get, and whether its
failure would be detected. Each cluster is looked at once, however many bindings are on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property

import msgspec

from controlplane.apimachinery.meta import Condition, with_condition
from controlplane.clusters import taint_policies
from controlplane.engine.state import ReservedCapacity
from controlplane.eviction.holds import Holds
from controlplane.eviction.scheduler_dry_run import SchedulerDryRun
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import (
    EVICTING_EFFECTS,
    NO_EXECUTE,
    NOT_READY_KEY,
    PUSH,
    UNREACHABLE_KEY,
    Cluster,
    Taint,
)
from controlplane.kinds.obstacle import BLOCKS, WARNS, Obstacle
from controlplane.kinds.rows import FleetState
from controlplane.kinds.taint_policy import ClusterTaintPolicy
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.question import Groups
from controlplane.settings import Settings


class Situation(msgspec.Struct, frozen=True):
    """The present state of the fleet, the same for all bindings."""

    clusters: Sequence[Cluster]
    policies: Sequence[ClusterTaintPolicy] = ()
    fleet: FleetState = FleetState("default")
    queue_row: FleetState = FleetState("queue")  # what is stored about the eviction queue
    holds: Holds = Holds()
    reserved_capacity: ReservedCapacity = ReservedCapacity()  # capacity that no status counts yet
    applications: Mapping[str, Sequence[Binding]] = {}  # the bindings of each application
    groups: Groups = {}  # workload affinity groups


class FailureOutlook:
    """The clusters of a situation, as they would be if they failed at one moment (`now`).

    `fleet`: the clusters as arrays; None: they are read into arrays when the first dry run needs them.
    """

    def __init__(self, situation: Situation, settings: Settings, *, fleet: Fleet | None = None, now: datetime) -> None:
        self.situation = situation
        self.settings = settings
        self.now = now
        self._fleet = fleet
        self._taints: dict[str, tuple[Taint, ...]] = {}
        self._undetected: dict[str, tuple[Obstacle, ...]] = {}

    @cached_property
    def clusters(self) -> dict[str, Cluster]:
        """The clusters by name."""
        return {cluster.metadata.name: cluster for cluster in self.situation.clusters}

    @cached_property
    def dry_run(self) -> SchedulerDryRun:
        """Dry runs of the scheduler. Bindings with equal questions share their answers."""
        return dry_run_of(self.situation, self.settings, self._fleet)

    def taints(self, cluster: Cluster) -> tuple[Taint, ...]:
        """Return the evicting taints that a cluster has, or would get if it stopped being Ready."""
        name = cluster.metadata.name
        if name not in self._taints:
            self._taints[name] = _possible_taints(cluster, self.situation.policies, self.settings, now=self.now)
        return self._taints[name]

    def undetected(self, cluster: Cluster) -> tuple[Obstacle, ...]:
        """Return why the failure of a cluster would not be detected, or not be acted upon."""
        name = cluster.metadata.name
        if name not in self._undetected:
            self._undetected[name] = tuple(_detection_obstacles(cluster))
        return self._undetected[name]


def dry_run_of(situation: Situation, settings: Settings, fleet: Fleet | None = None) -> SchedulerDryRun:
    """Return dry runs of the scheduler for a situation. `fleet`: its clusters; None: they are read when needed."""
    return SchedulerDryRun(
        lambda: Fleet.of(situation.clusters, settings=settings) if fleet is None else fleet,
        settings,
        reserved_capacity=situation.reserved_capacity,
        applications=situation.applications,
        groups=situation.groups,
    )


def _possible_taints(
    cluster: Cluster, policies: Iterable[ClusterTaintPolicy], settings: Settings, *, now: datetime
) -> tuple[Taint, ...]:
    """Return the evicting taints that a cluster has, or would get if it stopped being Ready."""
    taints = [taint for taint in cluster.spec.taints if taint.effect in EVICTING_EFFECTS]
    if settings.compat.auto_no_execute_taints:
        key = NOT_READY_KEY if cluster.spec.sync_mode == PUSH else UNREACHABLE_KEY
        taints.append(Taint(key, NO_EXECUTE, time_added=now))
    for status in ("False", "Unknown") if cluster.spec.sync_mode != PUSH else ("False",):
        conditions = with_condition(cluster.status.conditions, Condition("Ready", status), now=now)
        for policy in policies:
            added = taint_policies.evicting_taints(policy, cluster, conditions)
            taints += [Taint(item.key, item.effect, item.value, now) for item in added]
    return tuple(dict.fromkeys(taints))


def _detection_obstacles(cluster: Cluster) -> Iterator[Obstacle]:
    name = cluster.metadata.name
    if cluster.spec.sync_mode == PUSH and not cluster.called_directly:
        message = f"cluster {name} has no address, so it is not probed and its failure would not be detected"
        yield Obstacle("NotDetected", BLOCKS, message, "set its spec.apiEndpoint", name)
    elif not cluster.ready:
        how = "spec.apiEndpoint and spec.secretRef" if cluster.spec.sync_mode == PUSH else "its agent's heartbeat"
        message = f"it was never reported whether cluster {name} is Ready, so its failure would not be detected"
        yield Obstacle("NotDetected", BLOCKS, message, f"check {how}", name)
    elif any(condition.type == "AccessLost" and condition.status == "True" for condition in cluster.status.conditions):
        message = f"access to cluster {name} is lost, so its failure would not be detected"
        remedy = "renew the credentials in its Secret or its certificate; read the condition AccessLost of the cluster"
        yield Obstacle("AccessLost", BLOCKS, message, remedy, name)
    if cluster.flapping:
        message = f"cluster {name} is flapping: until it is stable, only policies about Flapping evict from it"
        remedy = "repair what makes it flap, or add a taint by hand to empty it all the same"
        yield Obstacle("Flapping", WARNS, message, remedy, name)
