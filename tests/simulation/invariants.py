"""What must hold after every step of every run (I1 …): called by the simulator after each controller's turn."""

from __future__ import annotations

from collections import Counter
from typing import Any

from controlplane import kinds
from controlplane.eviction.rate import capacity
from controlplane.kinds.binding import Binding
from tests.simulation.member import place_of
from tests.simulation.world import Simulation


class Watchman:
    """Remembers what it must compare with: how many copies served before."""

    def __init__(self) -> None:
        self._served: dict[str, int] = {}
        self._faults: dict[str, str] = {}

    def __call__(self, simulation: Simulation) -> None:
        self.no_copy_taken(simulation)
        at_most_one_task(simulation)
        within_rate(simulation)
        replicas_conserved(simulation)

    def no_copy_taken(self, simulation: Simulation) -> None:
        """I1: what serves never goes below what is asked for by our doing; what is above may go."""
        faults = {name: member.fault for name, member in simulation.members.items()}
        totals, wanted = _served(simulation), _wanted(simulation)
        if faults == self._faults and not _undetected(simulation):
            for name in self._served:
                if simulation.excused.get(name, simulation.now) > simulation.now:
                    continue
                left, kept = totals.get(name, 0), min(self._served[name], wanted.get(name, 0))
                assert left >= kept, f"seed {simulation.seed}: {name} served {kept}, now {left}, at {simulation.now}"
        self._served, self._faults = dict(totals), faults


def _undetected(simulation: Simulation) -> bool:
    """Test whether a member has a fault that its Cluster does not show yet: what nobody can know binds nobody."""
    ready = {cluster.metadata.name: cluster.ready for cluster in simulation.store.list(kinds.CLUSTER)}
    return any(member.fault == "down" and ready.get(name) == "True" for name, member in simulation.members.items())


def _wanted(simulation: Simulation) -> dict[str, int]:
    """Return how many replicas each workload asks for, over all its clusters."""
    found = {}
    for binding in _bindings(simulation):
        placement, spec = binding.spec.placement, binding.spec
        divided = placement is not None and placement.divided
        copies = 1 if divided else len({target.name for target in spec.clusters})
        found[spec.resource.name] = spec.replicas * copies
    return found


def _served(simulation: Simulation) -> Counter[str]:
    """Count ready replicas per binding over members that are up."""
    found: Counter[str] = Counter()
    for member in simulation.members.values():
        for place, held in member.objects.items():
            if place[1] == "Deployment":
                found[place[3]] += member.ready_replicas(place_of(held.manifest), now=simulation.now)
    return found


def _bindings(simulation: Simulation) -> list[Binding]:
    found: list[Any] = []
    for kind in kinds.BINDINGS:
        found += simulation.store.list(kind)
    return found


def at_most_one_task(simulation: Simulation) -> None:
    """I6: one task per binding and cluster, and no cluster both target and task for long (D12)."""
    for binding in _bindings(simulation):
        names = [task.from_cluster for task in binding.spec.graceful_eviction_tasks]
        assert len(names) == len(set(names)), f"seed {simulation.seed}: {binding.ref} has two tasks for one cluster"


def within_rate(simulation: Simulation) -> None:
    """I2: tokens given in any window never exceed capacity plus rate times its length."""
    rate = simulation.settings.resource_eviction_rate
    times = [moment.timestamp() for moment in simulation.tokens]
    if not times:
        return
    newest = times[-1]
    for count, moment in enumerate(reversed(times), start=1):
        allowed = capacity(rate) + rate * (newest - moment) + 1e-6
        assert count <= allowed, f"seed {simulation.seed}: {count} evictions within {newest - moment:.1f} s"


def replicas_conserved(simulation: Simulation) -> None:
    """I5: what a Divided binding has placed never exceeds what it asks for."""
    for binding in _bindings(simulation):
        placement = binding.spec.placement
        if placement is not None and placement.divided:
            placed = sum(target.replicas for target in binding.spec.clusters)
            scheduled = binding.status.scheduler_observed_generation == binding.metadata.generation
            assert not scheduled or placed <= binding.spec.replicas, f"seed {simulation.seed}: {placed} placed"
