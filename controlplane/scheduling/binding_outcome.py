"""Writes a verdict to the binding: its targets, the applied placement, the Scheduled condition, reserved capacity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

import numpy as np

from controlplane.apimachinery.meta import Condition, condition, to_seconds, with_condition
from controlplane.engine.decision import Drop, Save
from controlplane.estimate.quota import counted_replicas
from controlplane.estimate.request import Asked, decoded, encoded
from controlplane.kinds.binding import SCHEDULED, Binding, TargetCluster, origin
from controlplane.kinds.rows import CapacityReservation, eviction_key
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.schedule import QUOTA_EXCEEDED, Placed, Refused
from controlplane.scheduling.trigger import APPLIED_PLACEMENT, applied_text

MESSAGE_LIMIT: Final = 1024
SUCCESS: Final = "Success"
_SCHEDULED: Final = Condition(SCHEDULED, "True", SUCCESS, "Binding has been scheduled successfully.")


def placed(binding: Binding, outcome: Placed, *, asked_again: bool, now: datetime) -> Binding:
    """Return the binding with its result. If nothing changes, the same object is returned.

    `asked_again`: a reschedule was requested. Then lastScheduledTime is set even if the targets stay the same. It is
    never earlier than the request, so that a request is answered once.
    """
    assert binding.spec.placement is not None, "only a binding with a placement is placed"
    moved = binding.with_spec(clusters=outcome.clusters)
    annotations, applied = moved.metadata.annotations, applied_text(binding.spec.placement)
    noted = moved
    if annotations.get(APPLIED_PLACEMENT) != applied:
        noted = moved.with_meta(annotations={**annotations, APPLIED_PLACEMENT: applied})
    reported = noted.with_status(
        conditions=with_condition(noted.status.conditions, _SCHEDULED, now=now),
        scheduler_observed_generation=noted.metadata.generation,
        scheduler_observed_affinity_name=outcome.affinity_name,
    )
    first = binding.status.last_scheduled_time is None
    if reported is binding and not asked_again and not first:
        return binding
    at, requested = to_seconds(now), binding.spec.reschedule_triggered_at
    dated = reported.with_status(last_scheduled_time=at if requested is None else max(at, requested))
    return origin.with_arrivals(dated)


def refused(binding: Binding, outcome: Refused, *, part: tuple[TargetCluster, ...] | None, now: datetime) -> Binding:
    """Return the binding with the reason why it has no result.

    Its targets stay [placement-is-kept]. `part`: the targets that fit and replace them [refuge-first]. None: there are
    none. A part with all replicas that were evicted counts as the last result, and the evictions as processed. The
    generation that it makes does not. The part that a quota allows always has all of them. Replicas that a user does
    not ask for any more do not wait either.
    """
    kept = binding if part is None else binding.with_spec(clusters=part)
    kept = origin.with_fewer(kept, counted_replicas(kept))
    unscheduled = Condition(SCHEDULED, "False", outcome.reason, outcome.message[:MESSAGE_LIMIT])
    reported = kept.with_status(conditions=with_condition(kept.status.conditions, unscheduled, now=now))
    if part is None or (outcome.reason != QUOTA_EXCEEDED and not _has_all_evicted(binding, part)):
        return reported
    return reported.with_status(
        last_scheduled_time=to_seconds(now), scheduler_observed_generation=binding.metadata.generation
    )


def _has_all_evicted(binding: Binding, part: Iterable[TargetCluster]) -> bool:
    """Test whether a part has as many replicas as the binding had before its last eviction."""
    before = origin.had(binding)
    return 0 < before <= sum([target.replicas for target in part])


def as_seen(binding: Binding, clusters: tuple[TargetCluster, ...], *, complete: bool = True) -> Binding:
    """Return a binding with the targets of a result, as quotas count it. `complete`: none of its replicas wait then."""
    new = binding.with_spec(clusters=clusters)
    return new.with_status(scheduler_observed_generation=binding.metadata.generation) if complete else new


def caught_up(binding: Binding, *, now: datetime) -> Binding:
    """Return the binding with its current generation as the observed one. The result itself stays.

    A change that was refused is undone then, or the copies went back, so the binding counts as scheduled again.
    """
    seen = binding.with_status(scheduler_observed_generation=binding.metadata.generation)
    before = condition(binding.status.conditions, SCHEDULED)
    if before is None or before.status == "True":
        return seen
    return seen.with_status(conditions=with_condition(binding.status.conditions, _SCHEDULED, now=now))


def capacity_reservations(
    binding: Binding,
    wanted: Mapping[str, int],
    known: Mapping[str, CapacityReservation],
    *,
    asked: Asked,
    now: datetime,
) -> Iterator[Save | Drop]:
    """Yield the changes of a binding's capacity reservations.

    `wanted`: replicas by cluster that no report counts. `known`: the stored reservations by cluster.
    """
    request = encoded(asked)
    for cluster in sorted({*wanted, *known}):
        row, replicas = known.get(cluster), wanted.get(cluster, 0)
        if not replicas:
            if row is not None:
                yield Drop(row)
        elif row is None or row.replicas != replicas or row.request != request:
            yield Save(
                CapacityReservation(
                    key=eviction_key(binding.ref, cluster),
                    binding=str(binding.ref),
                    cluster=cluster,
                    replicas=replicas,
                    request=request,
                    made_at=now,
                )
            )


def refuge_reservations(
    binding: Binding, wanted: Mapping[str, int], *, asked: Asked, now: datetime
) -> tuple[CapacityReservation, ...]:
    """Return the refuge reservations of an eviction: capacity that is kept until the scheduler places the binding."""
    request, ref = encoded(asked), binding.ref
    return tuple(
        CapacityReservation(
            f"{eviction_key(ref, cluster)}|refuge", str(ref), cluster, count, request, now, reserved=True
        )
        for cluster, count in wanted.items()
    )


def give_back(ledger: Ledger, fleet: Fleet, reserved: Iterable[CapacityReservation], *, times: int = 1) -> None:
    """Release in the ledger the capacity that is reserved for a binding, so that the binding itself may use it.

    `times` -1: reserve that capacity again.
    """
    for row in reserved:
        if row.cluster in fleet.index:
            counts = np.array([-times * row.replicas], dtype=np.int64)
            ledger.reserve(fleet.places([row.cluster]), counts, decoded(row.request))


def ledger(fleet: Fleet, reserved_capacity: Iterable[tuple[str, str, int]]) -> Ledger:
    """Return the ledger of the totals of `State.reserved_capacity`: (cluster, request, replicas)."""
    return Ledger.of(fleet, ((cluster, replicas, decoded(request)) for cluster, request, replicas in reserved_capacity))
