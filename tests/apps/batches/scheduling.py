"""Cases of the controllers that say where workloads run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from controlplane.apimachinery.meta import Condition, ObjectMeta, Ref
from controlplane.controllers.reads.concerned_bindings import ROOM
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.kinds import FEDERATED_QUOTA
from controlplane.kinds.binding import SCHEDULED, Binding
from controlplane.kinds.cluster import NamespaceQuota, ResourceSummary
from controlplane.kinds.rows import CapacityReservation, Collected, FleetNames, PlacementNote
from controlplane.kinds.workload_rebalancer import RebalancedWorkload, WorkloadRebalancer, WorkloadRebalancerSpec
from tests.apps.batches.stored import LONG_AGO, Case, bound, clusters, many, parts, refs, work_of
from tests.builders.objects import START
from tests.builders.placements import by_room


def rebalancer(size: int) -> Case:
    listed = tuple(RebalancedWorkload("apps/v1", "Deployment", name, "default") for name in many(size))
    asked = WorkloadRebalancer(
        "apps.karmada.io/v1alpha1",
        "WorkloadRebalancer",
        ObjectMeta(name="again", uid="uid-again", generation=1, creation_timestamp=START),
        WorkloadRebalancerSpec(listed),
    )
    return Case([asked, *bound(size, spare=2)], [asked.ref], size + 1)


def scheduler(size: int) -> Case:
    found = [one.with_status(conditions=(), scheduler_observed_generation=0) for one in bound(size)]
    return Case([*clusters("a", "b"), *found], refs(found), size)


def over_quota(size: int) -> Case:
    """A quota grew: all bindings of its namespace that wait for room in it are due."""
    refused = Condition(SCHEDULED, "False", "QuotaExceeded", "", START)
    found = [one.with_status(conditions=(refused,)) for one in bound(size)]
    return Case([*clusters("a"), *found], [Ref(FEDERATED_QUOTA, "default", "team")], size)


def scheduler_of_applications(size: int) -> Case:
    """Every other one is the other part of the application of the one before it."""
    found = parts([one.with_status(conditions=(), scheduler_observed_generation=0) for one in bound(size)])
    return Case([*clusters("a", "b"), *found], refs(found), size)


def scheduler_within_quotas(size: int) -> Case:
    """Each cluster has a ResourceQuota in the namespace of the bindings, and many in others."""
    quotas = tuple(NamespaceQuota(namespace, "team", {"cpu": "1000"}) for namespace in ("default", *many(size)))
    summary = ResourceSummary(allocatable={"pods": "1000", "cpu": "1000"}, namespace_quotas=quotas)
    divided = [one.with_spec(placement=by_room("a", "b")) for one in bound(size)]
    found = [one.with_status(conditions=(), scheduler_observed_generation=0) for one in divided]
    return Case([*clusters("a", "b", summary=summary), *found], refs(found), size)


def reservations(size: int) -> Case:
    found = clusters(*many(size))
    rows = [
        CapacityReservation(f"x|{name}", "work.karmada.io/ResourceBinding/default/x", name, 2, "", LONG_AGO)
        for name in many(size)
    ]
    return Case([*found, *rows], refs(found), size)


def reservations_of_what_runs(size: int) -> Case:
    """Every cluster reported after the reservation: whether the Works are applied is looked up."""
    found = clusters(*many(size))
    held = bound(size, **{found[0].metadata.name: 2})
    rows = [
        CapacityReservation(f"{one.ref}|{place.metadata.name}", str(one.ref), place.metadata.name, 2, "", LONG_AGO)
        for one, place in zip(held, found, strict=True)
    ]
    reports = [Collected(one.metadata.name, at=LONG_AGO + timedelta(minutes=1)) for one in found]
    applied = [work_of(one, place.metadata.name, applied=True) for one, place in zip(held, found, strict=True)]
    return Case([*found, *held, *applied, *rows, *reports], refs(found), size)


def fleet_names(size: int) -> Case:
    """Notes refer to none of them but the first."""
    lists = [FleetNames(name, "[]") for name in many(size)]
    spoken = PlacementNote("work.karmada.io/ResourceBinding/default/x", fleet=lists[0].key)
    return Case([*lists, spoken], [FLEET], size - 1)


def to_schedulable(size: int) -> Case:
    spare = clusters("spare")
    return Case([*spare, *(one for one in scheduler(size).stored if isinstance(one, Binding))], refs(spare), size)


def to_waiting(size: int) -> Case:
    refused = Condition(SCHEDULED, "False", "NoClusterFit", "", START)
    found = [
        one.with_status(conditions=(refused,), scheduler_observed_generation=one.metadata.generation)
        for one in bound(size)
    ]
    return Case([*clusters("spare"), *found], [Ref(ROOM, "", "spare")], size)


BATCHES: dict[str, Callable[[int], Case]] = {
    "rebalancer": rebalancer,
    "scheduler": scheduler,
    "scheduler of applications": scheduler_of_applications,
    "scheduler within quotas of members": scheduler_within_quotas,
    "reservations": reservations,
    "reservations of what runs": reservations_of_what_runs,
    "fleet_names": fleet_names,
}

FAN_OUTS: dict[str, Callable[[int], Case]] = {
    "scheduler": to_schedulable,
    "scheduler where room is": to_waiting,
    "scheduler where a quota has room": over_quota,
}
