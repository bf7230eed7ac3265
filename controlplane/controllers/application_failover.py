"""ApplicationFailover: lets copies leave that have been unhealthy for too long, by their policy (semantics 2.12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads.applications import applications
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
from controlplane.kinds import BINDINGS, RESOURCE_BINDING
from controlplane.kinds.binding import Binding
from controlplane.kinds.binding.colocation_index import application
from controlplane.kinds.binding.origin import with_departures
from controlplane.kinds.rows import UnhealthyCopies
from controlplane.propagation.bindings import template_ref
from controlplane.settings import Settings

RETRY = timedelta(seconds=30)


PARTS = "Parts"  # kind of a fan-out origin: an application one part of which has left a cluster


class Ailing(msgspec.Struct, frozen=True):
    """A binding, since when which of its copies are unhealthy, which version of its workload is to run, the parts of
    its application and the clusters they left."""

    subject: Binding
    row: UnhealthyCopies
    version: str = ""
    parts: Sequence[Binding] = ()
    moves: ClustersLeft = {}


def _asks(binding: Binding | None) -> bool:
    return binding is not None and binding.spec.failover is not None and binding.spec.failover.application is not None


def _binding_changed(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    if new is None or not (_asks(new) or _asks(old)):
        return ()
    same = old is not None and old.spec == new.spec
    same = same and old is not None and old.status.aggregated_status == new.status.aggregated_status
    return () if same else (new.ref,)


def _part_left(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    """The parts of an application are due when one of them has left a cluster for being ill there, and has a place."""
    if new is None or not new.spec.graceful_eviction_tasks or not _asks(new) or (old and old.spec == new.spec):
        return ()
    found = application_to_follow(new)
    return (Ref(PARTS, "", found),) if found else ()


class ApplicationFailover(Controller):
    """Key: a binding. Independent of the gate Failover (D17)."""

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
        """Return the parts of an application."""
        found = state.refs_by_index(RESOURCE_BINDING, "together", origin.name, after=cursor_after(after), limit=limit)
        return page(found, limit=limit)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Ailing | None]:
        bindings = state.get(refs)
        parts = applications(state, (one for one in bindings.values() if _asks(one) and one.spec.clusters))
        near = {part.ref for ones in parts.values() for part in ones}
        rows = state.rows(UnhealthyCopies, "key", sorted(str(ref) for ref in near | bindings.keys()))
        templates = state.get([template_ref(binding) for binding in bindings.values()])
        versions = {
            ref: workload_version(templates.get(template_ref(one))) for ref, one in bindings.items() if _asks(one)
        }
        return [
            self._ailing(bindings[ref], rows, versions.get(ref, ""), parts) if ref in bindings else None for ref in refs
        ]

    def _ailing(
        self,
        binding: Binding,
        rows: Mapping[str, Sequence[UnhealthyCopies]],
        version: str,
        applications: Mapping[str, Sequence[Binding]],
    ) -> Ailing:
        def row(one: Binding) -> UnhealthyCopies:
            return next(iter(rows.get(str(one.ref), ())), UnhealthyCopies(str(one.ref)))

        parts = applications.get(application(binding), ())
        return Ailing(binding, row(binding), version, parts, {str(one.ref): tuple(row(one).moves) for one in parts})

    def decide(self, snapshot: Ailing, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        old = snapshot.subject
        if old.metadata.deletion_timestamp is not None:
            return Decision()
        stored = snapshot.row
        if stored.version not in ("", snapshot.version):
            stored = UnhealthyCopies(stored.key)  # another version: what is known of the last one says nothing of it
        found = decide_application_failover(old, stored.since, settings, moves=stored.moves, now=now)
        new, lacking = with_following_tasks(
            found.binding, clusters_to_follow_from(found.binding, snapshot.parts, snapshot.moves), settings, now=now
        )
        missing = found.missing | lacking
        rows: tuple[Save | Drop, ...] = ()
        row = UnhealthyCopies(snapshot.row.key, found.since, snapshot.version, found.left)
        if not found.since and not found.left:
            rows = (Drop(row),) if snapshot.row.since or snapshot.row.moves else ()
        elif row != snapshot.row:
            rows = (Save(row),)
        wakes = [found.wake_at] if found.wake_at is not None else []
        wakes += [now + RETRY] if missing else []
        return Decision(
            changes=(*((Put(with_departures(_once(old, new), old, now=now), old),) if new is not old else ()), *rows),
            events=(*_told_left(old, new), *_told_missing(old, missing), *_told_stays(old, found)),
            wake_at=min(wakes, default=None),
            reason="ApplicationFailover",
        )


def _once(old: Binding, new: Binding) -> Binding:
    """Return the change as one: leaving several clusters together raises the generation once."""
    return old.with_spec(clusters=new.spec.clusters, graceful_eviction_tasks=new.spec.graceful_eviction_tasks)


def _told_left(old: Binding, new: Binding) -> Iterable[Event]:
    for task in new.spec.graceful_eviction_tasks:
        if old.spec.task(task.from_cluster) is None:
            why = task.message or "the application is unhealthy there"
            message = f"evicted from cluster {task.from_cluster}: {why}"
            yield Event(old, "EvictWorkloadFromClusterSucceed", message)


def _told_stays(binding: Binding, found: ApplicationFailoverDecision) -> Iterable[Event]:
    for name in found.stays:
        message = (
            f"stays on cluster {name} although unhealthy: this version was so on {', '.join(found.left)} too and "
            "does not move any more; it may again once its copies are healthy, or the spec of the workload is another"
        )
        yield Event(binding, "ApplicationFailoverStopped", message, warning=True)


def _told_missing(old: Binding, missing: dict[str, str]) -> Iterable[Event]:
    for name, problem in sorted(missing.items()):
        message = f"stays on cluster {name} although unhealthy, because state is missing (D15): {problem}"
        yield Event(old, "EvictionHeld", message, warning=True)
