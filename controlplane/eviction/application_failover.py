"""Application failover: a copy that is unhealthy for too long leaves, whatever its cluster says (semantics 2.12).

The gate Failover has no say in it (D17). Since when a copy is unhealthy is kept in a row, so that a restart of ours
does not begin to count anew. A version of a workload that has left two clusters stays where it is: then it is the
version that is ill, and moving it on would only wear out the fleet (faults row 28; ours). Another version may move
again, and so may one whose copies are all healthy longer after its last move than being unhealthy is borne.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from controlplane import interpret
from controlplane.apimachinery.times import later
from controlplane.eviction.purge import with_task
from controlplane.eviction.state_preservation import PreservedState, read_state
from controlplane.kinds.binding import APPLICATION_FAILURE, HEALTHY, UNHEALTHY, UNKNOWN, Binding
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY, NEVER, ApplicationFailoverBehavior
from controlplane.kinds.template import Template
from controlplane.settings import Settings

NAMESPACED, CLUSTER_SCOPED = (
    "resource-binding-application-failover-controller",
    "cluster-resource-binding-application-failover-controller",
)
DEFAULT_TOLERATION_SECONDS = 300
MAX_CLUSTERS_LEFT = 2  # clusters one version leaves


class ApplicationFailoverDecision(msgspec.Struct, frozen=True):
    """What becomes of a binding: itself with new tasks, since when which copies are unhealthy, when to look again.

    `missing`: state that had to be carried along and could not be read, per cluster that therefore stays. `left`:
    clusters this version has left; `stays`: those it does not leave any more because it was ill elsewhere too.
    """

    binding: Binding
    since: dict[str, datetime]
    wake_at: datetime | None = None
    missing: dict[str, str] = {}
    left: dict[str, datetime] = {}
    stays: tuple[str, ...] = ()


def workload_version(template: Template | None) -> str:
    """Return what tells one version of a workload from the next: a digest of its spec, however many replicas it has."""
    spec = {} if template is None else template.content.get("spec", {})
    asked = {name: value for name, value in spec.items() if name != "replicas"} if isinstance(spec, dict) else spec
    return hashlib.sha256(msgspec.json.encode(asked, order="sorted")).hexdigest()[:12]


def decide_application_failover(
    binding: Binding,
    since: Mapping[str, datetime],
    settings: Settings,
    *,
    moves: Mapping[str, datetime] | None = None,
    now: datetime,
) -> ApplicationFailoverDecision:
    """Return what application failover does about a binding now. `moves`: clusters its version has left before."""
    behaviour = None if binding.spec.failover is None else binding.spec.failover.application
    if behaviour is None or not binding.spec.propagate_deps or not binding.status.aggregated_status:
        return ApplicationFailoverDecision(binding, {})
    if interpret.interpreter_for(binding.spec.resource.api_version, binding.spec.resource.kind).healthy is None:
        return ApplicationFailoverDecision(binding, {})  # a kind without a rule of health is never ill
    known = {name: moment for name, moment in since.items() if binding.spec.target(name) is not None}
    seconds = behaviour.decision_conditions.toleration_seconds
    patience = float(DEFAULT_TOLERATION_SECONDS if seconds is None else seconds)
    due: list[str] = []
    wakes: list[datetime] = []
    for item in binding.status.aggregated_status:
        name = item.cluster_name
        if item.told_health in (HEALTHY, UNKNOWN):
            known.pop(name, None)
        if item.told_health != UNHEALTHY or binding.spec.target(name) is None or binding.spec.task(name) is not None:
            continue
        ends = later(known.setdefault(name, now), patience)
        if now > ends:
            due += [name] if name not in due else []
        else:
            wakes.append(max(ends, now) + timedelta(microseconds=1))
    gone = dict(moves or {})
    if gone and _all_targets_healthy(binding):
        settled = later(max(gone.values()), patience)
        gone = {} if now > settled else gone
        wakes += [settled + timedelta(microseconds=1)] if gone else []
    after, missing, stays = binding, dict[str, str](), list[str]()
    for name in due:
        if len(gone) >= MAX_CLUSTERS_LEFT:
            stays.append(name)
            continue
        state = state_to_preserve(binding, name, behaviour, settings)
        if state.problem and settings.state_preservation_on_missing == "Hold":
            missing[name] = state.problem
            continue
        after = with_application_task(after, binding, name, behaviour, state, now=now)
        known.pop(name)
        gone[name] = now
    return ApplicationFailoverDecision(after, known, min(wakes, default=None), missing, gone, tuple(stays))


def _all_targets_healthy(binding: Binding) -> bool:
    """Test whether every target is reported healthy: the version is well after all."""
    health = {item.cluster_name: item.health for item in binding.status.aggregated_status}
    return bool(binding.spec.clusters) and all(health.get(one.name) == HEALTHY for one in binding.spec.clusters)


def state_to_preserve(
    binding: Binding, cluster: str, behaviour: ApplicationFailoverBehavior, settings: Settings
) -> PreservedState:
    """Return the state to carry from a failing copy: only with the gate, Directly, and from one cluster to one."""
    rules = () if behaviour.state_preservation is None else behaviour.state_preservation.rules
    applies = settings.gate("StatefulFailoverInjection") and behaviour.purge_mode == DIRECTLY
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
    """Return the binding with one more task, in the mode its policy asks for. `before`: as it was when it left none."""
    new = with_task(
        binding,
        cluster,
        mode=behaviour.purge_mode,
        reason=APPLICATION_FAILURE,
        producer=NAMESPACED if before.metadata.namespace else CLUSTER_SCOPED,
        message=message,
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
    return binding.with_spec(clusters=new.spec.clusters, graceful_eviction_tasks=(*others, task))
