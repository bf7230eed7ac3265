"""Application failover: a copy that is unhealthy for too long is evicted, whatever the state of its cluster.

It does not depend on the Failover gate [application-failover]. Since when a copy is unhealthy is stored in a row, so a
restart of the control plane does not restart the time. Time in which its cluster was not observed does not count: the
copy may have become healthy meanwhile.

A version of a workload that was evicted from two clusters stays where it is: the version itself seems to be broken, and
further moves would not help [broken-release]. A new version may move again. So may a version all of whose copies stay
healthy for longer than the toleration time after its last move.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from controlplane import interpret
from controlplane.apimachinery.times import later
from controlplane.clusters import health
from controlplane.eviction.purge import with_task
from controlplane.eviction.refuge import Refuge
from controlplane.eviction.state_preservation import PreservedState, read_state
from controlplane.kinds.binding import (
    APPLICATION_FAILURE,
    HEALTHY,
    UNHEALTHY,
    UNKNOWN,
    AggregatedStatusItem,
    Binding,
)
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY, NEVER, ApplicationFailoverBehavior
from controlplane.kinds.rows import Observation
from controlplane.kinds.template import Template
from controlplane.settings import Settings

NAMESPACED, CLUSTER_SCOPED = (
    "resource-binding-application-failover-controller",
    "cluster-resource-binding-application-failover-controller",
)
DEFAULT_TOLERATION_SECONDS = 300
MAX_CLUSTERS_LEFT = 2  # clusters that one version is evicted from
NOT_PROBED: Mapping[str, Observation] = {}

FindRefuge = Callable[[Binding, str], Refuge]
"""Finds the refuge of a copy on a cluster. The binding has the tasks of the copies that are evicted with it."""


class ApplicationFailoverDecision(msgspec.Struct, frozen=True):
    """The decision for one binding: the binding with new tasks, the unhealthy copies, and when to check again.

    `since`: since when each copy is unhealthy. `missing`: per cluster, why state could not be read; the copy stays
    there. `left`: the clusters that this version has left. `stays`: clusters that it would leave but for the limit of
    two. `held`: per cluster, why there is no refuge for the copy; it stays there [refuge-first].
    """

    binding: Binding
    since: dict[str, datetime]
    wake_at: datetime | None = None
    missing: dict[str, str] = {}
    left: dict[str, datetime] = {}
    stays: tuple[str, ...] = ()
    held: dict[str, str] = {}


def workload_version(template: Template | None) -> str:
    """Return what identifies a version of a workload: a digest of its spec without its replica count, and one of its
    uid. A workload that was deleted and made again is another one."""
    spec = {} if template is None else template.content.get("spec", {})
    compared = {name: value for name, value in spec.items() if name != "replicas"} if isinstance(spec, dict) else spec
    uid = "" if template is None else template.metadata.uid
    return ".".join((_digest(msgspec.json.encode(compared, order="sorted")), _digest(uid.encode())))


def is_version(noted: str, version: str) -> bool:
    """Test whether a noted version may be the present one. "": none was noted. Earlier releases noted no uid."""
    return version.startswith(noted)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def decide_application_failover(
    binding: Binding,
    since: Mapping[str, datetime],
    settings: Settings,
    *,
    moves: Mapping[str, datetime] | None = None,
    find_refuge: FindRefuge | None = None,
    observations: Mapping[str, Observation] = NOT_PROBED,
    outdated: Collection[str] = (),
    now: datetime,
) -> ApplicationFailoverDecision:
    """Return what application failover does about a binding now.

    `since`: since when each copy is unhealthy. `moves`: when copies of the present version of the
    workload left which cluster. `find_refuge` None: the scheduler is not asked, and copies leave without a refuge.
    `observations`: of the clusters of unhealthy copies; without one the cluster counts as observed. `outdated`: the
    clusters from which a newer report has arrived than the status of the binding has.
    """
    behaviour = None if binding.spec.failover is None else binding.spec.failover.application
    if behaviour is None or not binding.spec.propagate_deps:
        return ApplicationFailoverDecision(binding, {})
    if interpret.interpreter_for(binding.spec.resource.api_version, binding.spec.resource.kind).healthy is None:
        return ApplicationFailoverDecision(binding, {})  # a kind without a health rule is never unhealthy
    if not binding.status.aggregated_status:  # with Directly there may be no copy until the new one is made
        return ApplicationFailoverDecision(binding, {}, left=dict(moves or {}))
    unhealthy_since = {name: moment for name, moment in since.items() if binding.spec.target(name) is not None}
    seconds = behaviour.decision_conditions.toleration_seconds
    toleration = float(DEFAULT_TOLERATION_SECONDS if seconds is None else seconds)
    due: list[str] = []
    wakes: list[datetime] = []
    for item in binding.status.aggregated_status:
        name = item.cluster_name
        if item.reported_health in (HEALTHY, UNKNOWN):
            unhealthy_since.pop(name, None)
        if not _may_leave(binding, item):
            continue
        observed = observations.get(name)
        ends = health.ends_observed(unhealthy_since.setdefault(name, now), toleration, observed, settings, now=now)
        if now <= ends:
            wakes.append(ends + timedelta(microseconds=1))
        elif name not in outdated and name not in due:
            due.append(name)
    left = dict(moves or {})
    if left and _all_targets_healthy(binding):
        settled = later(max(left.values()), toleration)
        if now > settled:
            left = {name: at for name, at in left.items() if _may_go_back(binding, name)}
        else:
            wakes.append(settled + timedelta(microseconds=1))
    found = ApplicationFailoverDecision(binding, unhealthy_since, min(wakes, default=None), left=left)
    return _with_evictions(found, due, behaviour, settings, find_refuge=find_refuge, now=now)


def _may_leave(binding: Binding, item: AggregatedStatusItem) -> bool:
    """Test whether a copy is a target that is unhealthy and not evicted yet."""
    name = item.cluster_name
    unhealthy = item.reported_health == UNHEALTHY
    return unhealthy and binding.spec.target(name) is not None and binding.spec.task(name) is None


def _with_evictions(
    found: ApplicationFailoverDecision,
    due: Iterable[str],
    behaviour: ApplicationFailoverBehavior,
    settings: Settings,
    *,
    find_refuge: FindRefuge | None,
    now: datetime,
) -> ApplicationFailoverDecision:
    """Return the decision with the copies evicted that are due, as far as nothing keeps them where they are."""
    before = after = found.binding
    missing, held, stays = dict[str, str](), dict[str, str](), list[str]()
    since, left = dict(found.since), dict(found.left)
    for name in due:
        if len(left) >= MAX_CLUSTERS_LEFT:
            stays.append(name)
            continue
        if find_refuge is not None and not (refuge := find_refuge(after, name)).found:
            held[name] = refuge.why
            continue
        state = state_to_preserve(before, name, behaviour, settings)
        if state.problem and settings.state_preservation_on_missing == "Hold":
            missing[name] = state.problem
            continue
        after = with_application_task(after, before, name, behaviour, state, now=now)
        since.pop(name)
        left[name] = now
    return replace(found, binding=after, since=since, missing=missing, left=left, stays=tuple(stays), held=held)


def _all_targets_healthy(binding: Binding) -> bool:
    """Test whether every target is reported as healthy, so that the version is not broken."""
    known = {item.cluster_name: item.health for item in binding.status.aggregated_status}
    return bool(binding.spec.clusters) and all(known.get(cluster.name) == HEALTHY for cluster in binding.spec.clusters)


def _may_go_back(binding: Binding, cluster: str) -> bool:
    """Test whether the copy on a cluster that was left goes back if no other cluster is found
    [recovered-clusters-cancel]."""
    task = binding.spec.task(cluster)
    return task is not None and task.reason == APPLICATION_FAILURE and task.suppress_deletion is None


def state_to_preserve(
    binding: Binding, cluster: str, behaviour: ApplicationFailoverBehavior, settings: Settings
) -> PreservedState:
    """Return the state to preserve from an unhealthy copy.

    It is empty unless the gate StatefulFailoverInjection is on, the purge mode is Directly and the binding has one
    target.
    """
    rules = () if behaviour.state_preservation is None else behaviour.state_preservation.rules
    applies = settings.gate("StatefulFailoverInjection") and behaviour.purges == DIRECTLY
    if not rules or not applies or len(binding.spec.clusters) != 1:
        return PreservedState()
    return read_state(binding, cluster, rules)


def with_application_task(
    binding: Binding,
    before: Binding,
    cluster: str,
    behaviour: ApplicationFailoverBehavior,
    state: PreservedState,
    *,
    message: str = "",
    now: datetime,
) -> Binding:
    """Return the binding with one more task, in the purge mode of its policy. `before`: the binding without
    new tasks."""
    new = with_task(
        binding,
        cluster,
        mode=behaviour.purges,
        reason=APPLICATION_FAILURE,
        producer=NAMESPACED if before.metadata.namespace else CLUSTER_SCOPED,
        message=message,
        preserved=state.labels,
        now=now,
    )
    others, made = new.spec.graceful_eviction_tasks[:-1], new.spec.graceful_eviction_tasks[-1]
    mode = behaviour.purges
    task = replace(
        made,
        grace_period_seconds=behaviour.grace_period_seconds if mode == GRACEFULLY else None,
        suppress_deletion=True if mode == NEVER else None,
        clusters_before_failover=tuple(target.name for target in before.spec.clusters) if state.labels else (),
    )
    return binding.with_spec(clusters=new.spec.clusters, graceful_eviction_tasks=(*others, task))
