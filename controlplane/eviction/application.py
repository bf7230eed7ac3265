"""Application failover: a copy that is unhealthy for too long leaves, whatever its cluster says (semantics 2.12).

The gate Failover has no say in it (D17). Since when a copy is unhealthy is kept in a row, so that a restart of ours
does not begin to count anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from controlplane.eviction.preserve import Preserved, read
from controlplane.eviction.purge import leaving
from controlplane.kinds.binding import APPLICATION_FAILURE, HEALTHY, UNHEALTHY, UNKNOWN, Binding
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY, NEVER, ApplicationFailoverBehavior
from controlplane.settings import Settings

NAMESPACED, CLUSTER_SCOPED = (
    "resource-binding-application-failover-controller",
    "cluster-resource-binding-application-failover-controller",
)
DEFAULT_SECONDS = 300


class Course(msgspec.Struct, frozen=True):
    """What becomes of a binding: itself with new tasks, since when which copies are unhealthy, when to look again.

    `missing`: state that had to be carried along and could not be read, per cluster that therefore stays.
    """

    binding: Binding
    since: dict[str, datetime]
    wake_at: datetime | None = None
    missing: dict[str, str] = {}


def course(binding: Binding, since: Mapping[str, datetime], settings: Settings, *, now: datetime) -> Course:
    """Return what application failover does about a binding now."""
    behaviour = None if binding.spec.failover is None else binding.spec.failover.application
    if behaviour is None or not binding.spec.propagate_deps or not binding.status.aggregated_status:
        return Course(binding, {})
    known = {name: moment for name, moment in since.items() if binding.spec.target(name) is not None}
    seconds = behaviour.decision_conditions.toleration_seconds
    patience = timedelta(seconds=DEFAULT_SECONDS if seconds is None else seconds)
    due: list[str] = []
    wakes: list[datetime] = []
    for item in binding.status.aggregated_status:
        name = item.cluster_name
        if item.health in (HEALTHY, UNKNOWN):
            known.pop(name, None)
        if item.health != UNHEALTHY or binding.spec.target(name) is None or binding.spec.task(name) is not None:
            continue
        ends = known.setdefault(name, now) + patience
        if now > ends:
            due.append(name)
        else:
            wakes.append(max(ends, now) + timedelta(microseconds=1))
    left, missing = binding, dict[str, str]()
    for name in due:
        state = preserved(binding, name, behaviour, settings)
        if state.problem and settings.state_preservation_on_missing == "Hold":
            missing[name] = state.problem
            continue
        left = _left(left, binding, name, behaviour, state, now=now)
        known.pop(name)
    return Course(left, known, min(wakes, default=None), missing)


def preserved(binding: Binding, cluster: str, behaviour: ApplicationFailoverBehavior, settings: Settings) -> Preserved:
    """Return the state to carry from a failing copy: only with the gate, Directly, and from one cluster to one."""
    rules = () if behaviour.state_preservation is None else behaviour.state_preservation.rules
    applies = settings.gate("StatefulFailoverInjection") and behaviour.purge_mode == DIRECTLY
    if not rules or not applies or len(binding.spec.clusters) != 1:
        return Preserved()
    return read(binding, cluster, rules)


def _left(
    left: Binding,
    before: Binding,
    cluster: str,
    behaviour: ApplicationFailoverBehavior,
    state: Preserved,
    *,
    now: datetime,
) -> Binding:
    """Return the binding with one more task, in the mode its policy asks for."""
    new = leaving(
        left,
        cluster,
        mode=behaviour.purge_mode,
        reason=APPLICATION_FAILURE,
        producer=NAMESPACED if before.metadata.namespace else CLUSTER_SCOPED,
        message="",
        preserved=state.labels,
        now=now,
    )
    others, made = new.spec.graceful_eviction_tasks[:-1], new.spec.graceful_eviction_tasks[-1]
    mode = behaviour.purge_mode
    task = replace(
        made,
        grace_period_seconds=behaviour.grace_period_seconds if mode == GRACEFULLY else None,
        suppress_deletion=True if mode == NEVER else None,
        clusters_before_failover=tuple(one.name for one in before.spec.clusters) if state.labels else (),
    )
    return left.with_spec(clusters=new.spec.clusters, graceful_eviction_tasks=(*others, task))
