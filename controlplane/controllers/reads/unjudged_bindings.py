"""The bindings on a tainted cluster for which it is not decided yet whether they are evicted: an edit of a policy waits
for that [judged-once]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads.fleet_state import fleet_state
from controlplane.engine.state import State
from controlplane.eviction.eligibility import has_unjudged_taint
from controlplane.kinds import CLUSTER
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import EVICTING_EFFECTS
from controlplane.kinds.rows import Eviction
from controlplane.settings import Settings


def unjudged_bindings(state: State, found: Mapping[Ref, Binding]) -> frozenset[Ref]:
    """Return those of the found bindings on a tainted cluster for which it is not decided yet whether they are evicted.

    Empty while the Failover gate is off, because nothing is decided then.
    """
    by_effect = state.by_index(CLUSTER, "taint", EVICTING_EFFECTS)
    tainted = {cluster.metadata.name: cluster for clusters in by_effect.values() for cluster in clusters}
    affected = [
        binding for binding in found.values() if any(target.name in tainted for target in binding.spec.clusters)
    ]
    if not affected or fleet_state(state).failover_on_since is None:
        return frozenset()
    rows = state.rows(Eviction, "binding", [str(binding.ref) for binding in affected])
    return frozenset(
        binding.ref for binding in affected if has_unjudged_taint(binding.spec, tainted, rows.get(str(binding.ref), ()))
    )


def waits_for_judgement(old: Binding, new: Binding, settings: Settings) -> bool:
    """Test whether a change of a binding has to wait until the existing taints of its clusters have been judged.

    It does if it changes whether and when a taint evicts copies, and evictions are decided once, when a taint appears,
    by a controller that runs.
    """
    if settings.eviction.reevaluate_policies or _eviction_rules(new) == _eviction_rules(old):
        return False
    return settings.gate("Failover") and settings.runs("eviction_queue")


def _eviction_rules(binding: Binding) -> tuple[Any, Any]:
    """Return the fields of a binding that decide whether and when a taint evicts its copies."""
    placement = binding.spec.placement
    return binding.spec.failover, None if placement is None else placement.cluster_tolerations
