"""Dry runs: what the scheduler would decide about a binding, on the fleet as it is or with some clusters lost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import ObjectMeta, Struct
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.placement_review import PlacementReviewStatus
from controlplane.scheduling import binding_outcome, placement_explanation
from controlplane.scheduling.batch import Batch, Item
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.colocation import Applications
from controlplane.scheduling.departures import left_for_taints
from controlplane.scheduling.half_evicted import lost_targets, targets_to_leave
from controlplane.scheduling.note import detail_of, summary_of
from controlplane.scheduling.question import Groups
from controlplane.scheduling.schedule import Placed
from controlplane.scheduling.trigger import needs_scheduling
from controlplane.scheduling.workload_affinity import WorkloadGroups
from controlplane.settings import Settings

RESULT_STANDS: Final = "ResultStands"


class Around(Struct, frozen=True):
    """The other bindings that a placement depends on: workload affinity groups, and the parts of applications."""

    groups: Groups = {}
    applications: Mapping[str, Sequence[Binding]] = {}

    def without(self, lost: Collection[str]) -> Around:
        """Return the same bindings without their copies on these clusters."""
        groups = {
            key: {name: [cluster for cluster in clusters if cluster not in lost] for name, clusters in members.items()}
            for key, members in self.groups.items()
        }
        parts = {
            key: [_after_loss(binding, lost) for binding in bindings] for key, bindings in self.applications.items()
        }
        return Around(groups, parts)


NO_OTHER_BINDINGS: Final = Around()


def review(
    binding: Binding,
    clusters: Iterable[Cluster],
    *,
    reserved_capacity: Iterable[tuple[str, str, int]] = (),
    around: Around = NO_OTHER_BINDINGS,
    lost: Collection[str] = (),
    reported_at: Mapping[str, datetime] = {},
    settings: Settings,
    now: datetime,
) -> PlacementReviewStatus:
    """Return what the scheduler would decide about a binding.

    `lost`: clusters that count as unavailable; the copies on them count as gone. `reserved_capacity`: (cluster,
    request, replicas) that no report counts yet. `reported_at`: by cluster, when its capacity was last reported. Raises
    ValueError if the binding has no placement or requests something that is not a quantity.
    """
    fleet = Fleet.of(clusters, settings=settings).without(lost)
    around = around.without(lost)
    binding = _after_loss(binding, lost)
    trigger = needs_scheduling(binding, fleet)
    if trigger is None:
        message = (
            "placement, replicas and targets have not changed since the last result, so the scheduler decides nothing"
        )
        return PlacementReviewStatus(RESULT_STANDS, message, clusters=binding.spec.clusters)
    ledger = binding_outcome.ledger(fleet, reserved_capacity)
    left = left_for_taints(binding, fleet)
    item = Item(
        binding.spec,
        binding.status,
        WorkloadGroups(around.groups).seen_by(binding),
        Applications(around.applications, settings).seen_by(binding, now=now),
        left=left,
        leaving=targets_to_leave(binding, left, fleet),
        lost=lost_targets(binding, fleet),
    )
    _, verdict = Batch(fleet, ledger, settings).place(item)
    part = placement_explanation.NotedDecision(
        summary_of(verdict, trigger=trigger, now=now), detail_of(verdict), fleet.names
    )
    explanation = placement_explanation.document(
        part,
        metadata=ObjectMeta(name=binding.metadata.name, namespace=binding.metadata.namespace),
        reported_at=reported_at,
    )
    outcome = verdict.outcome
    shown = msgspec.to_builtins(explanation)
    if isinstance(outcome, Placed):
        return PlacementReviewStatus(
            part.decision.outcome,
            affinity_name=outcome.affinity_name,
            clusters=outcome.clusters,
            explanation=shown,
        )
    message = placement_explanation.message(outcome.message, explanation.clusters)
    return PlacementReviewStatus(outcome.reason, message, clusters=binding.spec.clusters, explanation=shown)


def _after_loss(binding: Binding, lost: Collection[str]) -> Binding:
    """Return the binding without the lost clusters among its targets."""
    remaining = tuple(target for target in binding.spec.clusters if target.name not in lost)
    return replace(binding, spec=replace(binding.spec, clusters=remaining))
