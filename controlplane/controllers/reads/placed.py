"""Where bindings are: the bindings placed on a cluster, the Works of bindings, and the clusters of their workloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import State
from controlplane.kinds import BINDINGS, WORK
from controlplane.kinds.binding import Binding
from controlplane.kinds.work import Work
from controlplane.propagation import attached_bindings, works


def placed_on(
    state: State, clusters: Sequence[str], *, index: str, after: str, limit: int
) -> tuple[list[Ref], str | None]:
    """Return one chunk of the bindings found under an index for any of the clusters, and the cursor behind it.

    The cursor is "cluster number,kind number,namespace/name"; clusters have to come in the same order every time.
    """
    number, _, rest = after.partition(",")
    scope, _, place = rest.partition(",")
    at, kind = int(number or 0), int(scope or 0)
    if at >= len(clusters):
        return [], None
    namespace, _, name = place.partition("/")
    refs = list(state.refs_by_index(BINDINGS[kind], index, clusters[at], after=(namespace, name), limit=limit))
    if len(refs) >= limit:
        return refs, f"{at},{kind},{refs[-1].namespace}/{refs[-1].name}"
    following = (at, kind + 1) if kind + 1 < len(BINDINGS) else (at + 1, 0)
    return refs, f"{following[0]},{following[1]}," if following[0] < len(clusters) else None


def works_of(state: State, found: Mapping[Ref, Binding]) -> dict[str, list[Work]]:
    """Return the Works of bindings, by the binding's ref as text.

    A Work counts only under the name that the Works of its binding have: the annotation alone proves nothing.
    """
    named = state.by_index(WORK, "binding", [str(ref) for ref in found])
    return {
        str(ref): [work for work in named.get(str(ref), ()) if works.is_of(work, binding)]
        for ref, binding in found.items()
    }


def needed_on(state: State, bindings: Iterable[Binding]) -> dict[Ref, set[str]]:
    """Return, for each binding that workloads take along (propagateDeps), the clusters where they still have a copy.

    Without such bindings, no query is made. A workload whose binding is gone has no copy.
    """
    parents = {one.ref: attached_bindings.needing(one) for one in bindings if one.spec.required_by}
    named = sorted({parent for ones in parents.values() for parent in ones})
    held = works_of(state, state.get(named)) if named else {}
    places = {name: {work.cluster for work in found} for name, found in held.items()}
    return {ref: {name for one in ones for name in places.get(str(one), ())} for ref, ones in parents.items()}
