"""What ClusterTaintPolicies want on a cluster, in both dialects, with windows and withdrawal (D3).

Windowed (S001): the taint comes when matchConditions held for addOnMatchSeconds, and goes when they failed for
removeOnMismatchSeconds. Without windows: addOnConditions add, removeOnConditions remove. When a policy's target or
conditions are edited, its digest changes: its taints are withdrawn at once and its windows begin anew. A taint whose
value is edited is withdrawn as well and, as far as its window has run, there again at once with the new one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, compact, condition
from controlplane.apimachinery.times import later
from controlplane.clusters import taints
from controlplane.clusters.taints import Identity, Owners, Ownership, Want, Wanted
from controlplane.kinds.cluster import EVICTING_EFFECTS, FLAPPING, READY, Cluster
from controlplane.kinds.policy import ClusterAffinity
from controlplane.kinds.policy.affinity import chooses
from controlplane.kinds.rows import MatchWindow, window_key
from controlplane.kinds.taint_policy import (
    ClusterTaintPolicy,
    ClusterTaintPolicySpec,
    MatchCondition,
    PolicyTaint,
    TaintToAdd,
)

OPERATORS = ("In", "NotIn")


class Sight(msgspec.Struct, frozen=True):
    """How well the cluster was observed: until when, how many seconds in all it was not, and since when it is (D3).

    `resumed_at` None: there was never a time in which nobody looked.
    """

    until: datetime
    unobserved_seconds: float = 0.0
    resumed_at: datetime | None = None


class Policies(msgspec.Struct, frozen=True):
    """What all policies together want, and the windows as they shall be kept."""

    wanted: Wanted
    windows: tuple[MatchWindow, ...] = ()


def owner(policy: ClusterTaintPolicy) -> str:
    """Return how the policy is called in the ownership of taints."""
    return f"policy/{policy.metadata.name}"


def wanted(
    cluster: Cluster,
    policies: Iterable[ClusterTaintPolicy],
    known: Owners,
    windows: Mapping[str, MatchWindow],
    *,
    sight: Sight,
    moving_since: datetime | None,
    counting_since: datetime,
    now: datetime,
) -> Policies:
    """Return what the policies want on a cluster.

    `known`: who owns its taints now; `windows`: by key; `counting_since`: no match counts from before (gate on, D17);
    `moving_since`: the same for taints that move workloads, None: none of those are added (D9). Where a policy asks
    about Ready, it also waits while access is lost, and counts from its return (D22).
    """
    wants: list[Want] = []
    kept: list[MatchWindow] = []
    wakes: list[datetime] = []
    for policy in sorted(policies, key=lambda one: (one.metadata.creation_timestamp or now, one.metadata.name)):
        if policy.metadata.deletion_timestamp is not None or not chooses(target(policy.spec), cluster):
            continue
        moving = taints.when_seen(cluster, moving_since) if _by_ready(policy.spec) else moving_since
        if not policy.windowed:
            wants += _unwindowed(policy, cluster, known, moving=moving is not None)
            continue
        old = windows.get(window_key(policy.metadata.name, cluster.metadata.name))
        window = _window(policy, cluster, old, digest(policy.spec), sight=sight, now=now)
        kept.append(window)
        for taint in policy.spec.taints_to_add:
            since = moving if taint.effect in EVICTING_EFFECTS else counting_since
            want, wake_at = _windowed(policy, taint, window, known, sight=sight, counting_since=since, now=now)
            wants += [] if want is None else [want]
            wakes += [] if wake_at is None else [wake_at]
    return Policies(Wanted(tuple(wants), min(wakes, default=None)), tuple(kept))


def _by_ready(spec: ClusterTaintPolicySpec) -> bool:
    """Test whether what a policy adds depends on Ready."""
    return any(one.condition_type == READY for one in (*spec.match_conditions, *spec.add_on_conditions))


def _by_flapping(spec: ClusterTaintPolicySpec) -> bool:
    """Test whether a policy adds its taints to clusters for flapping: it names that condition, and not its absence."""
    flapping = (Condition(FLAPPING, "True", ""),)
    asked = (one for one in (*spec.match_conditions, *spec.add_on_conditions) if one.condition_type == FLAPPING)
    return any(holds(one, flapping) for one in asked)


def target(spec: ClusterTaintPolicySpec) -> ClusterAffinity | None:
    """Return which clusters a policy is about; None: all."""
    return spec.target_cluster if spec.target_cluster is not None else spec.target_clusters


@lru_cache(maxsize=1024)
def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:12]


def digest(spec: ClusterTaintPolicySpec) -> str:
    """Return a digest of a policy's target and conditions: what may not change without withdrawing its taints."""
    parts = (target(spec), spec.match_conditions, spec.add_on_conditions, spec.remove_on_conditions)
    return _digest(msgspec.json.encode(compact(parts), order="sorted"))


def rule_of(spec: ClusterTaintPolicySpec, taint: TaintToAdd | PolicyTaint) -> str:
    """Return what may not change without withdrawing one taint of a policy: the digest, and the taint's own value."""
    return f"{digest(spec)}={taint.value}" if taint.value else digest(spec)


def holds(asked: MatchCondition, conditions: tuple[Condition, ...]) -> bool:
    """Test one condition of a policy. A condition nobody reported never matches, not even NotIn (semantics 2.4)."""
    found = condition(conditions, asked.condition_type)
    if found is None or asked.operator not in OPERATORS:
        return False
    return (found.status in asked.status_values) == (asked.operator == "In")


def match(asked: Sequence[MatchCondition], conditions: tuple[Condition, ...], *, empty: bool) -> bool:
    """Test conditions together; `empty` is what no condition at all means (always or never, by dialect)."""
    return all(holds(one, conditions) for one in asked) if asked else empty


def owns(known: Owners, identity: Identity, policy: str, rule: str) -> bool:
    """Test whether a policy, as it is written now, put this taint on (or would, had a person not taken it off)."""
    return known.get(identity, Ownership()).by.get(policy) == rule


def _unwindowed(policy: ClusterTaintPolicy, cluster: Cluster, known: Owners, *, moving: bool) -> list[Want]:
    spec, conditions, name = policy.spec, cluster.status.conditions, owner(policy)
    if match(spec.remove_on_conditions, conditions, empty=False):
        return []
    adding = match(spec.add_on_conditions, conditions, empty=False)
    return [
        Want(taint.key, taint.effect, taint.value, name, rule_of(spec, taint), flapping=_by_flapping(spec))
        for taint in spec.taints
        if owns(known, (taint.key, taint.effect), name, rule_of(spec, taint))
        or (adding and (moving or taint.effect not in EVICTING_EFFECTS))
    ]


def _window(
    policy: ClusterTaintPolicy, cluster: Cluster, old: MatchWindow | None, rule: str, *, sight: Sight, now: datetime
) -> MatchWindow:
    """Return since when the match holds, or fails. False and Unknown both matching is one match: it goes on (D3). What
    is as it was, but since another time, was something else in between: then it began anew.

    Where we look late, it began when the conditions turned, but not before the last time in which nobody observed the
    cluster: how much of that came after the turn is not known any more. What began before policy and cluster both were
    there is left from others of their names.
    """
    name, member = policy.metadata.name, cluster.metadata.name
    born = [one for one in (policy.metadata.creation_timestamp, cluster.metadata.creation_timestamp) if one is not None]
    if old is not None and old.since is not None and any(old.since < one <= now for one in born):
        old = None
    matching = match(policy.spec.match_conditions, cluster.status.conditions, empty=True)
    said = condition(cluster.status.conditions, READY) if _by_ready(policy.spec) else None
    ready, ready_since = ("", None) if said is None else (said.status, said.last_transition_time)
    if old is not None and old.rule == rule and old.matching == matching:
        missed = old.ready == ready and old.ready_since not in (None, ready_since)
        if not missed:
            return replace(old, ready=ready, ready_since=ready_since)
    since = now
    if old is None:
        since = max((*born, *_turns(policy, cluster)), default=now)
    elif old.rule == rule:
        since = max(_turns(policy, cluster), default=now)
    since = min(now, since if sight.resumed_at is None else max(since, sight.resumed_at))
    key, unobserved = window_key(name, member), sight.unobserved_seconds
    return MatchWindow(key, name, member, rule, matching, since, unobserved, ready, ready_since)


def _turns(policy: ClusterTaintPolicy, cluster: Cluster) -> list[datetime]:
    """Return when the conditions a policy asks about last changed; the newest may precede our looking."""
    found = (condition(cluster.status.conditions, one.condition_type) for one in policy.spec.match_conditions)
    return [one.last_transition_time for one in found if one is not None and one.last_transition_time is not None]


def _windowed(
    policy: ClusterTaintPolicy,
    taint: TaintToAdd,
    window: MatchWindow,
    known: Owners,
    *,
    sight: Sight,
    counting_since: datetime | None,
    now: datetime,
) -> tuple[Want | None, datetime | None]:
    """Return what one taint of a policy wants, and when its window ends."""
    name, began, rule = owner(policy), window.since or now, rule_of(policy.spec, taint)
    owned = owns(known, (taint.key, taint.effect), name, rule)
    want = Want(
        taint.key,
        taint.effect,
        taint.value,
        name,
        rule,
        ending=not window.matching,
        flapping=_by_flapping(policy.spec),
    )
    if window.matching and owned:
        return want, None
    if window.matching:
        if counting_since is None:
            return None, None
        due = _end(max(began, counting_since), taint.add_on_match_seconds, window, sight)
        return (want, None) if sight.until >= due else (None, _look(due, now=now))
    due = _end(began, taint.remove_on_mismatch_seconds, window, sight)
    return (want, _look(due, now=now)) if owned and sight.until < due else (None, None)


def _end(since: datetime, seconds: int, window: MatchWindow, sight: Sight) -> datetime:
    """Return when a window ends: time in which nobody observed the cluster does not count (D3)."""
    unobserved = max(0.0, sight.unobserved_seconds - window.unobserved_seconds)
    return later(since, seconds + unobserved)


def _look(due: datetime, *, now: datetime) -> datetime:
    """Return when to look again; a clock that stands still because nobody observes is looked at every 5 seconds."""
    return due if due > now else now + timedelta(seconds=5)
