"""Decides whether a binding has to be scheduled now, and why [scheduling-triggers]."""

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
"""Annotation with the placement that the last result was computed for."""

PLACEMENT_CHANGED: Final = "placement changed"
REPLICAS_CHANGED: Final = "replicas changed"
RESCHEDULE_ASKED: Final = "a reschedule was requested"
ALWAYS: Final = "every cluster that fits gets a copy"
TARGET_GOING: Final = "a target is being deleted"


def needs_scheduling(binding: Binding, fleet: Fleet) -> str | None:
    """Return why the binding has to be scheduled now. None: its result is still valid.

    The first reason that applies, in Karmada's order:
    - the placement is not the one that was applied last;
    - the number of replicas is not the number that is placed;
    - a reschedule was requested;
    - the replicas are duplicated or there are none, so every feasible cluster gets a copy. This does not apply while a
      manual placement is valid [edits-by-hand];
    - a target is being deleted or does not exist any more.
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
    """Test whether a target does not exist, or is being deleted and not emptied by the eviction queue."""
    places = (fleet.index.get(target.name) for target in spec.clusters)
    return any(place is None or not (fleet.accepting[place] or fleet.retaining[place]) for place in places)


def placement_changed(placement: Placement, applied: str, *, observed: str) -> bool:
    """Test whether a placement differs from the applied one.

    Of several clusterAffinities only the observed term is compared. `applied`: text of the annotation. If it cannot be
    read, it counts as the same placement, so that nothing moves because of it.
    """
    if not applied:
        return True
    before = _decoded(applied)
    if before is None or before == placement:
        return False
    if _but_for_terms(before) != _but_for_terms(placement):
        return True
    term = _term(placement, observed)
    return term is None or term != _term(before, observed)


def applied_text(placement: Placement) -> str:
    """Return a placement as JSON, as the annotation APPLIED_PLACEMENT has it."""
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
