"""Removals: copies that disappear with their workload, and bindings that are placed again because a cluster goes."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from controlplane.apimachinery.meta import Ref
from controlplane.insight.effects import Affected
from controlplane.insight.supposed.departures import NO_REFUGE, Outcomes, workload
from controlplane.insight.supposed.fleet import SupposedFleet
from controlplane.insight.supposed.snapshot import Snapshot
from controlplane.kinds import NAMESPACE
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.propagation.bindings import template_ref
from controlplane.scheduling import binding_outcome
from controlplane.scheduling.batch import Batch, Item
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.colocation import Applications
from controlplane.scheduling.departures import left_for_taints
from controlplane.scheduling.half_evicted import lost_targets, targets_to_leave
from controlplane.scheduling.schedule import Placed
from controlplane.scheduling.trigger import needs_scheduling
from controlplane.scheduling.workload_affinity import WorkloadGroups

DELETED, KEPT = "Deleted", "CopiesKept"


def deleted_bindings(snapshot: Snapshot, gone: Collection[Ref]) -> dict[Ref, str]:
    """Return the bindings that disappear with deleted objects, each with the reason.

    A binding goes with its workload, with its namespace, or because it is deleted itself.
    """
    namespaces = {ref.name for ref in gone if ref.kind == NAMESPACE}
    found: dict[Ref, str] = {}
    for ref, binding in snapshot.bindings.items() if gone else ():
        if ref in gone:
            found[ref] = "the binding is deleted; a new one is made and placed if a policy still selects the workload"
        elif template_ref(binding) in gone:
            found[ref] = "its workload is deleted"
        elif ref.namespace and ref.namespace in namespaces:
            found[ref] = "its namespace is deleted"
    return found


def record_removed(snapshot: Snapshot, deleted: dict[Ref, str], outcomes: Outcomes) -> None:
    """Record the copies that deleted bindings remove, or leave running (spec.preserveResourcesOnDeletion)."""
    for ref, why in deleted.items():
        binding = snapshot.bindings[ref]
        copies = {target.name: target.replicas for target in binding.spec.clusters}
        keeps = bool(binding.spec.preserve_resources_on_deletion)
        message = f"{why}; its copies stay (preserveResourcesOnDeletion)" if keeps else why
        removed = Affected(str(ref), workload(binding), copies, {}, KEPT if keeps else DELETED, message)
        outcomes.removed.append(removed)


class Rescheduler:
    """Lets the scheduler decide about bindings again, one after the other, as `controllers.scheduler` does it."""

    def __init__(self, snapshot: Snapshot, fleet: SupposedFleet, *, now: datetime) -> None:
        self._snapshot, self._supposed, self._now = snapshot, fleet, now
        members = [cluster for name, cluster in fleet.clusters.items() if name not in fleet.removed]
        self._fleet = Fleet.of(members, settings=fleet.settings)
        self._ledger = binding_outcome.ledger(self._fleet, snapshot.reserved_capacity.totals)
        self._batch = Batch(self._fleet, self._ledger, fleet.settings)
        self._groups = WorkloadGroups(snapshot.groups)
        self._applications = Applications(snapshot.applications, fleet.settings)

    def place(self, binding: Binding) -> tuple[TargetCluster, ...] | str | None:
        """Return the targets that the scheduler gives a binding, or why it finds none. None: it would not decide."""
        spec = binding.spec
        if spec.placement is None or spec.scheduling_suspended or spec.other_scheduler:
            return None
        if needs_scheduling(binding, self._fleet) is None:
            return None
        application = self._applications.seen_by(binding, now=self._now)
        left = left_for_taints(binding, self._fleet)
        item = Item(
            spec,
            binding.status,
            self._groups.seen_by(binding),
            application,
            left=left,
            leaving=targets_to_leave(binding, left, self._fleet),
            lost=lost_targets(binding, self._fleet),
        )
        _, verdict = self._batch.place(item)
        if not isinstance(verdict.outcome, Placed):
            return verdict.outcome.message
        self._applications.placed(binding, verdict.outcome.clusters)
        self._groups.placed(binding, verdict.outcome.clusters)
        return verdict.outcome.clusters


def plan_removed_clusters(
    snapshot: Snapshot, fleet: SupposedFleet, gone: Collection[Ref], outcomes: Outcomes, *, now: datetime
) -> None:
    """Record what becomes of the bindings on deleted clusters. Nothing is evicted: the scheduler places them again."""
    if not fleet.removed:
        return
    rescheduler = Rescheduler(snapshot, fleet, now=now)
    ordered = sorted(snapshot.bindings.values(), key=lambda binding: -binding.spec.priority)
    for binding in ordered:
        lost = [target.name for target in binding.spec.clusters if target.name in fleet.removed]
        if not lost or binding.ref in gone:
            continue
        outcome, after = outcomes.of(binding), rescheduler.place(binding)
        if after is None or isinstance(after, str):
            why = after or "the scheduler does not decide about it (suspended, attached or another scheduler)"
            for name in lost:
                outcome.stuck[name] = (NO_REFUGE, why)
            continue
        outcome.goes_to(after, f"cluster {', '.join(lost)} is deleted")
