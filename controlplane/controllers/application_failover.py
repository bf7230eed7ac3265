"""ApplicationFailover: lets copies leave that have been unhealthy for too long, by their policy (semantics 2.12)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from controlplane.bindings import template_ref
from controlplane.controllers.controller import Controller, Ownership
from controlplane.decision import Decision, Drop, Event, Put, Save
from controlplane.eviction.application import Course, course, version
from controlplane.kinds import BINDINGS
from controlplane.kinds.binding import Binding
from controlplane.kinds.home import departed
from controlplane.kinds.rows import AilingCopies
from controlplane.meta import Ref
from controlplane.settings import Settings
from controlplane.state import State, Watch

RETRY = timedelta(seconds=30)


class Ailing(msgspec.Struct, frozen=True):
    """A binding, since when which of its copies are unhealthy, and which version of its workload is to run."""

    subject: Binding
    row: AilingCopies
    version: str = ""


def _asks(binding: Binding | None) -> bool:
    return binding is not None and binding.spec.failover is not None and binding.spec.failover.application is not None


def _binding_changed(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    if new is None or not (_asks(new) or _asks(old)):
        return ()
    same = old is not None and old.spec == new.spec
    same = same and old is not None and old.status.aggregated_status == new.status.aggregated_status
    return () if same else (new.ref,)


class ApplicationFailover(Controller):
    """Key: a binding. Independent of the gate Failover (D17)."""

    name = "application_failover"
    group = "scheduling"
    keys = BINDINGS
    watches = tuple(Watch(kind, _binding_changed) for kind in BINDINGS)
    owns = Ownership(
        dict.fromkeys(BINDINGS, ("spec.clusters", "spec.graceful_eviction_tasks", "metadata.annotations")),
        rows=(AilingCopies,),
    )

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Ailing | None]:
        bindings = state.get(refs)
        rows = state.rows(AilingCopies, "key", [str(ref) for ref in bindings])
        templates = state.get([template_ref(binding) for binding in bindings.values()])
        versions = {ref: version(templates.get(template_ref(one))) for ref, one in bindings.items() if _asks(one)}
        return [
            Ailing(bindings[ref], next(iter(rows.get(str(ref), ())), AilingCopies(str(ref))), versions.get(ref, ""))
            if ref in bindings
            else None
            for ref in refs
        ]

    def decide(self, snapshot: Ailing, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        old = snapshot.subject
        if old.metadata.deletion_timestamp is not None:
            return Decision()
        stored = snapshot.row
        if stored.version not in ("", snapshot.version):
            stored = AilingCopies(stored.key)  # another version: what is known of the last one says nothing of it
        found = course(old, stored.since, settings, left=stored.moves, now=now)
        rows: tuple[Save | Drop, ...] = ()
        row = AilingCopies(snapshot.row.key, found.since, snapshot.version, found.left)
        if not found.since and not found.left:
            rows = (Drop(row),) if snapshot.row.since or snapshot.row.moves else ()
        elif row != snapshot.row:
            rows = (Save(row),)
        wakes = [found.wake_at] if found.wake_at is not None else []
        wakes += [now + RETRY] if found.missing else []
        return Decision(
            changes=(*((Put(departed(found.binding, old, now=now), old),) if found.binding is not old else ()), *rows),
            events=(*_told_left(old, found.binding), *_told_missing(old, found.missing), *_told_stays(old, found)),
            wake_at=min(wakes, default=None),
            reason="ApplicationFailover",
        )


def _told_left(old: Binding, new: Binding) -> Iterable[Event]:
    for task in new.spec.graceful_eviction_tasks:
        if old.spec.task(task.from_cluster) is None:
            message = f"evicted from cluster {task.from_cluster}: the application is unhealthy there"
            yield Event(old, "EvictWorkloadFromClusterSucceed", message)


def _told_stays(binding: Binding, found: Course) -> Iterable[Event]:
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
