"""Begun failovers: what one change of a binding says about a failover, without reading the changes after it.

A list of failovers is made from these, because a whole record needs all changes of its binding.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from controlplane.apimachinery.meta import Ref, Struct
from controlplane.insight import record
from controlplane.insight.record import DecodedChange
from controlplane.kinds.binding import Binding, ObjectReference, TargetCluster

OUTAGE_GAP = timedelta(minutes=30)
"""Failovers from one cluster with a longer pause between them belong to different outages."""


class Begun(Struct, frozen=True):
    """A failover as it began. `reason`: of its first task. `left`: clusters that it leaves; `before`: all targets."""

    name: str  # of the FailoverRecord
    binding: Ref
    version: int
    at: datetime
    resource: ObjectReference
    reason: str
    left: tuple[str, ...]
    created_at: tuple[datetime | None, ...]  # of the task of each cluster of `left`
    before: tuple[TargetCluster, ...]

    @property
    def namespace(self) -> str:
        """The namespace of the FailoverRecord."""
        return self.binding.namespace or record.EVENTS_NAMESPACE


class Outage(Struct, frozen=True):
    """Failovers from one cluster that followed each other."""

    cluster: str
    since: datetime
    until: datetime
    failover_count: int


def begun_failover(change: DecodedChange) -> Begun | None:
    """Return the failover that a change of a binding began; None: it began none."""
    tasks = record.new_tasks(change)
    if not tasks:
        return None
    old: Binding = change.old
    return Begun(
        name=record.record_name(change.change.ref.name, change.change.version),
        binding=change.change.ref,
        version=change.change.version,
        at=change.change.at,
        resource=old.spec.resource,
        reason=tasks[0].reason,
        left=tuple(task.from_cluster for task in tasks),
        created_at=tuple(task.creation_timestamp for task in tasks),
        before=old.spec.clusters,
    )


def outages(failovers: Iterable[Begun]) -> tuple[Outage, ...]:
    """Return the outages that failovers belong to, newest first.

    An outage is of one cluster. A failover belongs to the last outage of its cluster if it began at most OUTAGE_GAP
    after the failover before it.
    """
    open_: dict[str, Outage] = {}
    done: list[Outage] = []
    for failover in sorted(failovers, key=lambda failover: failover.at):
        for cluster in failover.left:
            last = open_.get(cluster)
            if last is not None and failover.at - last.until <= OUTAGE_GAP:
                open_[cluster] = Outage(cluster, last.since, failover.at, last.failover_count + 1)
                continue
            if last is not None:
                done.append(last)
            open_[cluster] = Outage(cluster, failover.at, failover.at, 1)
    return tuple(sorted((*done, *open_.values()), key=lambda outage: (outage.since, outage.cluster), reverse=True))
