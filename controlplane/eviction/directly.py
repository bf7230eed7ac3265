"""Directly: the old copy is gone before a new one starts; and what happens where nobody can see whether it is (D14)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from controlplane.apimachinery.meta import Condition, condition, to_seconds, with_condition
from controlplane.apimachinery.names import DIRECTLY_UNREACHABLE_ANNOTATION
from controlplane.clusters import fence
from controlplane.kinds.binding import Binding, GracefulEvictionTask
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.policy.unreachable_wait import patience
from controlplane.settings import Settings

DIRECTLY_WAITING = "DirectlyWaiting"  # condition type: new copies wait because the old one may still run
SOURCE_UNREACHABLE, PROCEEDED, SOURCE_GONE = "SourceUnreachable", "Proceeded", "SourceGone"


class DirectlySource(msgspec.Struct, frozen=True):
    """A Directly task whose old copy is still on record. `leave`: why new copies may start all the same; "" they wait.

    `reachable` False: nobody can see whether the old copy still runs.
    """

    task: GracefulEvictionTask
    reachable: bool
    leave: str = ""

    @property
    def waits(self) -> bool:
        return not self.leave


def directly_sources(
    binding: Binding,
    held: Collection[str],
    clusters: Mapping[str, Cluster],
    settings: Settings,
    *,
    answered: Mapping[str, datetime],
    now: datetime,
) -> list[DirectlySource]:
    """Return the Directly tasks of a binding whose old copy is still there.

    `held`: the clusters with a Work of the binding. `answered`: when fenced clusters last answered.
    """
    found = []
    for task in binding.spec.graceful_eviction_tasks:
        name = task.from_cluster
        if task.purge_mode != DIRECTLY or name not in held or binding.spec.target(name) is not None:
            continue
        cluster = clusters.get(name)
        reachable = cluster is not None and cluster.answers
        word = fence.in_force(cluster, answered_at=answered.get(name), now=now)
        found.append(
            DirectlySource(
                task, reachable, "" if reachable else _reason_to_proceed(task, binding, word, settings, now=now)
            )
        )
    return found


def _reason_to_proceed(
    task: GracefulEvictionTask, binding: Binding, word: fence.Fence | None, settings: Settings, *, now: datetime
) -> str:
    """Return why new copies may start although nobody can reach the source; "" if they have to wait."""
    if settings.directly_unreachable == "Proceed":
        return "directly_unreachable is Proceed"
    if word is not None:
        until = f"{to_seconds(word.expires_at):%Y-%m-%dT%H:%M:%SZ}"
        return f"cluster {task.from_cluster} is fenced by {word.by} until {until}: {word.reason}"
    after = proceed_after(binding)
    if after is not None and task.creation_timestamp is not None and now >= task.creation_timestamp + after:
        return f"{DIRECTLY_UNREACHABLE_ANNOTATION} is After={after.total_seconds():g}, and the time has passed"
    return ""


def proceed_after(binding: Binding) -> timedelta | None:
    """Return how long its policy lets a Directly eviction wait for an unreachable source; None: for ever (D14)."""
    return patience(binding.metadata.annotations.get(DIRECTLY_UNREACHABLE_ANNOTATION, ""))


def next_check_at(
    found: Iterable[DirectlySource], binding: Binding, *, pause: timedelta, now: datetime
) -> datetime | None:
    """Return when waiting sources have to be looked at again though nothing changes; None where none waits."""
    waiting = [one for one in found if one.waits]
    if not waiting:
        return None
    after = proceed_after(binding)
    stamps = [one.task.creation_timestamp for one in waiting if one.task.creation_timestamp is not None]
    ends = [] if after is None else [stamp + after for stamp in stamps]
    return min((now + pause, *(end for end in ends if end > now)))


def with_directly_waiting(binding: Binding, found: Iterable[DirectlySource], *, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions of a binding, with DirectlyWaiting saying what new copies wait for or why they started."""
    before = condition(binding.status.conditions, DIRECTLY_WAITING)
    blind = [one for one in found if not one.reachable]
    waiting = [one for one in blind if one.waits]
    if waiting:
        said = Condition(DIRECTLY_WAITING, "True", SOURCE_UNREACHABLE, waiting_message(waiting))
    elif blind:
        said = Condition(DIRECTLY_WAITING, "False", PROCEEDED, "; ".join(one.leave for one in blind))
    elif before is not None and before.status == "True":
        said = Condition(DIRECTLY_WAITING, "False", SOURCE_GONE, "the old copy is gone, or can be removed")
    else:
        return binding.status.conditions
    return with_condition(binding.status.conditions, said, now=now)


def waiting_message(waiting: Iterable[DirectlySource]) -> str:
    """Return what an operator should know and do about sources nobody can reach."""
    names = ", ".join(one.task.from_cluster for one in waiting)
    return (
        f"cluster {names} cannot be reached, so its copy may still run: with purgeMode Directly new copies wait until "
        f"it is gone. Confirm that the cluster is down (POST clusters/<name>/fence), or let the policy go on with "
        f"{DIRECTLY_UNREACHABLE_ANNOTATION}: After=<seconds>"
    )
