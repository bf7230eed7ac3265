"""Fan-out from a cluster to the bindings of both scopes placed on it or leaving it; and who needs them there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controlplane import dependencies
from controlplane.kinds import BINDINGS, WORK
from controlplane.kinds.binding import Binding
from controlplane.meta import Ref
from controlplane.names import cluster_of_execution_namespace
from controlplane.state import State


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


def needed_on(state: State, bindings: Iterable[Binding]) -> dict[Ref, set[str]]:
    """Return, by binding of what workloads take along (propagateDeps), the clusters these still have a copy on.

    No query where there is none.
    """
    parents = {one.ref: dependencies.needing(one) for one in bindings if one.spec.required_by}
    names = sorted({str(parent) for ones in parents.values() for parent in ones})
    works = state.by_index(WORK, "binding", names) if names else {}
    held = {
        name: {cluster_of_execution_namespace(one.metadata.namespace) for one in found} for name, found in works.items()
    }
    return {ref: {name for one in ones for name in held.get(str(one), ())} for ref, ones in parents.items()}
