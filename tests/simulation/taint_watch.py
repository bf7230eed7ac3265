"""What must hold of the windows of taints, whatever dies, sleeps or begins anew: not a second early, and not late (D3).

A window is counted here a second time, from what is published: since when Ready is not True, or the fleet saw again, or
the gate was opened, whichever is latest, plus the window, plus all time in which nobody looked.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane import kinds
from controlplane.kinds.cluster import NO_EXECUTE, Cluster
from controlplane.kinds.rows import Observation
from controlplane.meta import condition
from tests.simulation.eviction_watch import fleet_of
from tests.simulation.world import START, Simulation

KEY = "cluster.karmada.io/not-ready"
WINDOW = timedelta(seconds=5)  # addOnMatchSeconds of manifests.NOT_READY_MEANS_LEAVE
ROUNDED = timedelta(seconds=1)  # times of conditions are kept in whole seconds
AT_ONCE = timedelta(seconds=6)  # ticks of a second, and five more where a clock stood still
SHAKEN = timedelta(seconds=40)  # a dead worker's claims are its own for 30 s, and what follows takes its time


class TaintWatch:
    """Remembers from when each cluster's window counts, and how long nobody had looked by then."""

    def __init__(self) -> None:
        self._out: dict[str, tuple[datetime, float]] = {}
        self._tainted: dict[str, bool] = {}
        self._calm_since = START  # since when nothing stands in a window's way

    def __call__(self, world: Simulation) -> None:
        fleet = fleet_of(world)
        halted = fleet.failover_on_since is None or fleet.blind_since is not None or not world.settings.gate("Failover")
        if halted or world.losses:
            self._calm_since = world.now
        unobserved = {row.key: row for row in world.store.all_rows(Observation)}
        for cluster in world.store.list(kinds.CLUSTER):
            self._look(world, cluster, unobserved.get(cluster.metadata.name))

    def _look(self, world: Simulation, cluster: Cluster, seen: Observation | None) -> None:
        name, ready = cluster.metadata.name, condition(cluster.status.conditions, "Ready")
        had = self._tainted.get(name, False)
        has = self._tainted[name] = any(one.key == KEY and one.effect == NO_EXECUTE for one in cluster.spec.taints)
        if ready is None or ready.status == "True" or ready.last_transition_time is None or seen is None:
            self._out.pop(name, None)
            return
        fleet = fleet_of(world)
        clocks = (ready.last_transition_time, fleet.sighted_at, fleet.failover_on_since)
        since = max(one for one in clocks if one is not None)
        if self._out.get(name, (START, 0.0))[0] != since or world.now < since + ROUNDED:  # all in one moment
            self._out[name] = (since, seen.unobserved_seconds)
        due = since + WINDOW + timedelta(seconds=seen.unobserved_seconds - self._out[name][1])
        soonest = due - ROUNDED
        where = f"{name} at {world.now}, counted from {since}"
        if has and not had:
            assert world.now >= soonest, f"D3: {where}, was given its taint before {soonest}"
        if not has and world.now > max(due, self._calm_since, world.stalled_until) + self._slack(world):
            raise AssertionError(f"D3: {where}, has no taint, which was due {due}")

    def _slack(self, world: Simulation) -> timedelta:
        shaken = world.kills or world.slept or world.losses or world.stalled_until > START
        return AT_ONCE + (SHAKEN if shaken else timedelta(0))
