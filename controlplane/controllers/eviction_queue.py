"""EvictionQueue: queues an eviction for each copy on a cluster with an evicting taint [eviction-queue].

Whether and when a copy is evicted is decided once for each taint, when the taint appears [judged-once]. A row is
dropped when its taint disappears [recovered-clusters-cancel].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.equality import same
from controlplane.apimachinery.meta import Ref
from controlplane.clusters import eviction_tier
from controlplane.clusters.taints import ending
from controlplane.controllers.reads.bindings_on_clusters import bindings_on_clusters
from controlplane.controllers.reads.fleet_state import (
    FLEET,
    clusters_with_evicting_taints,
    fleet_state,
    fleet_state_changed,
)
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
from controlplane.propagation import matching
from controlplane.propagation.bindings import binding_ref
from controlplane.settings import Settings

SOON = timedelta(seconds=1)  # until controllers.fleet_watch has stored since when the Failover gate is on


class EvictionQueueSnapshot(msgspec.Struct, frozen=True):
    """A binding with its rows and all clusters that carry an evicting taint.

    `subject` None: the binding was deleted and only its rows are left. `holds` are read only if a row is on hold.
    """

    subject: Binding | None
    clusters: dict[str, Cluster]
    stored: tuple[Eviction, ...]
    fleet: FleetState
    holds: Holds = Holds()


def _evicting_taints(cluster: Cluster | None) -> tuple[tuple[Taint, ...], frozenset[tuple[str, str]]]:
    """Return the evicting taints of a cluster, and (key, effect) of those that are about to be removed."""
    if cluster is None:
        return (), frozenset()
    evicting = tuple(taint for taint in cluster.spec.taints if taint.effect in EVICTING_EFFECTS)
    return (evicting, ending(cluster)) if evicting else ((), frozenset())


def _cluster_changed(old: Cluster | None, new: Cluster | None) -> Iterable[Ref]:
    """The bindings on a cluster are due when its evicting taints changed, or are about to be removed."""
    present = new or old
    return (present.ref,) if present is not None and _evicting_taints(old) != _evicting_taints(new) else ()


def _binding_changed(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    """A binding is due when its spec or its orders changed, or when a member reported state that is to be preserved.

    A new binding without clusters is not due.
    """
    present = new or old
    if present is None or (old is None and not present.spec.clusters):
        return ()
    is_same = (
        old
        and new
        and old.spec == new.spec
        and operator_orders.orders_by_cluster(old) == operator_orders.orders_by_cluster(new)
    )
    if (
        old
        and new
        and is_same
        and not (has_preservation_rules(new) and not same(old.status.aggregated_status, new.status.aggregated_status))
    ):
        return ()
    if old and new and evicted_condition(new) not in (None, evicted_condition(old)):
        return ()  # controllers.evictions wrote the binding, and its rows with it
    return (present.ref,)


def _labels_changed(old: Template | None, new: Template | None) -> Iterable[Ref]:
    """A binding is due when the labels of its workload changed, because EvictionHolds select by them.

    When a policy claims a template, its binding is created or changed with it, which makes the binding due if need be.
    """
    if old is None or new is None or old.metadata.labels == new.metadata.labels:
        return ()
    claimed = matching.claimant(old) is None and matching.claimant(new) is not None
    return () if claimed and _own_labels(old) == _own_labels(new) else (binding_ref(new.ref),)


def _own_labels(template: Template) -> Mapping[str, str]:
    """Return the labels of a template without those that name the policy that claims it."""
    labels, _ = matching.unclaimed(template.metadata.labels, template.metadata.annotations)
    return labels


def _holds(state: State, bindings: Iterable[Binding]) -> Holds:
    holds = Holds(tuple(state.list(EVICTION_HOLD)))
    return replace(holds, labels=workload_labels(state, bindings)) if holds.needs_labels() else holds


class EvictionQueue(Controller):
    """Key: a binding. Writes its Eviction rows."""

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
    # Rows are written without conflicts, so that 100,000 bindings can be queued within seconds.
    decides_in_fan_out = True

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return the bindings on the cluster; for the fleet and the settings, those on all tainted clusters."""
        names = [origin.name]
        if origin.kind == FAILOVER_CONFIGURATION:
            names = clusters_with_evicting_taints(state)
        return bindings_on_clusters(state, names, index="placed", after=after, limit=limit)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[EvictionQueueSnapshot | None]:
        """Return a snapshot per binding. Bindings are read only if there is an evicting taint or a row."""
        stored = state.rows(Eviction, "binding", [str(ref) for ref in refs])
        tainted = state.by_index(CLUSTER, "taint", EVICTING_EFFECTS)
        if not stored and not tainted:
            return [None] * len(refs)
        bindings = state.get(refs)
        clusters = {cluster.metadata.name: cluster for found in tainted.values() for cluster in found}
        fleet = fleet_state(state)
        on_hold = {
            row.binding for rows in stored.values() for row in rows if (row.state, row.reason) == (HELD, ON_HOLD)
        }
        holds = (
            _holds(state, [binding for ref, binding in bindings.items() if str(ref) in on_hold]) if on_hold else Holds()
        )
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
        clocks_from = eviction_tier.clock_start(snapshot.fleet) if gate else None
        if gate and clocks_from is None:
            return Decision(wake_at=now + SOON)
        wants = queue.wanted_rows(
            binding,
            snapshot.clusters,
            stored,
            clocks_from=clocks_from,
            judge_again=settings.eviction.reevaluate_policies,
            holds=snapshot.holds,
            now=now,
        )
        clusters = snapshot.clusters if gate and binding.metadata.deletion_timestamp is None else {}
        return Decision(changes=queue.row_changes(stored, wants, clusters, now=now), reason="EvictionQueue")
