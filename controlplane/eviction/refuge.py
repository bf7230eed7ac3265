"""Is there somewhere to go? The real scheduler is asked without the leaving clusters; this reads its answer (D10)."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import msgspec
import numpy as np

from controlplane import interpret
from controlplane.engine.decision import CapacityGuard
from controlplane.estimate.request import NOTHING_ASKED, Asked, Bundle
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.rows import Promise
from controlplane.scheduling.binding_outcome import reservations
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.settings import Settings


class DryRunResult(msgspec.Struct, frozen=True):
    """What the scheduler answered: where everything would be, or why not. `part`: what fits where not all does;
    `asked`: what one replica, or one set of components, asks for; `other`: the scheduler whose word it would take,
    which is not ours and cannot be asked."""

    clusters: tuple[TargetCluster, ...] = ()
    refused: str = ""
    part: tuple[TargetCluster, ...] = ()
    asked: Asked = NOTHING_ASKED
    other: str = ""


class Refuge(msgspec.Struct, frozen=True):
    """Whether a copy may leave; `why` says so in words, for the held item or the Event. `clusters`: where the binding
    would be then; `asked`: as of the dry run."""

    found: bool
    why: str
    clusters: tuple[TargetCluster, ...] = ()
    asked: Asked = NOTHING_ASKED


def refuge_from(
    binding: Binding, leaving: Collection[str], answer: DryRunResult, settings: Settings, *, source_ready: bool
) -> Refuge:
    """Return whether the dry run's answer is a refuge for the copies on the leaving clusters.

    Duplicated: a replacement for each lost copy (S000), or a spread minimum the user set that still holds (S001; not
    with eviction.require_full_replacement). Divided: all lost replicas fit; a part is enough where the source is not
    Ready and eviction.partial_refuge is on. Nowhere, whatever would fit, where nobody may place it anew. Another
    scheduler's business is left to it (semantics 2.5, 3.1): what leaves stays until that has found it a place.
    """
    if binding.spec.scheduling_suspended:
        return Refuge(False, "its scheduling is suspended: nobody may place it anew")
    if answer.other:
        return Refuge(True, f"scheduler {answer.other} is to place it anew")
    divided = _divided(binding)
    if answer.refused:
        held = sum(one.replicas for one in binding.spec.clusters if one.name not in leaving)
        gained = sum(one.replicas for one in answer.part) - held
        if divided and settings.eviction.partial_refuge and not source_ready and gained > 0:
            why = f"{gained} replicas fit, the rest stays pending: {answer.refused}"
            return Refuge(True, why, answer.part, answer.asked)
        return Refuge(False, answer.refused)
    named = ", ".join(_target_text(one) for one in answer.clusters)
    if divided:
        return Refuge(True, f"all replicas fit: {named}", answer.clusters, answer.asked)
    before = {one.name for one in binding.spec.clusters}
    lost = [name for name in sorted(leaving) if name in before]
    new = [one.name for one in answer.clusters if one.name not in before]
    if len(new) >= len(lost):
        return Refuge(True, f"a replacement for each lost copy: {named}", answer.clusters, answer.asked)
    least = spread_minimum(binding)
    if not settings.eviction.require_full_replacement and 0 < least <= len(answer.clusters):
        return Refuge(True, f"spread minimum {least} still holds: {named}", answer.clusters, answer.asked)
    short = f"{len(lost)} copies are lost ({', '.join(lost)}) and only {len(new)} other clusters fit"
    return Refuge(False, short if new else f"no other cluster fits for the copy on {', '.join(lost)}")


def _divided(binding: Binding) -> bool:
    """Test whether replicas have to fit, not copies: also where a workload is scaled to 0 and asks for nothing."""
    placement, template = binding.spec.placement, binding.spec.resource
    if placement is None or not placement.divided:
        return False
    return binding.workload or interpret.interpreter_for(template.api_version, template.kind).replicas is not None


class Reservation(msgspec.Struct, frozen=True):
    """The room of a refuge, kept free for its binding: as promises, with the room on clusters that they rest on."""

    promises: tuple[Promise, ...] = ()
    rooms: tuple[CapacityGuard, ...] = ()


def reserve(ledger: Ledger, fleet: Fleet, binding: Binding, place: Refuge, *, seen: int, now: datetime) -> Reservation:
    """Take the room a refuge needs beyond what its binding has from the ledger, so that no other binding counts on it.
    Return its reservation, for whoever asks before the scheduler has used it. `seen`: the newest promise in the ledger.

    A workload of several components takes one set on every cluster it is not on yet; others take replicas.
    """
    before = {one.name: one.replicas for one in binding.spec.clusters}
    if isinstance(place.asked, Bundle):
        grown = {one.name: 1 for one in place.clusters if one.name not in before}
    else:
        grown = {one.name: one.replicas - before.get(one.name, 0) for one in place.clusters}
    more = {name: count for name, count in grown.items() if count > 0 and name in fleet.index}
    if not more:
        return Reservation()
    places = fleet.places(more)
    ledger.promise(places, np.array(list(more.values()), dtype=np.int64), place.asked)
    rooms = ledger.rooms(places, place.asked, seen=seen)
    return Reservation(reservations(binding, more, asked=place.asked, now=now), rooms)


def spread_minimum(binding: Binding) -> int:
    """Return the minimum number of clusters the user set by spread constraint; 0 where there is none."""
    placement = binding.spec.placement
    spread = () if placement is None else placement.spread_constraints
    return next((one.min_groups for one in spread if one.spread_by_field in ("", "cluster")), 0)


def _target_text(target: TargetCluster) -> str:
    return f"{target.name}:{target.replicas}" if target.replicas else target.name
