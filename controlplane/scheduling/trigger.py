"""When a binding is scheduled at all (semantics 3.1)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from controlplane.kinds.binding import Binding, ResourceBindingSpec, manual_placement
from controlplane.kinds.policy import ClusterAffinityTerm, Placement
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.placement_plan import DUPLICATED, division_of
from controlplane.scheduling.question import reschedule_asked

APPLIED_PLACEMENT: Final = "policy.karmada.io/applied-placement"
"""Annotation with the placement the last result was made for."""

PLACEMENT_CHANGED: Final = "placement changed"
REPLICAS_CHANGED: Final = "replicas changed"
RESCHEDULE_ASKED: Final = "reschedule asked for"
ALWAYS: Final = "copies follow the clusters that fit"
TARGET_GOING: Final = "a target is being deleted"


def needs_scheduling(binding: Binding, fleet: Fleet) -> str | None:
    """Return why the binding has to be scheduled now, None where its result stands.

    In the original's order, the first that holds: another placement than the one applied; another number of replicas
    than placed; a reschedule asked for; copies and non-workloads, which follow the clusters that fit unless somebody
    placed them by hand (D23); a target that is being deleted or gone.
    """
    spec, status = binding.spec, binding.status
    if spec.placement is None or binding.metadata.deletion_timestamp is not None:
        return None
    applied = binding.metadata.annotations.get(APPLIED_PLACEMENT, "")
    if placement_changed(spec.placement, applied, observed=status.scheduler_observed_affinity_name):
        return PLACEMENT_CHANGED
    if _replicas_changed(spec, spec.placement):
        return REPLICAS_CHANGED
    if reschedule_asked(spec, status):
        return RESCHEDULE_ASKED
    if not binding.workload or division_of(spec.placement) == DUPLICATED:
        return None if manual_placement.mark_applies(binding) and not _going(spec, fleet) else ALWAYS
    return TARGET_GOING if _going(spec, fleet) else None


def _going(spec: ResourceBindingSpec, fleet: Fleet) -> bool:
    """Test whether a target is gone, or being deleted with nobody to move the copy but us."""
    places = (fleet.index.get(target.name) for target in spec.clusters)
    return any(place is None or not (fleet.open[place] or fleet.present[place]) for place in places)


def placement_changed(placement: Placement, applied: str, *, observed: str) -> bool:
    """Test whether a placement differs from the applied one; of several affinities only the observed one counts.

    An annotation that cannot be read counts as the same placement, so that nothing moves because of it.
    """
    if not applied:
        return True
    before = _decoded(applied)
    if before is None or before == placement:
        return False
    if _but_for_terms(before) != _but_for_terms(placement):
        return True
    now, then = _term(placement, observed), _term(before, observed)
    return not observed or now is None or now != then


def applied_text(placement: Placement) -> str:
    """Return the placement as it is noted on the binding."""
    return msgspec.json.encode(placement).decode()


@lru_cache(maxsize=4096)
def _decoded(text: str) -> Placement | None:
    try:
        return msgspec.json.decode(text, type=Placement)
    except msgspec.MsgspecError:
        return None


def _but_for_terms(placement: Placement) -> Placement:
    return msgspec.structs.replace(placement, cluster_affinities=())


def _term(placement: Placement, name: str) -> ClusterAffinityTerm | None:
    return next((term for term in placement.cluster_affinities if term.affinity_name == name), None)


def _replicas_changed(spec: ResourceBindingSpec, placement: Placement) -> bool:
    if placement.replica_scheduling is None:
        return False
    if not placement.divided:
        return any(target.replicas != spec.replicas for target in spec.clusters)
    return sum(target.replicas for target in spec.clusters) != spec.replicas
