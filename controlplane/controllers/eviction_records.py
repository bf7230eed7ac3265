"""EvictionRecords: deletes the records of evictions from a cluster once the outage of that cluster is over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from controlplane.apimachinery.meta import Ref
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import Decision, Drop
from controlplane.engine.state import State, Watch
from controlplane.kinds import CLUSTER
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster
from controlplane.kinds.rows import ENDED, Eviction
from controlplane.settings import Settings

DROPPED_AT_ONCE = 5000  # rows dropped by one decision


def _lost_evicting_taint(old: Cluster | None, new: Cluster | None) -> Iterable[Ref]:
    """A cluster is due when it no longer carries NoExecute or PreferNoExecute, or is removed with such a taint."""
    if old is not None and old.has_taint(*EVICTING_EFFECTS) and (new is None or not new.has_taint(*EVICTING_EFFECTS)):
        yield old.ref


class EvictionRecords(Controller):
    """Key: a Cluster. Drops its Eviction rows that have ended, once the cluster carries no evicting taint."""

    name = "eviction_records"
    group = "failover"
    keys = (CLUSTER,)
    watches = (Watch(CLUSTER, _lost_evicting_taint),)
    owns = Ownership({}, rows=(Eviction,))
    batch = 1

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[tuple[Eviction, ...] | None]:
        clusters = state.get(refs)
        recovered = [ref.name for ref in refs if ref not in clusters or not clusters[ref].has_taint(*EVICTING_EFFECTS)]
        rows = state.rows(Eviction, "cluster", recovered) if recovered else {}
        return [tuple(rows.get(ref.name, ())) for ref in refs]

    def decide(
        self, snapshot: tuple[Eviction, ...], settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        over = [row for row in snapshot if row.state in ENDED]
        more = len(over) > DROPPED_AT_ONCE
        changes = tuple(Drop(row) for row in over[:DROPPED_AT_ONCE])
        return Decision(changes=changes, wake_at=now if more else None, reason="EvictionRecords")
