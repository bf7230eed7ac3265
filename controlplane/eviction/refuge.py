"""A refuge is the placement that a binding would get without the clusters it leaves. No copy is evicted without one.

The scheduler is asked by a dry run. This module decides whether the answer is good enough [refuge-first].
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import msgspec
import numpy as np

from controlplane import interpret
from controlplane.engine.decision import CapacityGuard
from controlplane.estimate.request import NOTHING_ASKED, Asked, Bundle
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import CapacityReservation
from controlplane.scheduling.batch import may_depend_on_capacity
from controlplane.scheduling.binding_outcome import refuge_reservations
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.rehearsal import Rehearsal
from controlplane.settings import Settings

NOT_READ: Mapping[str, Cluster] = {}


class DryRunResult(msgspec.Struct, frozen=True):
    """The answer of the scheduler: where all copies would be, or why not.

    `part`: the targets that fit if not all do. `asked`: what one replica, or one set of components, requests. `other`:
    the name of another scheduler that the binding uses, which cannot be asked. `rehearsal`: how `clusters` were found.
    `steered`: clusters were avoided where copies or replicas would not start, so that the scheduler needs a hint.
    """

    clusters: tuple[TargetCluster, ...] = ()
    refused: str = ""
    part: tuple[TargetCluster, ...] = ()
    asked: Asked = NOTHING_ASKED
    other: str = ""
    rehearsal: Rehearsal | None = None
    steered: bool = False


class Refuge(msgspec.Struct, frozen=True):
    """Whether a copy may leave, with the reason. `clusters`: where the binding would be. Others as in the dry run."""

    found: bool
    why: str
    clusters: tuple[TargetCluster, ...] = ()
    asked: Asked = NOTHING_ASKED
    rehearsal: Rehearsal | None = None
    steered: bool = False


def refuge_from(
    binding: Binding,
    leaving: Collection[str],
    answer: DryRunResult,
    settings: Settings,
    *,
    source_ready: bool,
    clusters: Mapping[str, Cluster] = NOT_READ,
) -> Refuge:
    """Return whether the answer of a dry run is a refuge for the copies on the clusters that are left.

    Divided: all lost replicas fit. If the source is not Ready and the setting eviction.partial_refuge is on, it is
    enough that some fit. Duplicated: there is a new cluster for each lost copy, or the minimum of the user's spread
    constraint is still met; the setting eviction.require_full_replacement demands the former. Copies that would not
    start now do not count (`_idle`). `clusters`: by name; clusters that are missing here can be reached.

    There is no refuge while scheduling is suspended. A binding of another scheduler always has one: its old copy stays
    until that scheduler has placed a new one.
    """
    if binding.spec.scheduling_suspended:
        return Refuge(False, "its scheduling is suspended, so no scheduler may place it again")
    if answer.other:
        return Refuge(True, f"scheduler {answer.other} has to place it again")
    divided, idle = _divided(binding), _idle(binding, answer.clusters or answer.part, clusters)
    if answer.refused:
        additional = _additional(binding, leaving, answer.part, idle)
        if divided and settings.eviction.partial_refuge and not source_ready and additional > 0:
            why = f"{additional} replicas fit, the others stay pending: {answer.refused}"
            return Refuge(True, why, answer.part, answer.asked)
        return Refuge(False, answer.refused)
    named = ", ".join(map(_target_text, answer.clusters))
    found = answer.clusters, answer.asked, answer.rehearsal, answer.steered
    if divided:
        additional = _additional(binding, leaving, answer.clusters, idle)
        waiting = [item.name for item in answer.clusters if item.name in idle and _grows(binding, item)]
        if not waiting:
            return Refuge(True, f"all replicas fit: {named}", *found)
        if settings.eviction.partial_refuge and not source_ready and additional > 0:
            return Refuge(True, f"{additional} replicas can start, the others wait: {_idle_text(idle)}", *found)
        return Refuge(False, f"replicas would be added on {', '.join(waiting)}: {_idle_text(idle)}")
    before = {cluster.name for cluster in binding.spec.clusters}
    lost = [name for name in sorted(leaving) if name in before]
    usable = [item.name for item in answer.clusters if item.name not in idle]
    new = [name for name in usable if name not in before]
    if len(new) >= len(lost):
        return Refuge(True, f"a replacement for each lost copy: {named}", *found)
    least = spread_minimum(binding)
    if not settings.eviction.require_full_replacement and 0 < least <= len(usable):
        why = f"the spread constraint still has its minimum of {least} clusters: {named}"
        return Refuge(True, why, *found)
    short = f"{len(lost)} copies are lost ({', '.join(lost)}) and only {len(new)} other clusters fit"
    short = short if new else f"no other cluster fits for the copy on {', '.join(lost)}"
    return Refuge(False, f"{short}; {_idle_text(idle)}" if idle else short)


def _idle(binding: Binding, targets: Iterable[TargetCluster], clusters: Mapping[str, Cluster]) -> dict[str, str]:
    """Return by cluster why the copy of a target does not work or would not start now.

    A copy on a cluster that cannot be reached may be dead, and a new copy does not start there. While dispatching is
    suspended, existing copies work, but new ones are not sent and existing ones do not grow. A copy that the cluster
    has not applied may be one that was never sent.
    """
    found = dict[str, str]()
    for item in targets:
        cluster = clusters.get(item.name)
        if cluster is not None and not cluster.answers:
            found[item.name] = f"cluster {item.name} cannot be reached"
        elif binding.spec.dispatching_suspended(item.name) and (_grows(binding, item) or _is_absent(binding, item)):
            found[item.name] = f"dispatching to {item.name} is suspended"
    return found


def _grows(binding: Binding, item: TargetCluster) -> bool:
    """Test whether a target is new, or has more replicas than now."""
    held = binding.spec.target(item.name)
    return held is None or item.replicas > held.replicas


def _is_absent(binding: Binding, item: TargetCluster) -> bool:
    """Test whether it is known that the cluster of a target has not applied its copy."""
    return any(one.cluster_name == item.name and not one.applied for one in binding.status.aggregated_status)


def _additional(
    binding: Binding, leaving: Collection[str], targets: Iterable[TargetCluster], idle: Collection[str]
) -> int:
    """Return how many replicas more than now start on clusters that are not left."""
    held = {target.name: target.replicas for target in binding.spec.clusters if target.name not in leaving}
    after = sum(min(item.replicas, held.get(item.name, 0)) if item.name in idle else item.replicas for item in targets)
    return after - sum(held.values())


def _idle_text(idle: Mapping[str, str]) -> str:
    return ", ".join(idle.values())


def _divided(binding: Binding) -> bool:
    """Test whether replicas have to fit rather than copies. True also for a Divided workload that is scaled to 0."""
    placement, template = binding.spec.placement, binding.spec.resource
    if placement is None or not placement.divided:
        return False
    return binding.workload or interpret.interpreter_for(template.api_version, template.kind).replicas is not None


class Reservation(msgspec.Struct, frozen=True):
    """The capacity of a refuge that is reserved for its binding, with the guards on the capacity it rests on.

    `steered_to`: the clusters of the refuge, if the scheduler finds them only with a hint.
    """

    reservations: tuple[CapacityReservation, ...] = ()
    capacity_guards: tuple[CapacityGuard, ...] = ()
    steered_to: tuple[TargetCluster, ...] = ()


def reserve_refuge(
    ledger: Ledger, fleet: Fleet, binding: Binding, refuge: Refuge, *, seen: int, now: datetime
) -> Reservation:
    """Take the additional capacity that a refuge needs from the ledger, and return it as a reservation.

    No other binding counts on this capacity until the scheduler uses it. A workload with several components takes one
    set on each new cluster; other workloads take replicas. `seen`: the number of the newest reservation in the ledger.
    A binding whose placement does not depend on free capacity has no guards: its copies go where its placement says,
    and the ledger may have been made without reading what is reserved.
    """
    before = {cluster.name: cluster.replicas for cluster in binding.spec.clusters}
    if isinstance(refuge.asked, Bundle):
        additional = {item.name: 1 for item in refuge.clusters if item.name not in before}
    else:
        additional = {entry.name: entry.replicas - before.get(entry.name, 0) for entry in refuge.clusters}
    needed = {name: count for name, count in additional.items() if count > 0 and name in fleet.index}
    steered_to = refuge.clusters if refuge.steered else ()
    if not needed:
        return Reservation(steered_to=steered_to)
    places = fleet.places(needed)
    ledger.reserve(places, np.array(list(needed.values()), dtype=np.int64), refuge.asked)
    guards = ledger.capacity_guards(places, refuge.asked, seen=seen) if may_depend_on_capacity(binding.spec) else ()
    return Reservation(refuge_reservations(binding, needed, asked=refuge.asked, now=now), guards, steered_to)


def spread_minimum(binding: Binding) -> int:
    """Return the minimum number of clusters that the spread constraint by cluster demands; 0 without one."""
    placement = binding.spec.placement
    spread = () if placement is None else placement.spread_constraints
    return next((item.min_groups for item in spread if item.spread_by_field in ("", "cluster")), 0)


def _target_text(target: TargetCluster) -> str:
    return f"{target.name}:{target.replicas}" if target.replicas else target.name
