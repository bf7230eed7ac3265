"""Removals of copies and replicas that come later than they were decided: whether they are still right
[returning-copies]."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, condition
from controlplane.clusters import health
from controlplane.clusters.held_changes import replicas_held
from controlplane.controllers.reads.bindings_on_clusters import clusters_where_needed
from controlplane.controllers.reads.fleet_state import observations_of
from controlplane.engine.decision import Guard
from controlplane.engine.state import State
from controlplane.eviction import leftovers
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import Observation
from controlplane.kinds.template import Template
from controlplane.kinds.work import APPLIED, REMOVING, Work
from controlplane.propagation import works


def late_removals(state: State, found: Iterable[tuple[Work, Cluster | None]]) -> dict[Ref, leftovers.LateRemoval]:
    """Return what has to be checked before objects are removed or lose replicas late.

    Works that need no check, or whose binding does not exist any more, are left out. A cluster of another copy whose
    last probe failed counts as lost, although it may still be published as Ready.
    """
    owners: dict[Ref, Ref] = {}
    candidates = [(work, _is_late(work, cluster), cluster) for work, cluster in found]
    overdue = {work.ref for work, is_late, _ in candidates if is_late}
    to_check = {
        work.ref: work for work, is_late, at in candidates if is_late or leftovers.may_be_target_again(work, at)
    }
    for work in to_check.values():
        owners.update((work.ref, owner) for owner in works.owner(work, kinds.BINDINGS))
    bindings: dict[Ref, Binding] = state.get(sorted(set(owners.values()))) if owners else {}
    names = sorted({target.name for binding in bindings.values() for target in works.targets(binding)})
    clusters = state.get([Ref(kinds.CLUSTER, "", name) for name in names]) if names else {}
    seen = observations_of(state, names)
    places: dict[str, Cluster] = {
        ref.name: cluster for ref, cluster in clusters.items() if not health.fails(seen.get(ref.name))
    }
    needed = clusters_where_needed(state, bindings.values())

    def late(ref: Ref, binding: Binding) -> leftovers.LateRemoval:
        work = to_check[ref]
        still = work.cluster in needed.get(binding.ref, ())
        rows = [seen[target.name] for target in works.targets(binding) if target.name in seen]
        is_late = ref in overdue or any(health.fails(row) or _unobserved_since(work, row) for row in rows)
        found = leftovers.decide_late_removal(binding, work, work.cluster, places, overdue=is_late, needed=still)
        if found.wanted:
            return found._replace(rests_on=Guard(binding.ref, binding.metadata.generation))
        if binding.metadata.deletion_timestamp is not None or leftovers.leaves_directly(binding, work.cluster):
            return found  # it goes for no other copy
        return found._replace(observations=tuple(rows))

    return {
        ref: late(ref, bindings[owner])
        for ref, owner in owners.items()
        if owner in bindings and works.is_of(to_check[ref], bindings[owner])
    } | _namespaces_wanted(state, [work for work, is_late, _ in candidates if is_late])


def _unobserved_since(work: Work, row: Observation) -> bool:
    """Test whether the cluster of another copy was not observed for a while since a removal was decided."""
    decided = work.metadata.deletion_timestamp
    return decided is not None and row.resumed_at is not None and row.resumed_at >= decided


def _is_late(work: Work, cluster: Cluster | None) -> bool:
    """Test whether a removal comes late, or may come late because an agent carries it out.

    So does each that an agent holds: it is checked until it ends.
    """
    held = work.metadata.deletion_timestamp is None and replicas_held(work) > 0
    left = leftovers.left_to_agent(work, cluster) is not None
    return held or left or leftovers.is_late_removal(work, cluster)


def _namespaces_wanted(state: State, late: Iterable[Work]) -> dict[Ref, leftovers.LateRemoval]:
    """Return that Namespaces stay on their member because they were made again since their removal was decided.

    A member deletes a Namespace with everything in it, also with copies that were made since. One that its member
    is deleting already cannot be kept.
    """
    owners = {
        work.ref: owner
        for work in late
        if work.metadata.deletion_timestamp is not None and not _is_being_removed(work)
        for owner in works.owner(work, (kinds.NAMESPACE,))
        if works.is_copy_of(work, "Namespace", owner.name)
    }
    present: dict[Ref, Template] = state.get(sorted(set(owners.values()))) if owners else {}
    wanted = {ref for ref, namespace in present.items() if namespace.metadata.deletion_timestamp is None}
    return {ref: leftovers.LateRemoval(wanted=True, may_go=False) for ref, owner in owners.items() if owner in wanted}


def _is_being_removed(work: Work) -> bool:
    applied = condition(work.status.conditions, APPLIED)
    return applied is not None and applied.reason == REMOVING
