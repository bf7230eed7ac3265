"""Reads what `controlplane.insight.destinations` needs, for the evictions of one page."""

from __future__ import annotations

from collections.abc import Sequence

from apps.failover.fleet_arrays import fleet_of
from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads.readiness_state import with_bindings
from controlplane.eviction.refuge import Refuge
from controlplane.insight import destinations as insight
from controlplane.insight.failure_outlook import Situation
from controlplane.kinds.rows import Eviction
from controlplane.settings import Settings


def destinations(
    store: DjangoStore, rows: Sequence[Eviction], situation: Situation, settings: Settings
) -> dict[str, Refuge]:
    """Return by key where each copy would go, or why nowhere. `situation`: the fleet, without bindings.

    A constant number of queries, none without rows.
    """
    if not rows:
        return {}
    bindings = store.get({Ref.parse(row.binding) for row in rows})
    together = store.rows(Eviction, "binding", sorted({row.binding for row in rows}))
    about = with_bindings(store, situation, list(bindings.values()))
    return insight.destinations(rows, bindings, together, about, settings, fleet=fleet_of(about, settings))
