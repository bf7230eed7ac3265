"""Fan-out from a cluster to the bindings of both scopes placed on it or leaving it."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.kinds import BINDINGS
from controlplane.meta import Ref
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
