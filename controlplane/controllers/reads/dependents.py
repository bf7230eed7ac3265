"""The dependents of supporting objects: what needs an object without pods that is to leave a cluster
[graceful-timeout]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads.bindings_on_clusters import works_of
from controlplane.engine.state import State
from controlplane.eviction import supporting_objects
from controlplane.eviction.graceful import DependentsByCluster
from controlplane.kinds import COMPANIONS
from controlplane.kinds.binding import Binding
from controlplane.kinds.template import Template
from controlplane.propagation.bindings import binding_ref, template_ref


class Dependents(NamedTuple):
    """`selected`: by supporting object: its dependents. `bindings`: theirs. `kinds`: by definition: the kind of all
    objects that need it."""

    selected: Mapping[Ref, Sequence[Ref]]
    bindings: Mapping[Ref, Binding]
    kinds: Mapping[Ref, str]


def dependents_of(state: State, waiting: Sequence[Binding]) -> Dependents:
    """Return the dependents of the objects of these bindings, in a constant number of queries."""
    templates: dict[Ref, Template] = state.get([template_ref(binding) for binding in waiting])
    queries = {ref: supporting_objects.dependents_query(template) for ref, template in templates.items()}
    values = sorted({query.value for query in queries.values() if query.value})
    found: dict[str, list[Template]] = {}
    for kind in COMPANIONS if values else ():
        for value, ones in state.by_index(kind, "companions", values).items():
            found.setdefault(value, []).extend(ones)
    selected = {
        ref: supporting_objects.select_dependents(query, found.get(query.value, ())) for ref, query in queries.items()
    }
    bindings: dict[Ref, Binding] = state.get(sorted({binding_ref(ref) for refs in selected.values() for ref in refs}))
    return Dependents(selected, bindings, {ref: query.kind for ref, query in queries.items() if query.kind})


def dependents_by_cluster(state: State, waiting: Sequence[Binding]) -> dict[Ref, DependentsByCluster]:
    """Return the workloads that are placed on clusters or have not left them yet, and need the objects of these
    bindings, by binding and cluster."""
    if not waiting:
        return {}
    found = dependents_of(state, waiting)
    on_members = state.kinds_on_members() if found.kinds else ()
    return {
        binding.ref: supporting_objects.clusters_with_kind(found.kinds[ref], on_members)
        if (ref := template_ref(binding)) in found.kinds
        else supporting_objects.dependents_by_cluster(found.selected.get(ref, ()), found.bindings)
        for binding in waiting
    }


def clusters_given_up_later(state: State, waiting: Sequence[Binding]) -> dict[Ref, set[str]]:
    """Return the clusters on which dependents of these bindings have a copy that they want no more, by binding.

    They have been given up as well, and their copies stay until others are healthy.
    """
    if not waiting:
        return {}
    found = dependents_of(state, waiting)
    held = works_of(state, found.bindings)

    def given_up(dependent: Ref) -> set[str]:
        binding = found.bindings.get(binding_ref(dependent))
        copies = () if binding is None else held.get(str(binding.ref), ())
        return {work.cluster for work in copies if binding is not None and binding.spec.target(work.cluster) is None}

    return {
        binding.ref: {name for one in found.selected.get(template_ref(binding), ()) for name in given_up(one)}
        for binding in waiting
    }
