"""ApplicationFailover: evicts copies that have been unhealthy for longer than their policy tolerates.

The policy sets it in `spec.failover.application` [application-failover]. The Failover gate plays no part in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads.binding_groups import applications, workload_groups
from controlplane.controllers.reads.bindings_on_clusters import works_of
from controlplane.controllers.reads.fleet_state import observations_of
from controlplane.engine.controller import Controller, Ownership, cursor_after, page
from controlplane.engine.decision import Decision, Drop, Event, Put, Save
from controlplane.engine.state import ReservedCapacity, State, Watch
from controlplane.eviction.application_failover import (
    NOT_PROBED,
    ApplicationFailoverDecision,
    decide_application_failover,
    is_version,
    workload_version,
)
from controlplane.eviction.application_refuge import ApplicationRefuge
from controlplane.eviction.colocated_failover import (
    ClustersLeft,
    application_to_follow,
    clusters_to_follow_from,
    with_following_tasks,
)
from controlplane.eviction.purge import in_one_edit
from controlplane.eviction.refuge import Reservation
from controlplane.eviction.scheduler_dry_run import SchedulerDryRun
from controlplane.insight.failure_outlook import Situation, dry_run_of
from controlplane.kinds import BINDINGS, CLUSTER, RESOURCE_BINDING
from controlplane.kinds.binding import UNHEALTHY, Binding
from controlplane.kinds.binding.colocation_index import application
from controlplane.kinds.binding.origin import with_departures
from controlplane.kinds.rows import CapacityReservation, Observation, PlacementHint, UnhealthyCopies
from controlplane.propagation.aggregation import aggregated
from controlplane.propagation.bindings import template_ref
from controlplane.scheduling.batch import may_depend_on_capacity
from controlplane.scheduling.ledger import RESERVATION_EXPIRY
from controlplane.scheduling.reserved_refuge import hinted
from controlplane.settings import Settings

RETRY = timedelta(seconds=30)
LONGEST_RETRY = timedelta(seconds=300)
RETRIES_PER_WAIT = 10  # a copy without a refuge is checked again after the time it has been unhealthy, divided by this
PARTS = "Parts"  # kind of a fan-out origin: an application of which one part was evicted from a cluster


class ApplicationFailoverSnapshot(msgspec.Struct, frozen=True):
    """A binding with what is stored about its unhealthy copies, and the other parts of its application.

    `situation` None: no copy of the binding may be evicted now, so that the scheduler is not asked. `dry_run`: the one
    of the batch, so that two bindings do not count on the same capacity; None: `decide` makes one. `observations`: of
    the clusters of its unhealthy copies. `outdated`: clusters whose copies are not unhealthy by the reports in their
    Works, which the status of the binding does not have yet.
    """

    subject: Binding
    row: UnhealthyCopies  # since when which copies are unhealthy, and the clusters they were evicted from
    version: str = ""  # digest of the workload that is to run
    parts: Sequence[Binding] = ()  # the bindings of the same application
    moves: ClustersLeft = {}  # the clusters that each part was evicted from
    situation: Situation | None = None
    dry_run: SchedulerDryRun | None = None
    observations: Mapping[str, Observation] = NOT_PROBED
    outdated: Collection[str] = ()

    @property
    def may_leave(self) -> bool:
        """Whether a copy may be due: it was unhealthy before, or it follows another part."""
        binding = self.subject
        counted = (name for name in self.row.since if binding.spec.target(name) and not binding.spec.task(name))
        return any(counted) or bool(clusters_to_follow_from(binding, self.parts, self.moves))


def _has_application_failover(binding: Binding | None) -> bool:
    return binding is not None and binding.spec.failover is not None and binding.spec.failover.application is not None


def _binding_changed(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    """A binding with application failover is due when its spec or the reported health of its copies changed."""
    if new is None or not (_has_application_failover(new) or _has_application_failover(old)):
        return ()
    same = old is not None and old.spec == new.spec
    same = same and old is not None and old.status.aggregated_status == new.status.aggregated_status
    return () if same else (new.ref,)


def _part_left(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    """The parts of an application are due when one of them was evicted as unhealthy and has a new place."""
    if (
        new is None
        or not new.spec.graceful_eviction_tasks
        or not _has_application_failover(new)
        or (old and old.spec == new.spec)
    ):
        return ()
    key = application_to_follow(new)
    return (Ref(PARTS, "", key),) if key else ()


class ApplicationFailover(Controller):
    """Key: a binding. Writes its clusters and eviction tasks. The Failover gate has no effect here [failover-gate]."""

    name = "application_failover"
    group = "scheduling"
    keys = BINDINGS
    watches = (
        *(Watch(kind, _binding_changed) for kind in BINDINGS),
        Watch(RESOURCE_BINDING, _part_left, fan_out=True),
    )
    owns = Ownership(
        dict.fromkeys(BINDINGS, ("spec.clusters", "spec.graceful_eviction_tasks", "metadata.annotations")),
        rows=(UnhealthyCopies, CapacityReservation, PlacementHint),
    )

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return the bindings that are parts of an application."""
        found = state.refs_by_index(RESOURCE_BINDING, "together", origin.name, after=cursor_after(after), limit=limit)
        return page(found, limit=limit)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[ApplicationFailoverSnapshot | None]:
        bindings = state.get(refs)
        parts = applications(
            state,
            (binding for binding in bindings.values() if _has_application_failover(binding) and binding.spec.clusters),
        )
        part_refs = {part.ref for ones in parts.values() for part in ones}
        rows = state.rows(UnhealthyCopies, "key", sorted(str(ref) for ref in part_refs | bindings.keys()))
        templates = state.get([template_ref(binding) for binding in bindings.values()])
        versions = {
            ref: workload_version(templates.get(template_ref(binding)))
            for ref, binding in bindings.items()
            if _has_application_failover(binding)
        }
        snapshots = [
            self._snapshot(bindings[ref], rows, versions.get(ref, ""), parts) if ref in bindings else None
            for ref in refs
        ]
        asking = [snapshot.subject for snapshot in snapshots if snapshot is not None and snapshot.may_leave]
        if not asking:
            return snapshots
        situation = _situation(state, asking, parts)
        names = {target.name for binding in asking for target in binding.spec.clusters}
        observations, outdated = observations_of(state, sorted(names)), _outdated(state, asking)
        return [
            replace(
                snapshot,
                situation=situation,
                observations=observations,
                outdated=outdated.get(str(snapshot.subject.ref), ()),
            )
            if snapshot is not None and snapshot.may_leave
            else snapshot
            for snapshot in snapshots
        ]

    def _snapshot(
        self,
        binding: Binding,
        rows: Mapping[str, Sequence[UnhealthyCopies]],
        version: str,
        applications: Mapping[str, Sequence[Binding]],
    ) -> ApplicationFailoverSnapshot:
        def row(part: Binding) -> UnhealthyCopies:
            return next(iter(rows.get(str(part.ref), ())), UnhealthyCopies(str(part.ref)))

        parts = applications.get(application(binding), ())
        return ApplicationFailoverSnapshot(
            binding, row(binding), version, parts, {str(part.ref): tuple(row(part).moves) for part in parts}
        )

    def decide_all(
        self,
        snapshots: Sequence[ApplicationFailoverSnapshot],
        settings: Settings,
        *,
        now: datetime,
        answer: Any = None,
    ) -> list[Decision | Exception]:
        """Return the decisions. What one of them reserves is not free for the next."""
        situation = next((one.situation for one in snapshots if one.situation is not None), None)
        if situation is not None:
            dry_run = dry_run_of(situation, settings)
            snapshots = [replace(snapshot, dry_run=dry_run) for snapshot in snapshots]
        return super().decide_all(snapshots, settings, now=now, answer=answer)

    def decide(
        self, snapshot: ApplicationFailoverSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        old = snapshot.subject
        if old.metadata.deletion_timestamp is not None:
            return Decision()
        stored = snapshot.row
        if not is_version(stored.version, snapshot.version):
            stored = UnhealthyCopies(stored.key)  # the health of another version says nothing about this one
        refuge = _refuge(snapshot, settings, now=now)
        find = None if refuge is None else refuge.find
        found = decide_application_failover(
            old,
            stored.since,
            settings,
            moves=stored.moves,
            find_refuge=find,
            observations=snapshot.observations,
            outdated=snapshot.outdated,
            now=now,
        )
        follow = clusters_to_follow_from(found.binding, snapshot.parts, snapshot.moves)
        new, missing, held = with_following_tasks(found.binding, follow, settings, find_refuge=find, now=now)
        missing, held = found.missing | missing, found.held | held
        reserved = Reservation() if refuge is None or new is old else refuge.reserve()
        left = old if new is old else with_departures(in_one_edit(old, new), old, now=now)
        rows: tuple[Save | Drop, ...] = ()
        row = UnhealthyCopies(snapshot.row.key, found.since, snapshot.version, found.left)
        if not found.since and not found.left:
            rows = (Drop(row),) if snapshot.row.since or snapshot.row.moves else ()
        elif row != snapshot.row:
            rows = (Save(row),)
        wakes = [found.wake_at] if found.wake_at is not None else []
        wakes += [now + RETRY] if missing else []
        wakes += [now + _retry_after(found.since.get(name, now), now=now) for name in held]
        return Decision(
            changes=(
                *((Put(left, old),) if left is not old else ()),
                *rows,
                *map(Save, reserved.reservations),
                *hinted(left, reserved.steered_to),
            ),
            events=(*_eviction_events(old, new), *_held_events(old, missing, held), *_stopped_events(old, found)),
            capacity_guards=reserved.capacity_guards,
            wake_at=min(wakes, default=None),
            reason="ApplicationFailover",
        )


def _situation(state: State, bindings: Sequence[Binding], parts: Mapping[str, Sequence[Binding]]) -> Situation:
    """Return the state of the fleet that refuges of these bindings depend on."""
    needs_capacity = any(may_depend_on_capacity(binding.spec) for binding in bindings)
    names = sorted(str(binding.ref) for binding in bindings)
    return Situation(
        tuple(state.list(CLUSTER)),
        reserved_capacity=state.reserved_capacity(within=RESERVATION_EXPIRY, bindings=names)
        if needs_capacity
        else ReservedCapacity(),
        applications=parts,
        groups=workload_groups(state, bindings),
    )


def _outdated(state: State, bindings: Iterable[Binding]) -> dict[str, frozenset[str]]:
    """Return by binding the clusters whose copies are not unhealthy by the last report in their Works.

    The status of the binding is written later than the Works: after an outage it may be as old as the outage is long.
    """
    found = works_of(state, {binding.ref: binding for binding in bindings})
    return {
        name: frozenset(item.cluster_name for item in aggregated(own) if item.health != UNHEALTHY)
        for name, own in found.items()
    }


def _refuge(snapshot: ApplicationFailoverSnapshot, settings: Settings, *, now: datetime) -> ApplicationRefuge | None:
    """Return what finds the refuge of the binding; None: no copy may be evicted now."""
    situation = snapshot.situation
    if situation is None:
        return None
    clusters = {cluster.metadata.name: cluster for cluster in situation.clusters}
    dry_run = snapshot.dry_run or dry_run_of(situation, settings)
    return ApplicationRefuge(snapshot.subject, dry_run, clusters, settings, now=now)


def _retry_after(since: datetime, *, now: datetime) -> timedelta:
    """Return how long to wait before a refuge is sought again. No change of the binding reports a free cluster.

    The wait grows with the time that the copy has been unhealthy.
    """
    return max(RETRY, min((now - since) / RETRIES_PER_WAIT, LONGEST_RETRY))


def _eviction_events(old: Binding, new: Binding) -> Iterable[Event]:
    for task in new.spec.graceful_eviction_tasks:
        if old.spec.task(task.from_cluster) is None:
            why = task.message or "the application is unhealthy there"
            message = f"evicted from cluster {task.from_cluster}: {why}"
            yield Event(old, "EvictWorkloadFromClusterSucceed", message)


def _stopped_events(binding: Binding, found: ApplicationFailoverDecision) -> Iterable[Event]:
    for name in found.stays:
        message = (
            f"stays on cluster {name} although it is unhealthy there: this version was unhealthy on "
            f"{', '.join(found.left)} too and is not moved again before all its copies are healthy; "
            "to move it earlier, change the spec of the workload"
        )
        yield Event(binding, "ApplicationFailoverStopped", message, warning=True)


def _held_events(old: Binding, missing: Mapping[str, str], held: Mapping[str, str]) -> Iterable[Event]:
    """Yield why copies stay. `missing`: their state could not be read. `held`: there is no refuge."""
    for name, problem in sorted(missing.items()):
        message = f"stays on cluster {name} although unhealthy, because the state to carry over is missing: {problem}"
        yield Event(old, "EvictionHeld", message, warning=True)
    for name, why in sorted(held.items()):
        message = f"stays on cluster {name}, because no other cluster can take the copy: {why}"
        yield Event(old, "EvictionHeld", message, warning=True)
