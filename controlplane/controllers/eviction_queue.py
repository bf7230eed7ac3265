"""EvictionQueue: keeps the queue rows of a binding as the taints of its clusters want them (D6, D7, D12)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.clusters import health
from controlplane.clusters.taints import ending
from controlplane.controllers.reads.fleet_state import (
    FLEET,
    clusters_with_evicting_taints,
    fleet_state,
    fleet_state_changed,
)
from controlplane.controllers.reads.placed import placed_on
from controlplane.controllers.reads.workload_labels import workload_labels
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Drop
from controlplane.engine.state import State, Watch
from controlplane.eviction import operator_orders, queue
from controlplane.eviction.holds import Holds
from controlplane.eviction.pending import evicted_condition
from controlplane.eviction.state_preservation import has_preservation_rules
from controlplane.kinds import BINDINGS, CLUSTER, EVICTION_HOLD, FAILOVER_CONFIGURATION
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster, Taint
from controlplane.kinds.rows import HELD, ON_HOLD, Eviction, FleetState
from controlplane.kinds.template import Template
from controlplane.propagation.bindings import binding_ref
from controlplane.settings import Settings

NOT_YET = timedelta(seconds=1)


class EvictionQueueSnapshot(msgspec.Struct, frozen=True):
    """`subject` None: the binding is gone and only its rows are left. `holds`: read where something is on hold."""

    subject: Binding | None
    clusters: dict[str, Cluster]
    stored: tuple[Eviction, ...]
    fleet: FleetState
    holds: Holds = Holds()


def _moving(cluster: Cluster | None) -> tuple[tuple[Taint, ...], frozenset[tuple[str, str]]]:
    if cluster is None:
        return (), frozenset()
    found = tuple(taint for taint in cluster.spec.taints if taint.effect in EVICTING_EFFECTS)
    return (found, ending(cluster)) if found else ((), frozenset())


def _cluster_changed(old: Cluster | None, new: Cluster | None) -> Iterable[Ref]:
    """A cluster concerns its bindings where the taints that move workloads changed, or stopped being meant."""
    present = new or old
    return (present.ref,) if present is not None and _moving(old) != _moving(new) else ()


def _binding_changed(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    """A binding is looked at where its targets or what it is judged by changed, and where the state came that it takes
    along; a new one without targets is not."""
    present = new or old
    if present is None or (old is None and not present.spec.clusters):
        return ()
    same = (
        old
        and new
        and old.spec == new.spec
        and operator_orders.orders_by_cluster(old) == operator_orders.orders_by_cluster(new)
    )
    if (
        old
        and new
        and same
        and not (has_preservation_rules(new) and old.status.aggregated_status != new.status.aggregated_status)
    ):
        return ()
    if old and new and evicted_condition(new) not in (None, evicted_condition(old)):
        return ()  # Evictions wrote this, and ended the rows with it
    return (present.ref,)


def _labels_changed(old: Template | None, new: Template | None) -> Iterable[Ref]:
    """Holds choose by the labels of workloads: what has others may no longer be held."""
    return () if old is None or new is None or old.metadata.labels == new.metadata.labels else (binding_ref(new.ref),)


def _holds(state: State, bindings: Iterable[Binding]) -> Holds:
    holds = Holds(tuple(state.list(EVICTION_HOLD)))
    return replace(holds, labels=workload_labels(state, bindings)) if holds.needs_labels() else holds


class EvictionQueue(Controller):
    name = "eviction_queue"
    group = "failover"
    keys = BINDINGS
    watches = (
        *(Watch(kind, _binding_changed) for kind in BINDINGS),
        Watch("*", _labels_changed),
        Watch(CLUSTER, _cluster_changed, fan_out=True),
        Watch(FAILOVER_CONFIGURATION, lambda old, new: (FLEET,), fan_out=True),
        Watch("row/FleetState", fleet_state_changed, fan_out=True),
    )
    owns = Ownership({}, rows=(Eviction,))
    due_at_start = (FLEET,)
    batch = 1000
    # It writes rows only, so no decision can lose, and 100,000 bindings are queued in seconds.
    decides_in_fan_out = True

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """A cluster concerns the bindings on it; the settings (gate) those on every cluster that moves workloads."""
        names = [origin.name]
        if origin.kind == FAILOVER_CONFIGURATION:
            names = clusters_with_evicting_taints(state)
        return placed_on(state, names, index="placed", after=after, limit=limit)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[EvictionQueueSnapshot | None]:
        """Bindings are read only where a cluster moves workloads or rows are left: otherwise there is nothing to do."""
        stored = state.rows(Eviction, "binding", [str(ref) for ref in refs])
        tainted = state.by_index(CLUSTER, "taint", EVICTING_EFFECTS)
        if not stored and not tainted:
            return [None] * len(refs)
        bindings = state.get(refs)
        clusters = {one.metadata.name: one for found in tainted.values() for one in found}
        fleet = fleet_state(state)
        on_hold = {
            row.binding for rows in stored.values() for row in rows if (row.state, row.reason) == (HELD, ON_HOLD)
        }
        holds = _holds(state, [one for ref, one in bindings.items() if str(ref) in on_hold]) if on_hold else Holds()
        return [
            EvictionQueueSnapshot(bindings.get(ref), clusters, tuple(stored.get(str(ref), ())), fleet, holds)
            for ref in refs
        ]

    def decide(
        self, snapshot: EvictionQueueSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        binding, stored = snapshot.subject, snapshot.stored
        if binding is None:
            return Decision(changes=tuple(Drop(row) for row in stored))
        if not stored and not any(target.name in snapshot.clusters for target in binding.spec.clusters):
            return NOTHING
        gate = settings.gate("Failover")
        clocks_from = health.clock_start(snapshot.fleet) if gate else None
        if gate and clocks_from is None:
            return Decision(wake_at=now + NOT_YET)
        wants = queue.wanted_rows(
            binding,
            snapshot.clusters,
            stored,
            clocks_from=clocks_from,
            judge_again=settings.eviction.reevaluate_policies,
            holds=snapshot.holds,
            now=now,
        )
        concerned = snapshot.clusters if gate and binding.metadata.deletion_timestamp is None else {}
        return Decision(changes=queue.row_changes(stored, wants, concerned, now=now), reason="EvictionQueue")
