"""What bindings use of the FederatedResourceQuotas of their namespace, and whether more would exceed a quota
[federated-quotas].

Amounts are whole numbers in the units of requests: cpu in thousandths, everything else in whole units.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Final

from controlplane.apimachinery.meta import Struct, to_seconds
from controlplane.apimachinery.quantities import NANO, Quantity, QuantityError
from controlplane.estimate.request import CPU, bundle_of, request_of
from controlplane.kinds.binding import (
    EVICTED,
    Binding,
    GracefulEvictionTask,
    ResourceBindingSpec,
    TargetCluster,
    origin,
)
from controlplane.kinds.federated_quota import FederatedResourceQuota, amount, counted_as, shown
from controlplane.kinds.rows import CapacityReservation

Use = Mapping[str, int]
NO_USE: Final[Use] = {}
DENIED: Final = 'admission webhook "resourcebinding.karmada.io" denied the request: '
"""What begins the message of an Event about a binding that a quota refuses, as tools for Karmada look for it."""


class Excess(Struct, frozen=True):
    """A quota that a binding would exceed, with amounts by resource as texts."""

    quota: str
    requested: Mapping[str, Quantity]
    used: Mapping[str, Quantity]
    limited: Mapping[str, Quantity]

    def __str__(self) -> str:
        amounts = f"requested: {shown(self.requested)}, used: {shown(self.used)}, limited: {shown(self.limited)}"
        return f"exceeded quota: {self.quota}, {amounts}"


def use_of(binding: Binding | None) -> Use:
    """Return what the replicas of a binding request on all its clusters together. None: nothing.

    Replicas that were evicted and wait for a place count (`counted_replicas`). A copy that is still to be removed does
    not: its replicas are placed again elsewhere, or wait.
    """
    if binding is None or not binding.metadata.namespace:
        return NO_USE
    count = counted_replicas(binding)
    return _use(binding.spec, count) if count else NO_USE


def counted_replicas(binding: Binding) -> int:
    """Return how many replicas, or sets of components, of a binding count: those placed, and those known to wait.

    A binding waits if it has less than before its last eviction. Replicas that the workload does not ask for any more
    do not wait. The result depends on nothing but the binding, because the stores add up its changes.
    """
    placed = _placed(binding)
    return max(placed, _still_wanted(binding, origin.had(binding))) if origin.waits(binding) else placed


def _still_wanted(binding: Binding, had: int) -> int:
    """Return how many replicas, or sets of components, a binding asks for of those it had before its last eviction."""
    spec = binding.spec
    if spec.components:
        return had
    if spec.placement is not None and spec.placement.divided:
        return min(had, spec.replicas)
    each = origin.replicas_of_each(binding) or 1  # not known: as many copies as possible
    return min(had, -(-had // each) * spec.replicas)


def use_of_evicted(binding: Binding, reserved: Collection[CapacityReservation], leaving: Collection[str] = ()) -> Use:
    """Return what the copies request that were evicted, are not placed again yet (`evicted_replicas`), and do not count
    as used.

    The replicas of these copies are placed again, which is no growth.
    """
    counted = counted_replicas(binding) - _placed(binding)
    return _use(binding.spec, evicted_replicas(binding, reserved, leaving) - counted)


def evicted_replicas(binding: Binding, reserved: Collection[CapacityReservation], leaving: Collection[str] = ()) -> int:
    """Return how many replicas, or sets of components, were evicted and are not placed again yet.

    Copies leave lost clusters, clusters where they are unhealthy, and clusters that a Drain empties. The result is
    what the binding has less than before its last eviction, also if the tasks have ended, for example because the lost
    clusters were removed. If that is not known, it is at most what the evictions have reserved, until a refusal ends
    the reservations. `reserved`: the refuge reservations of the binding. `leaving`: targets that the binding is still
    to be evicted from.
    """
    count = len if binding.spec.components else _sum_of_replicas
    waits, had = origin.waits(binding), origin.had(binding)
    if waits and had:
        return max(0, had - count(binding.spec.clusters))
    tasks = [task for task in _evicted(binding) if waits or not origin.placed_again(binding, task.from_cluster)]
    if not tasks:
        return 0
    last_result = binding.status.last_scheduled_time
    waiting = [task for task in tasks if _made_after(task, last_result) or origin.is_noted(binding, task.from_cluster)]
    unsure = [task for task in tasks if task not in waiting and _made_with(task, last_result, reserved)]
    staying = [target for target in binding.spec.clusters if target.name in leaving]
    # What is reserved for targets that are still to be left is no sign that the copy of an unsure task is not placed.
    more = min(count(unsure), max(0, count(reserved) - count(staying)))
    return min(count(waiting) + more, max(0, had - count(binding.spec.clusters)) if had else count(reserved))


def _evicted(binding: Binding) -> list[GracefulEvictionTask]:
    """Return the tasks of copies that the scheduler places again."""
    return [task for task in binding.spec.graceful_eviction_tasks if task.reason in EVICTED]


def _sum_of_replicas(ones: Collection[GracefulEvictionTask | TargetCluster | CapacityReservation]) -> int:
    return sum([one.replicas or 0 for one in ones])


def _made_after(task: GracefulEvictionTask, last_result: datetime | None) -> bool:
    """Test whether there was no complete result of the scheduler since an eviction: its copy is not placed again."""
    at = task.creation_timestamp
    return at is None or last_result is None or at > last_result


def _made_with(
    task: GracefulEvictionTask, last_result: datetime | None, reserved: Collection[CapacityReservation]
) -> bool:
    """Test whether an eviction and the last complete result have the same time, and reservations of the eviction are
    left. Times of tasks and results are in whole seconds, so the result may be that before the eviction."""
    at = task.creation_timestamp
    if at is None or at != last_result:
        return False
    return any(row.made_at is not None and to_seconds(row.made_at) <= at for row in reserved)


def replicas_before(binding: Binding, evicted: int) -> int:
    """Return how many replicas a binding asked for when it was placed last, of which so many were evicted since.

    A user may have asked for more replicas since then, which a quota refuses. 0: no replicas were evicted, or the
    workload has components, whose sets do not grow.
    """
    spec = binding.spec
    if evicted <= 0 or spec.components:
        return 0
    if spec.placement is not None and spec.placement.divided:
        return evicted + _replicas(spec)
    if origin.waits(binding) and (each := origin.replicas_of_each(binding)):
        return each
    copies = [task.replicas or 0 for task in _evicted(binding)] or [target.replicas for target in spec.clusters]
    return max(copies or origin.replicas_of_copies(binding), default=0)


def _use(spec: ResourceBindingSpec, count: int) -> Use:
    """Return what so many replicas request, or so many sets of components."""
    try:
        each = bundle_of(spec.components).total if spec.components else request_of(spec.replica_requirements)
    except QuantityError:
        return NO_USE  # written by a user who is no controller: it is not scheduled either
    return {resource: number * count for resource, number in each.amounts} if count > 0 else NO_USE


def total(one: Use, other: Use) -> Use:
    """Return what two uses are together."""
    return {resource: one.get(resource, 0) + other.get(resource, 0) for resource in {*one, *other}}


def difference(new: Use, old: Use) -> Use:
    """Return by how much one use is larger than another, without resources of which they use as much."""
    found = {resource: new.get(resource, 0) - old.get(resource, 0) for resource in {*old, *new}}
    return {resource: change for resource, change in found.items() if change}


def changes(before: Binding | None, after: Binding | None) -> Use:
    """Return by how much the use of a namespace changes when a binding changes. None: it does not exist then."""
    if before is not None and after is not None and _same_use(before, after):
        return NO_USE
    return difference(use_of(after), use_of(before))


def _same_use(before: Binding, after: Binding) -> bool:
    """Test whether nothing changed that the use depends on.

    Most writes are writes of a status. A placement that moves as many replicas to other clusters uses as much.
    """
    old, new = before.spec, after.spec
    if origin.is_known(before) or origin.is_known(after):
        seen, now_seen = before.status.scheduler_observed_generation, after.status.scheduler_observed_generation
        return old is new and seen == now_seen and before.metadata.annotations == after.metadata.annotations
    return old is new or (
        len(old.clusters) == len(new.clusters)
        and (bool(new.components) or _replicas(old) == _replicas(new))
        and old.replica_requirements == new.replica_requirements
        and old.components == new.components
    )


def _placed(binding: Binding) -> int:
    """Return how many replicas, or sets of components, are placed."""
    return len(binding.spec.clusters) if binding.spec.components else _replicas(binding.spec)


def _replicas(spec: ResourceBindingSpec) -> int:
    return sum([target.replicas for target in spec.clusters])


def excess(quotas: Iterable[FederatedResourceQuota], used: Use, more: Use) -> Excess | None:
    """Return the first quota, by name, that `more` would exceed; None: there is room in all of them.

    A resource whose use does not grow is not checked, so a namespace over its quota may still shrink.
    """
    for quota in sorted(quotas, key=lambda quota: quota.metadata.name):
        if quota.metadata.deletion_timestamp is not None:
            continue
        over = [name for name in sorted(quota.spec.overall) if _is_over(quota, name, used, more)]
        if over:
            limited = {name: amount(quota.spec.overall[name]) for name in over}
            return Excess(
                quota.metadata.name,
                {name: _quantity(name, more, limited[name]) for name in over},
                {name: _quantity(name, used, limited[name]) for name in over},
                limited,
            )
    return None


def most(quotas: Iterable[FederatedResourceQuota], more: Use) -> dict[str, int]:
    """Return how much a namespace may use under its quotas, of each resource of which it is to use more."""
    found: dict[str, int] = {}
    for quota in quotas:
        if quota.metadata.deletion_timestamp is not None:
            continue
        for name, text in quota.spec.overall.items():
            counted = counted_as(name)
            if counted is not None and more.get(counted, 0) > 0:
                limit = amount(text).nano // _nano(counted)
                found[counted] = min(limit, found.get(counted, limit))
    return found


def _is_over(quota: FederatedResourceQuota, name: str, used: Use, more: Use) -> bool:
    limit, counted = amount(quota.spec.overall[name]), counted_as(name)
    if counted is None or more.get(counted, 0) <= 0:
        return False
    return _quantity(name, used, limit) + _quantity(name, more, limit) > limit


def _quantity(name: str, use: Use, like: Quantity) -> Quantity:
    """Return the use of a resource of a quota, in the format of its limit."""
    counted = counted_as(name)
    number = 0 if counted is None else use.get(counted, 0)
    return Quantity(number * _nano(counted), like.format)


def _nano(counted: str | None) -> int:
    """Return how many billionths one counted unit has. CPU is counted in thousandths, everything else in units."""
    return NANO // 1000 if counted == CPU else NANO


def overall_used(quota: FederatedResourceQuota, used: Use) -> dict[str, str]:
    """Return what a namespace uses of each resource of a quota, as its status shows it. Unused ones are left out."""
    found = {name: _quantity(name, used, amount(text)) for name, text in sorted(quota.spec.overall.items())}
    return {name: str(quantity) for name, quantity in found.items() if quantity.sign() > 0}
