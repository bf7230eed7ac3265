"""What must hold after every step of every run about copies and tasks, called by the simulator.

[bounded-rate], [tolerated-is-not-evicted], [paused-is-paused], [recovery-cancels] and [tier-makes-no-tokens] are in
`eviction_watch`, [decisions-are-traced], [replay-is-equal], [audit-with-the-write] and [dry-run-writes-nothing] in
`audit`, the windows of taints in `taint_watch`.
"""

from __future__ import annotations

from typing import Any

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, condition
from controlplane.kinds.binding import SCHEDULED, Binding
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.rows import Observation
from tests.simulation.seen import Seen
from tests.simulation.world import Serving, Simulation


class Watchman:
    """Looks at every change of a binding, and at every copy we take away."""

    def __init__(self) -> None:
        self._seen: dict[Ref, Binding] = {}
        self._partly: list[Binding] = []  # those that are not placed as a whole
        self._looked = Seen()

    def attach(self, simulation: Simulation) -> None:
        """Be called from now on."""
        simulation.checks.append(self)
        simulation.taken.append(no_copy_taken)

    def __call__(self, simulation: Simulation) -> None:
        listed = [simulation.store.list(kind) for kind in kinds.BINDINGS]
        if not self._looked.again(*listed):
            found = [one for ones in listed for one in ones]
            self._partly = [one for one in found if not whole(one)]
            for binding in found:
                if self._seen.get(binding.ref) is not binding:
                    self._seen[binding.ref] = binding
                    at_most_one_task(simulation, binding)
                    replicas_conserved(simulation, binding)
        for binding in self._partly:
            accounted_for(simulation, binding)


def no_copy_taken(simulation: Simulation, workload: str, before: Serving, after: Serving) -> None:
    """[no-healthy-copy-lost] what serves never goes below what is asked for by our doing; what is above may go, also
    of each copy of a
    workload that is not divided.

    It may where the user asked for it: an edit of his a moment ago, or purge mode Directly. A member that fails and is
    not yet known to binds no decision: what serves there counts in neither number.
    """
    if (
        sum(after.values()) >= sum(before.values())
        or simulation.excused.get(workload, simulation.now) > simulation.now
        or undetected(simulation)
    ):
        return
    binding = next((one for one in bindings(simulation) if one.spec.resource.name == workload), None)
    if binding is None or any(task.purge_mode == DIRECTLY for task in binding.spec.graceful_eviction_tasks):
        return
    most = binding.spec.replicas
    had, has = (sum(min(count, most) for count in one.values()) for one in (before, after))
    asked = wanted(binding)
    if refused_by_quota(binding):  # then evictions end with as many as there were
        asked = min(asked, simulation.granted.get(workload, asked))
    kept = min(had, asked)
    assert has >= kept, (
        f"[no-healthy-copy-lost] {workload} served {before}, now {after} of {asked}, at {simulation.now}"
    )


def undetected(simulation: Simulation) -> bool:
    """Test whether a member has a fault that is not known yet: what cannot be known binds no decision. It is known a
    moment after a probe has failed, also while its Cluster is still published as Ready."""
    ready = {cluster.metadata.name: cluster.ready for cluster in simulation.store.list(kinds.CLUSTER)}
    silent = {name for name, agent in simulation.agents.items() if agent.is_away}
    silent |= {name for name, member in simulation.members.items() if member.fault == "down"}
    return any(ready.get(name) == "True" and not _failing(simulation, name) for name in silent)


def _failing(simulation: Simulation, member: str) -> bool:
    """Test whether a probe of a member failed before this moment, and none got through since."""
    row = simulation.store.row(Observation, member)
    failed = row is not None and row.status == "False" and row.since is not None
    return failed and row.since < simulation.now


def wanted(binding: Binding) -> int:
    """Return how many replicas a binding asks for, over all its clusters."""
    placement, spec = binding.spec.placement, binding.spec
    divided = placement is not None and placement.divided
    return spec.replicas * (1 if divided else len({target.name for target in spec.clusters}))


def refused_by_quota(binding: Binding) -> bool:
    """Test whether quotas have no room for all that a binding asks for."""
    said = condition(binding.status.conditions, SCHEDULED)
    return said is not None and said.reason == "QuotaExceeded"


def bindings(simulation: Simulation) -> list[Binding]:
    """Return all bindings."""
    found: list[Any] = []
    for kind in kinds.BINDINGS:
        found += simulation.store.list(kind)
    return found


def at_most_one_task(simulation: Simulation, binding: Binding) -> None:
    """[one-task-per-pair] one task per binding and cluster."""
    names = [task.from_cluster for task in binding.spec.graceful_eviction_tasks]
    assert len(names) == len(set(names)), (
        f"[one-task-per-pair] {binding.ref} has two tasks for one cluster, at {simulation.now}"
    )


def replicas_conserved(simulation: Simulation, binding: Binding) -> None:
    """[evicted-means-placed] what a Divided binding has placed never exceeds what it asks for."""
    if binding.spec.placement is not None and binding.spec.placement.divided:
        placed = sum(target.replicas for target in binding.spec.clusters)
        assert not scheduled(binding) or placed <= binding.spec.replicas, (
            f"[evicted-means-placed] {binding.ref}: {placed} placed"
        )


def scheduled(binding: Binding) -> bool:
    """Test whether the scheduler has dealt with the binding as it is."""
    return binding.status.scheduler_observed_generation == binding.metadata.generation


def whole(binding: Binding) -> bool:
    """Test whether all a binding asks for is placed somewhere."""
    targets, placement = binding.spec.clusters, binding.spec.placement
    if binding.scaled_to_zero:
        return True
    if placement is not None and placement.divided:
        return sum(target.replicas for target in targets) >= binding.spec.replicas
    return bool(targets)


def accounted_for(simulation: Simulation, binding: Binding) -> None:
    """[evicted-means-placed] every evicted replica is placed, or pending with reason and deadline; true once nothing
    is at it."""
    tasks = binding.spec.graceful_eviction_tasks
    if not tasks or whole(binding) or not scheduled(binding) or simulation.store.busy(binding.ref):
        return
    where = f"{binding.ref} at {simulation.now}"
    said = condition(binding.status.conditions, SCHEDULED)
    assert said is not None, f"[evicted-means-placed] {where} has replicas nowhere and does not say why"
    assert said.status == "False", f"[evicted-means-placed] {where} has replicas nowhere and says {said.status}"
    assert said.reason, f"[evicted-means-placed] {where} has replicas nowhere without a reason"
    assert said.message, f"[evicted-means-placed] {where} has replicas nowhere without words"
    assert all(task.creation_timestamp is not None for task in tasks), (
        f"[evicted-means-placed] {where}: a task has no time to end by"
    )
