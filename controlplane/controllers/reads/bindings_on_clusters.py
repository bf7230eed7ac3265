"""Which bindings are on which clusters: bindings by cluster, Works by binding, and where a binding is still needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controlplane.apimachinery.meta import Ref
from controlplane.engine.controller import cursor_after
from controlplane.engine.state import State
from controlplane.kinds import BINDINGS, WORK
from controlplane.kinds.binding import Binding
from controlplane.kinds.work import Work
from controlplane.propagation import attached_bindings, works


def bindings_on_clusters(
    state: State, clusters: Sequence[str], *, index: str, after: str, limit: int
) -> tuple[list[Ref], str | None]:
    """Return one page of the bindings with any of these clusters in an index, and the next cursor.

    `index`: for example "placed" or "leaving". The cursor is "number of the cluster,number of the kind,namespace/name".
    The clusters have to be given in the same order each time. Cursor None: there are no more bindings.
    """
    cluster_number, _, rest = after.partition(",")
    kind_number, _, cursor = rest.partition(",")
    at, kind = int(cluster_number or 0), int(kind_number or 0)
    if at >= len(clusters):
        return [], None
    refs = list(state.refs_by_index(BINDINGS[kind], index, clusters[at], after=cursor_after(cursor), limit=limit))
    if len(refs) >= limit:
        return refs, f"{at},{kind},{refs[-1].namespace}/{refs[-1].name}"
    following = (at, kind + 1) if kind + 1 < len(BINDINGS) else (at + 1, 0)
    return refs, f"{following[0]},{following[1]}," if following[0] < len(clusters) else None


def works_of(state: State, found: Mapping[Ref, Binding]) -> dict[str, list[Work]]:
    """Return the Works of bindings, by the reference of the binding as text.

    A Work counts only if it has the name that a Work of its binding has. Its annotation alone proves nothing, because
    users can write it.
    """
    named = state.by_index(WORK, "binding", [str(ref) for ref in found])
    return {
        str(ref): [work for work in named.get(str(ref), ()) if works.is_of(work, binding)]
        for ref, binding in found.items()
    }


def clusters_where_needed(state: State, bindings: Iterable[Binding]) -> dict[Ref, set[str]]:
    """Return the clusters on which workloads that need a binding (propagateDeps) still have a copy, by binding.

    Without such workloads, no query is made. A workload whose binding was deleted has no copy. Objects that need each
    other, or themselves, count only where they are still wanted: each of them would wait for the other one for ever.
    """
    parents = {binding.ref: attached_bindings.needing(binding) for binding in bindings if binding.spec.required_by}
    named = sorted({parent for ones in parents.values() for parent in ones})
    found: dict[Ref, Binding] = state.get(named) if named else {}
    held = works_of(state, found) if found else {}
    clusters = {name: {work.cluster for work in copies} for name, copies in held.items()}
    above = _all_needing(state, found)

    def where(ref: Ref, parent: Ref) -> set[str]:
        there = clusters.get(str(parent), set())
        return there & set(found[parent].clusters_kept()) if there and ref in above[parent] else there

    return {ref: {name for one in needing for name in where(ref, one)} for ref, needing in parents.items()}


def _all_needing(state: State, bindings: Mapping[Ref, Binding]) -> dict[Ref, set[Ref]]:
    """Return each of these bindings with all that need it, directly or through others, by binding.

    Only bindings that are needed themselves cost queries: one for each step on the way.
    """
    needing = {ref: attached_bindings.needing(binding) for ref, binding in bindings.items()}
    while missing := sorted({one for ones in needing.values() for one in ones} - needing.keys()):
        found: dict[Ref, Binding] = state.get(missing)
        needing |= {ref: attached_bindings.needing(found[ref]) if ref in found else [] for ref in missing}
    above: dict[Ref, set[Ref]] = {}
    for ref in bindings:
        seen, rest = {ref}, [ref]
        while rest:
            new = set(needing[rest.pop()]) - seen
            seen |= new
            rest += new
        above[ref] = seen
    return above
