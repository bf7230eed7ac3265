"""ApplicationFailover: evicts copies that have been unhealthy for longer than their policy tolerates.

The policy sets it in `spec.failover.application` [application-failover]. The Failover gate plays no part in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads.binding_groups import applications
from controlplane.engine.controller import Controller, Ownership, cursor_after, page
from controlplane.engine.decision import Decision, Drop, Event, Put, Save
from controlplane.engine.state import State, Watch
from controlplane.eviction.application_failover import (
    ApplicationFailoverDecision,
    decide_application_failover,
    workload_version,
)
from controlplane.eviction.colocated_failover import (
    ClustersLeft,
    application_to_follow,
    clusters_to_follow_from,
    with_following_tasks,
)
from controlplane.eviction.purge import in_one_edit
from controlplane.kinds import BINDINGS, RESOURCE_BINDING
from controlplane.kinds.binding import Binding
from controlplane.kinds.binding.colocation_index import application
from controlplane.kinds.binding.origin import with_departures
from controlplane.kinds.rows import UnhealthyCopies
from controlplane.propagation.bindings import template_ref
from controlplane.settings import Settings

RETRY = timedelta(seconds=30)
PARTS = "Parts"  # kind of a fan-out origin: an application of which one part was evicted from a cluster


class ApplicationFailoverSnapshot(msgspec.Struct, frozen=True):
    """A binding with what is stored about its unhealthy copies, and the other parts of its application."""

    subject: Binding
    row: UnhealthyCopies  # since when which copies are unhealthy, and the clusters they were evicted from
    version: str = ""  # digest of the workload that is to run
    parts: Sequence[Binding] = ()  # the bindings of the same application
    moves: ClustersLeft = {}  # the clusters that each part was evicted from


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
        rows=(UnhealthyCopies,),
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
        return [
            self._snapshot(bindings[ref], rows, versions.get(ref, ""), parts) if ref in bindings else None
            for ref in refs
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

    def decide(
        self, snapshot: ApplicationFailoverSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        old = snapshot.subject
        if old.metadata.deletion_timestamp is not None:
            return Decision()
        stored = snapshot.row
        if stored.version not in ("", snapshot.version):
            stored = UnhealthyCopies(stored.key)  # the health of another version says nothing about this one
        found = decide_application_failover(old, stored.since, settings, moves=stored.moves, now=now)
        new, missing_for_parts = with_following_tasks(
            found.binding, clusters_to_follow_from(found.binding, snapshot.parts, snapshot.moves), settings, now=now
        )
        missing = found.missing | missing_for_parts
        rows: tuple[Save | Drop, ...] = ()
        row = UnhealthyCopies(snapshot.row.key, found.since, snapshot.version, found.left)
        if not found.since and not found.left:
            rows = (Drop(row),) if snapshot.row.since or snapshot.row.moves else ()
        elif row != snapshot.row:
            rows = (Save(row),)
        wakes = [found.wake_at] if found.wake_at is not None else []
        wakes += [now + RETRY] if missing else []
        return Decision(
            changes=(
                *((Put(with_departures(in_one_edit(old, new), old, now=now), old),) if new is not old else ()),
                *rows,
            ),
            events=(*_eviction_events(old, new), *_held_events(old, missing), *_stopped_events(old, found)),
            wake_at=min(wakes, default=None),
            reason="ApplicationFailover",
        )


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


def _held_events(old: Binding, missing: dict[str, str]) -> Iterable[Event]:
    for name, problem in sorted(missing.items()):
        message = f"stays on cluster {name} although unhealthy, because the state to carry over is missing: {problem}"
        yield Event(old, "EvictionHeld", message, warning=True)
