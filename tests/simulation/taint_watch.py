"""What must hold of the windows of taints, whatever dies, sleeps or begins again: not a second early, and not late
[taint-policies].

A window is counted here a second time, from what is published: since when Ready is not True, or the fleet saw again, or
the gate was opened, or the cluster let us in again, whichever is latest, plus the window, plus all time in which
no process looked.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane import kinds
from controlplane.apimachinery.meta import condition
from controlplane.kinds.cluster import NO_EXECUTE, Cluster
from controlplane.kinds.rows import FleetState, Observation
from tests.simulation.eviction_watch import fleet_of
from tests.simulation.seen import Seen
from tests.simulation.world import START, Simulation

KEY = "cluster.karmada.io/not-ready"
WINDOW = timedelta(seconds=5)  # addOnMatchSeconds of manifests.NOT_READY_MEANS_LEAVE
ROUNDED = timedelta(seconds=1)  # times of conditions are kept in whole seconds
AT_ONCE = timedelta(seconds=6)  # ticks of a second, and five more where a clock stood still
SHAKEN = timedelta(seconds=40)  # a dead worker's claims are its own for 30 s, and what follows takes its time


class TaintWatch:
    """Remembers from when each cluster's window counts, and how long no process had looked by then."""

    def __init__(self) -> None:
        self._out: dict[str, tuple[datetime, float]] = {}
        self._tainted: dict[str, bool] = {}
        self._well: dict[str, Cluster] = {}  # whose window does not run, as it was then
        self._calm_since = START  # since when nothing stands in a window's way
        self._looked_at = Seen()
        self._looked_closer: dict[str, Seen] = {}  # by cluster whose window may run

    def __call__(self, world: Simulation) -> None:
        fleet, clusters = fleet_of(world), world.store.list(kinds.CLUSTER)
        rows = world.store.written_rows(Observation)
        if self._looked_at.again(world.now, fleet, clusters, world.settings, world.losses, *rows):
            return
        halted = fleet.failover_on_since is None or fleet.blind_since is not None or not world.settings.gate("Failover")
        if halted or world.losses:
            self._calm_since = world.now
        for cluster in clusters:
            if self._well.get(cluster.metadata.name) is not cluster:
                self._look(world, cluster, fleet)

    def _look(self, world: Simulation, cluster: Cluster, fleet: FleetState) -> None:
        name = cluster.metadata.name
        seen: Observation | None = world.store.row(Observation, name)
        if self._looked_closer.setdefault(name, Seen()).again(world.now, cluster, fleet, seen):
            return  # whatever else there is only gives it more time
        ready = condition(cluster.status.conditions, "Ready")
        had = self._tainted.get(name, False)
        has = self._tainted[name] = any(one.key == KEY and one.effect == NO_EXECUTE for one in cluster.spec.taints)
        if ready is None or ready.status == "True" or ready.last_transition_time is None:
            self._out.pop(name, None)
            self._well[name] = cluster
            return
        access = condition(cluster.status.conditions, "AccessLost")
        if cluster.access_lost:  # what was seen last says nothing of now [lost-access]
            assert had or not has, (
                f"[taint-policies] {name} at {world.now} was given its taint while it lets no request in"
            )
            self._out.pop(name, None)
            return
        if seen is None:
            return
        let_in = None if access is None else access.last_transition_time
        clocks = (ready.last_transition_time, fleet.sighted_at, fleet.failover_on_since, let_in)
        since = max(one for one in clocks if one is not None)
        if self._out.get(name, (START, 0.0))[0] != since or world.now < since + ROUNDED:  # all in one moment
            self._out[name] = (since, seen.unobserved_seconds)
        unseen = timedelta(seconds=seen.unobserved_seconds - self._out[name][1])
        if seen.resumed_at is not None:  # a gap is known when it is over, and part of it may have been before
            unseen = min(unseen, max(seen.resumed_at - since, timedelta(0)))
        due = since + WINDOW + unseen
        soonest = due - ROUNDED
        where = f"{name} at {world.now}, counted from {since}"
        if has and not had:
            assert world.now >= soonest, f"[taint-policies] {where}, was given its taint before {soonest}"
        if not has and world.now > max(due, self._calm_since, world.stalled_until) + self._slack(world):
            raise AssertionError(f"[taint-policies] {where}, has no taint, which was due {due}")

    def _slack(self, world: Simulation) -> timedelta:
        shaken = world.kills or world.slept or world.losses or world.stalled_until > START
        return AT_ONCE + (SHAKEN if shaken else timedelta(0))
