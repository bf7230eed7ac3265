"""Purge mode Directly: new copies start only after the old copy is gone.

If the cluster of the old copy cannot be reached, it is unknown whether the copy still runs. New copies then wait until
the cluster is fenced, a time limit of the policy ends, or the setting directly_unreachable is Proceed
[directly-unreachable].
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from controlplane.apimachinery.meta import Condition, condition, to_seconds, with_condition
from controlplane.apimachinery.names import DIRECTLY_UNREACHABLE_ANNOTATION
from controlplane.clusters import fence, health
from controlplane.kinds.binding import Binding, GracefulEvictionTask
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.cluster.fence import Fence
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.policy.unreachable_wait import parse_wait
from controlplane.kinds.rows import Observation
from controlplane.settings import Settings

DIRECTLY_WAITING = "DirectlyWaiting"  # condition type: new copies wait, because the old copy may still run
SOURCE_UNREACHABLE, PROCEEDED, SOURCE_GONE = "SourceUnreachable", "Proceeded", "SourceGone"


class Answers(msgspec.Struct, frozen=True):
    """When clusters answered last, and how they are observed, by name, as far as it counts for a copy."""

    last: Mapping[str, datetime] = {}
    observations: Mapping[str, Observation] = {}


class DirectlySource(msgspec.Struct, frozen=True):
    """An eviction task with purge mode Directly whose old copy still has a Work.

    `reachable` False: it cannot be seen whether the old copy still runs. `proceed_reason`: why new copies may start all
    the same; "": they wait. `wait_ends`: when the time limit of the policy ends, as far as is known now; None: never.
    """

    task: GracefulEvictionTask
    reachable: bool
    proceed_reason: str = ""
    wait_ends: datetime | None = None

    @property
    def waits(self) -> bool:
        """Test whether new copies wait for the old copy."""
        return not self.proceed_reason


def directly_sources(
    binding: Binding,
    held: Collection[str],
    clusters: Mapping[str, Cluster],
    settings: Settings,
    *,
    answers: Answers,
    now: datetime,
) -> list[DirectlySource]:
    """Return the Directly tasks of a binding whose old copy still has a Work.

    `held`: the clusters with a Work of the binding.
    """
    sources = []
    for task in binding.spec.graceful_eviction_tasks:
        name = task.from_cluster
        if task.purge_mode != DIRECTLY or name not in held or binding.spec.target(name) is not None:
            continue
        cluster = clusters.get(name)
        reachable = cluster is not None and cluster.answers
        fencing = fence.in_force(cluster, answered_at=answers.last.get(name), now=now)
        since, observed = task.creation_timestamp, answers.observations.get(name)
        ends = wait_ends(binding, observed, settings, since=since, now=now)
        why = reason_to_proceed(name, binding, fencing, settings, ends=ends, now=now)
        sources.append(DirectlySource(task, reachable, "" if reachable else why, ends))
    return sources


def reason_to_proceed(
    cluster: str, binding: Binding, fencing: Fence | None, settings: Settings, *, ends: datetime | None, now: datetime
) -> str:
    """Return why new copies may start although the old copy's cluster cannot be reached; "": they have to wait.

    `fencing`: the fence of its cluster that is in force. `ends`: see `wait_ends`.
    """
    if settings.directly_unreachable == "Proceed":
        return "the setting directly_unreachable is Proceed"
    if fencing is not None:
        until = f"{to_seconds(fencing.expires_at):%Y-%m-%dT%H:%M:%SZ}"
        return f"cluster {cluster} is fenced by {fencing.by} until {until}: {fencing.reason}"
    after = proceed_after(binding)
    if after is not None and ends is not None and now >= ends:
        return f"{DIRECTLY_UNREACHABLE_ANNOTATION} is After={after.total_seconds():g}, and this time has passed"
    return ""


def wait_ends(
    binding: Binding, observed: Observation | None, settings: Settings, *, since: datetime | None, now: datetime
) -> datetime | None:
    """Return when the time limit of the policy for an old copy ends, as far as is known now; None: there is none.

    `since`: when the copy began to leave. The time counts from the last answer of its cluster (`observed`), which may
    be back and not Ready yet. Time in which the cluster was not observed does not count [outage-of-our-own].
    """
    after = proceed_after(binding)
    if after is None or since is None:
        return None
    answered_at = None if observed is None else observed.answered_at
    begun = since if answered_at is None else max(since, answered_at)
    return health.ends_observed(begun, after.total_seconds(), observed, settings, now=now)


def proceed_after(binding: Binding) -> timedelta | None:
    """Return how long the policy lets new copies wait for an unreachable cluster; None: without a limit."""
    return parse_wait(binding.metadata.annotations.get(DIRECTLY_UNREACHABLE_ANNOTATION, ""))


def next_check_at(sources: Iterable[DirectlySource], *, pause: timedelta, now: datetime) -> datetime | None:
    """Return when waiting sources have to be checked again, even if no object changes. None: no source waits.

    `pause`: the time between two checks. A time limit of the policy that ends earlier counts instead.
    """
    waiting = [source for source in sources if source.waits]
    if not waiting:
        return None
    ends = [source.wait_ends for source in waiting if source.wait_ends is not None and source.wait_ends > now]
    return min((now + pause, *ends))


def with_directly_waiting(
    binding: Binding, sources: Iterable[DirectlySource], *, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions of a binding with an up-to-date condition DirectlyWaiting.

    It reports what new copies wait for, or why they started. A binding that never waited gets no such condition.
    """
    before = condition(binding.status.conditions, DIRECTLY_WAITING)
    unreachable = [source for source in sources if not source.reachable]
    waiting = [item for item in unreachable if item.waits]
    if waiting:
        current = Condition(DIRECTLY_WAITING, "True", SOURCE_UNREACHABLE, waiting_message(waiting))
    elif unreachable:
        current = Condition(
            DIRECTLY_WAITING, "False", PROCEEDED, "; ".join(entry.proceed_reason for entry in unreachable)
        )
    elif before is not None and before.status == "True":
        current = Condition(DIRECTLY_WAITING, "False", SOURCE_GONE, "the old copy is gone or can be removed")
    else:
        return binding.status.conditions
    return with_condition(binding.status.conditions, current, now=now)


def waiting_message(waiting: Iterable[DirectlySource]) -> str:
    """Return the message about clusters that cannot be reached, with what an operator can do."""
    names = ", ".join(item.task.from_cluster for item in waiting)
    return (
        f"cluster {names} cannot be reached, so its copy may still run: with purgeMode Directly new copies wait until "
        f"it is gone. Confirm that the cluster is down (lifeboat fence <name>), or limit the wait in the policy: "
        f"{DIRECTLY_UNREACHABLE_ANNOTATION}: After=<seconds>"
    )
