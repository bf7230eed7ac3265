"""What must hold of copies that move because a user asked: of each Drain [unjoin-and-drain] and each Failback
[recovered-clusters] [edits-by-hand].

They go on only in a fleet that is well, with no eviction due, nothing held; at their rate, and a Failback to a cluster
that has been well for ten minutes, so many at once as it says, and no further after its first failure. Worked out here
a second time from clusters, rows and tasks.

A decision is made from what was read, and written a little later: what it needs has to have been so at one of the steps
since the moment began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, condition
from controlplane.eviction.rate import capacity
from controlplane.kinds.binding import Binding, GracefulEvictionTask
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.drain import DRAIN, Drain
from controlplane.kinds.failback import FAILBACK, FAILED, Failback, Returning
from controlplane.kinds.rows import QUEUED, Eviction
from tests.builders.objects import eviction
from tests.simulation.eviction_watch import fleet_health, fleet_of, moving_taints, on_hold
from tests.simulation.seen import Seen
from tests.simulation.world import START, Simulation

_STANDS = (kinds.CLUSTER, kinds.EVICTION_HOLD, kinds.MAINTENANCE_WINDOW)  # what a Step is made of, beside rows
LONG = timedelta(minutes=10)
WHOLE = 1e-6


class Step(NamedTuple):
    """What one step of a run left."""

    at: datetime
    well: bool  # the fleet, with no eviction due
    fit: frozenset[str]  # clusters that things may go back to
    free: frozenset[str]  # clusters that no EvictionHold keeps copies on


class AskedWatch:
    """Remembers what moved because of which Drain or Failback, and when."""

    def __init__(self) -> None:
        self._written: tuple[int, ...] = ()
        self._looked = Seen()
        self._stood = Seen()
        self._stands = Step(START, True, frozenset(), frozenset())
        self._losses = 0
        self._steps: list[Step] = []  # of this moment, and the last one before
        self._bindings: dict[Ref, Binding] = {}
        self._failbacks: dict[Ref, Failback] = {}
        self._begun: dict[str, list[datetime]] = {}  # by Drain and Failback

    def __call__(self, world: Simulation) -> None:
        if (written := world.store.written(Eviction)) == self._written:
            return
        self._written = written
        self._steps = [one for one in self._steps if one.at == world.now] or self._steps[-1:]
        if (step := self._step(world)) not in self._steps:
            self._steps.append(step)
        listed = world.store.list(kinds.RESOURCE_BINDING), world.store.list(FAILBACK)
        if self._looked.again(*listed, world.losses):
            return
        bindings: dict[Ref, Binding] = {one.ref: one for one in listed[0]}
        failbacks: dict[Ref, Failback] = {one.ref: one for one in listed[1]}
        if world.losses == self._losses:
            for binding in bindings.values():
                if self._bindings.get(binding.ref) is not binding:
                    self._left(world, binding)
            for failback in failbacks.values():
                self._went(world, failback)
        else:  # what was lost has not happened
            self._losses, self._begun = world.losses, {}
        self._bindings, self._failbacks = bindings, failbacks

    def _step(self, world: Simulation) -> Step:
        """Return what this step left: the last one again, where nothing is another that it is made of."""
        asked = any(world.store.list(kind) for kind in (DRAIN, FAILBACK))
        if not asked:
            return Step(world.now, True, frozenset(), frozenset())
        stands = [world.store.list(kind) for kind in _STANDS]
        rows = world.store.written_rows(Eviction)
        if not self._stood.again(world.now, world.settings, fleet_of(world), *stands, *rows):
            self._stands = _step(world)
        return self._stands

    def _left(self, world: Simulation, binding: Binding) -> None:
        """Look at the tasks a binding has now and had not before."""
        before = self._bindings.get(binding.ref)
        known = set() if before is None else {_task(one) for one in before.spec.graceful_eviction_tasks}
        for task in binding.spec.graceful_eviction_tasks:
            kind, _, name = task.producer.partition("/")
            if _task(task) in known or kind not in ("Drain", "Failback"):
                continue
            where = f"{binding.ref} leaves {task.from_cluster} for {task.producer} at {world.now}"
            assert self._once(lambda one: one.well), f"{where}: the fleet is not well, or evictions are due"
            assert self._once(lambda one, name=task.from_cluster: name in one.free), f"{where}: a user holds that"
            if kind == "Drain":
                drain: Drain | None = world.store.object(Ref(DRAIN, "", name))
                assert drain is None or not drain.spec.stop, f"{where}: it was stopped"
                if drain is not None:
                    self._counted(world, task.producer, drain.spec.rate, where)

    def _went(self, world: Simulation, failback: Failback) -> None:
        """Look at what has set out since the last step, of one Failback."""
        before, spec, status = self._failbacks.get(failback.ref), failback.spec, failback.status
        known = set() if before is None else set(map(_way, before.status.returning))
        fresh = [one for one in status.returning if _way(one) not in known]
        where = f"{failback.ref} at {world.now}"
        assert len(status.returning) <= spec.at_once, f"{where}: {len(status.returning)} are on their way at once"
        assert not fresh or before is None or before.status.phase != FAILED, f"{where}: it goes on after a failure"
        assert not fresh or not spec.stop, f"{where}: it was stopped"
        for one in fresh:
            self._counted(world, str(failback.ref), spec.rate, where)
            assert self._once(lambda step, to=one.cluster: step.well and to in step.fit), (
                f"{where}: {one.binding} goes back to {one.cluster}, which is not fit, or others are not well"
            )

    def _once(self, test: Callable[[Step], bool]) -> bool:
        return any(test(one) for one in self._steps)

    def _counted(self, world: Simulation, who: str, rate: float, where: str) -> None:
        """Count one that sets out: in no window more than the bucket holds and the rate has made."""
        begun = self._begun.setdefault(who, [])
        begun.append(world.now)
        for number, since in enumerate(begun):
            made = (world.now - since).total_seconds() * rate
            assert len(begun) - number <= capacity(rate) + made + WHOLE, f"{where}: more than {rate}/s"


def _step(world: Simulation) -> Step:
    blind, unhealthy, _ = fleet_health(world)
    rows: list[Eviction] = world.store.all_rows(Eviction)
    due = any(one.state == QUEUED and one.due_at is not None and one.due_at <= world.now for one in rows)
    clusters: list[Cluster] = list(world.store.list(kinds.CLUSTER))
    windows = world.store.list(kinds.MAINTENANCE_WINDOW)
    maintained = {name for one in windows if one.open(now=world.now) for name in one.spec.clusters}
    fit = frozenset(name for name in _fit(clusters, now=world.now) if name not in maintained)
    names = [one.metadata.name for one in clusters]
    free = frozenset(name for name in names if not on_hold(world, eviction(Ref("Any", "default", "any"), name)))
    return Step(world.now, not blind and not unhealthy and not due, fit, free)


def _fit(clusters: list[Cluster], *, now: datetime) -> Iterator[str]:
    """Yield the clusters that have been Ready for long enough, and have no taint that moves workloads."""
    for cluster in clusters:
        ready = condition(cluster.status.conditions, "Ready")
        since = None if ready is None or ready.status != "True" else ready.last_transition_time
        if since is not None and since + LONG <= now and not moving_taints(cluster) and not cluster.access_lost:
            yield cluster.metadata.name


def _task(task: GracefulEvictionTask) -> tuple[str, str]:
    return task.from_cluster, task.producer


def _way(one: Returning) -> tuple[str, str]:
    return one.binding, one.cluster
