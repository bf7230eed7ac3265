"""The refuge that an eviction reserves, and what the scheduler does with it: uses it, keeps the rest of it, or explains
why not.

A refuge is the set of clusters that a dry run found for a binding before the eviction [refuge-first].
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from controlplane.engine.decision import Drop, Save
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.rows import CapacityReservation, PlacementHint
from controlplane.scheduling.batch import may_depend_on_capacity
from controlplane.scheduling.filters import refusal
from controlplane.scheduling.refusals import Explanation


class Reserved(msgspec.Struct, frozen=True):
    """What evictions reserved for a binding: the hint of the last eviction, and the refuge reservations.

    The hint is valid while there is a reservation. A binding that needs no capacity has no reservation. Its hint is
    valid as long as the binding has the generation that the eviction wrote.
    """

    binding: Binding
    hint: PlacementHint | None
    reservations: Sequence[CapacityReservation]  # refuge reservations that have not expired

    @property
    def valid(self) -> bool:
        """Whether the scheduler uses the hint, if its clusters are still feasible."""
        if self.hint is None:
            return False
        return bool(self.reservations) or self.hint.generation == self.binding.metadata.generation

    @property
    def targets(self) -> tuple[TargetCluster, ...] | None:
        """The targets that the eviction reserved. None: there is no valid hint."""
        if self.hint is None or not self.valid:
            return None
        return tuple(TargetCluster(name, replicas) for name, replicas in self.hint.clusters.items())

    def rest(self, result: Iterable[TargetCluster]) -> tuple[CapacityReservation, ...]:
        """Return the reservations that stay after a result: those of copies that are still to be evicted.

        Example: a binding on member1 and member2 is evicted from both, and member3 and member4 are reserved. While only
        the eviction from member1 has its token, the result is member2 and member3, and member4 stays reserved.
        """
        if self.hint is None:
            return ()
        placed = {target.name: target.replicas for target in result}
        return tuple(_unused(self.reservations, self.hint.clusters, placed)) if self._partial(placed) else ()

    def _targets(self) -> set[str]:
        return {target.name for target in self.binding.spec.clusters}

    def _partial(self, placed: Iterable[str]) -> bool:
        """Test whether a result keeps a target that the binding is still to be evicted from."""
        return self.hint is not None and not self._targets().intersection(placed) <= self.hint.clusters.keys()

    def replaced(self, result: Sequence[TargetCluster], explanation: Explanation) -> str:
        """Return the message of an Event: which reserved clusters the result does not use, why, and what it uses.

        "": the result uses all of them, or the others are for copies that are still to be evicted.
        """
        if self.hint is None or not self.valid:
            return ""
        wanted, placed = self.hint.clusters, {target.name: target.replicas for target in result}
        moved = sum(placed.values()) >= sum(wanted.values())  # fewer: the workload was scaled down
        missed = [name for name in sorted(wanted) if name not in placed or (moved and placed[name] < wanted[name])]
        if not missed or (self._partial(placed) and placed.keys() <= {*wanted, *self._targets()}):
            return ""
        named = ", ".join(_spelled(TargetCluster(name, self.hint.clusters[name])) for name in missed)
        instead = ", ".join(map(_spelled, result)) or "no cluster"
        why = "; ".join(f"{name}: {_why(name, wanted[name], explanation)}" for name in missed)
        return f"the eviction had reserved {named}, but the scheduler placed the binding on {instead}. {why}"


def _unused(
    reservations: Iterable[CapacityReservation], wanted: Mapping[str, int], placed: Mapping[str, int]
) -> Iterator[CapacityReservation]:
    """Yield the reservations, or the parts of them, that a result does not use."""
    for row in reservations:
        left = wanted.get(row.cluster, 0) - placed[row.cluster] if row.cluster in placed else row.replicas
        if row.cluster in wanted and left > 0:
            yield replace(row, replicas=min(row.replicas, left))


def freed(
    stored: Iterable[CapacityReservation], reserved: Reserved, result: Sequence[TargetCluster], new: Binding
) -> tuple[Save | Drop, ...]:
    """Return the writes of the reservations and the hint that evictions have left for a binding.

    They are dropped as far as the result uses them or they are of no use any more. The rest stays while copies of the
    binding are still to be evicted. `stored`: the capacity rows of the binding. `new`: the binding with the result.
    """
    rest = {row.key: row for row in reserved.rest(result)}
    rows: list[Save | Drop] = [
        Save(rest[row.key]) if row.key in rest else Drop(row)
        for row in stored
        if row.reserved and rest.get(row.key) != row
    ]
    if reserved.hint is not None:
        kept = replace(reserved.hint, generation=new.metadata.generation)
        rows += [Drop(reserved.hint)] if not rest else [Save(kept)] if kept != reserved.hint else []
    return tuple(rows)


def replaced(before: Iterable[CapacityReservation], reserved: Sequence[CapacityReservation]) -> Iterator[Save | Drop]:
    """Yield the writes that replace the reservations `before` by `reserved`, those of the last move of an eviction.

    The refuge of the last move names every cluster that the binding will be on, so that no other is needed.
    """
    renewed = {row.key for row in reserved}
    yield from (Drop(row) for row in before if row.key not in renewed)
    yield from map(Save, reserved)


def replaced_text(before: Iterable[CapacityReservation], reserved: Iterable[CapacityReservation]) -> str:
    """Return what the Event adds if an earlier eviction of the binding had reserved other clusters, "" if not."""
    lost = sorted({row.cluster for row in before} - {row.cluster for row in reserved})
    return f"; instead of {', '.join(lost)}, which an earlier eviction had reserved" if lost else ""


def hinted(new: Binding, clusters: Sequence[TargetCluster], *, again: bool = False) -> Iterator[Save]:
    """Yield the hint for the scheduler with the clusters that the last dry run of an eviction found.

    If free capacity plays no part, the scheduler finds the same clusters by itself and needs no hint, except for
    divided replicas that leave several lost clusters one after the other (`half_evicted`). `new`: the evicted binding.
    `again`: an earlier eviction has left a reservation, so its hint may be there.
    """
    found = {target.name: target.replicas for target in clusters}
    divided = new.spec.placement is not None and new.spec.placement.divided
    leaves_in_steps = divided and (again or any(target.name not in found for target in new.spec.clusters))
    if clusters and (leaves_in_steps or may_depend_on_capacity(new.spec)):
        yield Save(PlacementHint(str(new.ref), new.metadata.generation, found))


def _why(name: str, replicas: int, explanation: Explanation) -> str:
    """Return why the result does not use a reserved cluster, or not for all its replicas."""
    attempt, question = explanation.attempts[-1], explanation.question
    place = attempt.plan.fleet.index.get(name)
    if place is None:
        return "the cluster no longer exists"
    refused = refusal(attempt.plan, question, place)
    if refused is not None:
        return refused.value
    if question.fresh:
        return "a reschedule was requested, so all replicas were placed again"
    if attempt.capacity is not None and question.workload and int(attempt.capacity[place]) < replicas:
        return f"it has room for {int(attempt.capacity[place])} more replicas only"
    return "the binding, its placement or the clusters have changed since then, and other clusters are preferred"


def _spelled(target: TargetCluster) -> str:
    return f"{target.name}:{target.replicas}" if target.replicas else target.name
