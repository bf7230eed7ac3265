"""Which bindings the scheduler has to look at when clusters change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import State
from controlplane.kinds import BINDINGS, CLUSTER
from controlplane.kinds.binding import Binding
from controlplane.kinds.binding.affinity_index import affine_values, concerns
from controlplane.kinds.cluster import Cluster
from controlplane.scheduling.cluster_facts import facts
from controlplane.scheduling.placement_plan import REFUSING

ROOM: Final = "Room"
"""Kind of a fan-out origin: a cluster whose free capacity changed. It concerns only bindings that fit nowhere."""
CLOSED: Final = "Closed"
"""Kind of a fan-out origin: a cluster that only got taints that keep new copies away. Placed copies stay there."""


def cluster_changed(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    """The bindings that a change of a cluster may concern are due.

    These are fewer if only its taints or only its free capacity changed (CLOSED, ROOM).
    """
    present = new if new is not None else old
    assert present is not None, "a change has an old or a new side"
    if old is None or new is None or _filtered_fields(old) != _filtered_fields(new):
        only_closed = old is not None and new is not None and _only_more_taints(old, new)
        yield Ref(CLOSED, "", present.metadata.name) if only_closed else present.ref
    elif old.status.resource_summary != new.status.resource_summary:
        yield Ref(ROOM, "", new.metadata.name)


def _filtered_fields(cluster: Cluster) -> tuple[Any, ...]:
    """Return what placements and filters read of a cluster, apart from its capacity."""
    return cluster.metadata.generation, *facts(cluster), cluster.status.api_enablements


def _only_more_taints(old: Cluster, new: Cluster) -> bool:
    """Test whether a cluster changed only by getting taints that keep new copies away."""
    before, after = ({(taint.key, taint.value, taint.effect) for taint in side.spec.taints} for side in (old, new))
    if not before <= after or any(effect not in REFUSING for _, _, effect in after - before):
        return False
    return _filtered_fields(old)[1:] == _filtered_fields(new)[1:] and replace(old.spec, taints=()) == replace(
        new.spec, taints=()
    )


def concerned_bindings(state: State, origins: Sequence[Ref], *, after: str, limit: int) -> tuple[list[Ref], str | None]:
    """Return one page of the bindings that changes of clusters concern, and the next cursor.

    These are the bindings on a cluster that is gone or being deleted. Of the bindings that follow changes of clusters
    or wait for a place, they are those that are on one of the clusters or may choose it.

    `origins`: clusters with the same kind of change. The cursor is the reference of the last binding that was read.
    Cursor None: there are no more bindings.
    """
    kind = origins[0].kind
    refs = [Ref(CLUSTER, "", origin.name) for origin in origins]
    found = state.get(refs)
    clusters: dict[str, Cluster | None] = {ref.name: found.get(ref) for ref in refs}
    values = {f"on:{name}" for name in clusters}
    values.update(value for cluster in found.values() for value in affine_values(cluster))
    index = {ROOM: "pending", CLOSED: "closed"}.get(kind, "affine")
    bindings: Sequence[Binding] = state.page_by_index(
        BINDINGS, index, sorted(values), after=Ref.parse(after) if after else None, limit=limit
    )
    concerned = [binding.ref for binding in bindings if concerns(clusters, binding, closed=kind == CLOSED)]
    return concerned, str(bindings[-1].ref) if len(bindings) >= limit else None
