"""Computes which taints ClusterTaintPolicies want on a cluster, in both dialects [taint-policies].

With windows: a taint is added when matchConditions have held for addOnMatchSeconds, and removed when they have failed
for removeOnMismatchSeconds. Without windows: addOnConditions add it and removeOnConditions remove it. If the target or
the conditions of a policy are edited, its digest changes: its taints are removed at once and its windows start again.
If the value of a taint is edited, the taint is replaced at once, provided that its window has ended.
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
    rules,
)


class Sight(msgspec.Struct, frozen=True):
    """Until when a cluster is observed, and how long it was not [taint-windows].

    `unobserved_seconds`: the total time without observations. `resumed_at`: the end of the last such time; None: there
    was none.
    """

    until: datetime
    unobserved_seconds: float = 0.0
    resumed_at: datetime | None = None


class Policies(msgspec.Struct, frozen=True):
    """What all policies want on a cluster, and the windows to store."""

    wanted: Wanted
    windows: tuple[MatchWindow, ...] = ()


def owner(policy: ClusterTaintPolicy) -> str:
    """Return the name of a policy as an owner of taints."""
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

    `known`: the owners of its taints now. `windows`: the stored windows by key. `counting_since`: from when matches
    count, which is when the gate Failover was turned on [failover-gate]. `moving_since`: the same for taints that
    evict; None: none of these are added [blind-fleet]. A policy about Ready also waits while access is lost, and its
    time counts from the end of that [lost-access].
    """
    wants: list[Want] = []
    kept: list[MatchWindow] = []
    wakes: list[datetime] = []
    for policy in sorted(
        policies, key=lambda policy: (policy.metadata.creation_timestamp or now, policy.metadata.name)
    ):
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
    """Test whether the taints of a policy depend on Ready."""
    return any(rule.condition_type == READY for rule in (*spec.match_conditions, *spec.add_on_conditions))


def _by_flapping(spec: ClusterTaintPolicySpec) -> bool:
    """Test whether a policy adds its taints to clusters that flap: its conditions hold for Flapping=True."""
    flapping = (Condition(FLAPPING, "True", ""),)
    rules = (rule for rule in (*spec.match_conditions, *spec.add_on_conditions) if rule.condition_type == FLAPPING)
    return any(holds(rule, flapping) for rule in rules)


def target(spec: ClusterTaintPolicySpec) -> ClusterAffinity | None:
    """Return which clusters a policy applies to. None: all clusters."""
    return spec.target_cluster if spec.target_cluster is not None else spec.target_clusters


@lru_cache(maxsize=1024)
def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:12]


def digest(spec: ClusterTaintPolicySpec) -> str:
    """Return a digest of the target and the conditions of a policy. If it changes, the policy's taints are removed."""
    parts = (target(spec), spec.match_conditions, spec.add_on_conditions, spec.remove_on_conditions)
    return _digest(msgspec.json.encode(compact(parts), order="sorted"))


def rule_of(spec: ClusterTaintPolicySpec, taint: TaintToAdd | PolicyTaint) -> str:
    """Return the digest of a policy with the value of one of its taints. If it changes, this taint is removed."""
    return f"{digest(spec)}={taint.value}" if taint.value else digest(spec)


def holds(rule: MatchCondition, conditions: tuple[Condition, ...]) -> bool:
    """Test one condition of a policy. A condition that the cluster does not have never matches, not even with NotIn."""
    reported = condition(conditions, rule.condition_type)
    if reported is None:
        return False
    match rule.operator:
        case rules.IN:
            return reported.status in rule.status_values
        case rules.NOT_IN:
            return reported.status not in rule.status_values
        case _:
            return False


def match(rules: Sequence[MatchCondition], conditions: tuple[Condition, ...], *, empty: bool) -> bool:
    """Test whether all conditions of a list hold.

    `empty`: the result for an empty list. It is True for policies with windows, and False for those without.
    """
    return all(holds(rule, conditions) for rule in rules) if rules else empty


def evicting_taints(
    policy: ClusterTaintPolicy, cluster: Cluster, conditions: tuple[Condition, ...]
) -> tuple[TaintToAdd | PolicyTaint, ...]:
    """Return the taints of a policy that evict, if it applies to a cluster and its conditions hold among these.

    They follow at once, or when their window ends. (): it adds none, or is being deleted.
    """
    spec, windowed = policy.spec, policy.windowed
    rules = spec.match_conditions if windowed else spec.add_on_conditions
    if policy.metadata.deletion_timestamp is not None or not chooses(target(spec), cluster):
        return ()
    added = spec.taints_to_add if windowed else spec.taints
    return (
        tuple(one for one in added if one.effect in EVICTING_EFFECTS)
        if match(rules, conditions, empty=windowed)
        else ()
    )


def owns(known: Owners, identity: Identity, policy: str, rule: str) -> bool:
    """Test whether a policy owns this taint under its current rule, even if a user has removed the taint."""
    return known.get(identity, Ownership()).by.get(policy) == rule


def _waived(known: Owners, identity: Identity) -> bool:
    """Test whether a user has removed this taint. That ends with the conditions for which the policy adds it: a new
    outage adds the taint again, however soon it begins [taint-ownership]."""
    return known.get(identity, Ownership()).waived


def _unwindowed(policy: ClusterTaintPolicy, cluster: Cluster, known: Owners, *, moving: bool) -> list[Want]:
    spec, conditions, name = policy.spec, cluster.status.conditions, owner(policy)
    if match(spec.remove_on_conditions, conditions, empty=False):
        return []
    adding = match(spec.add_on_conditions, conditions, empty=False)
    return [
        Want(taint.key, taint.effect, taint.value, name, rule_of(spec, taint), flapping=_by_flapping(spec))
        for taint in spec.taints
        if (
            owns(known, (taint.key, taint.effect), name, rule_of(spec, taint))
            and (adding or not _waived(known, (taint.key, taint.effect)))
        )
        or (adding and (moving or taint.effect not in EVICTING_EFFECTS))
    ]


def _window(
    policy: ClusterTaintPolicy, cluster: Cluster, old: MatchWindow | None, rule: str, *, sight: Sight, now: datetime
) -> MatchWindow:
    """Return the window: since when the conditions of a policy hold for a cluster, or since when they fail.

    If False and Unknown both match, a change between them continues the window. If Ready has its status since another
    time than the stored one, it had another status in between and the window starts again [taint-windows].

    A window that starts late begins when the conditions last changed, but not before the end of the last time without
    observations. A stored window that is older than the policy or the cluster is from deleted objects of these names.
    """
    name, member = policy.metadata.name, cluster.metadata.name
    born = [
        moment
        for moment in (policy.metadata.creation_timestamp, cluster.metadata.creation_timestamp)
        if moment is not None
    ]
    if old is not None and old.since is not None and any(old.since < moment <= now for moment in born):
        old = None
    matching = match(policy.spec.match_conditions, cluster.status.conditions, empty=True)
    reported = condition(cluster.status.conditions, READY) if _by_ready(policy.spec) else None
    ready, ready_since = ("", None) if reported is None else (reported.status, reported.last_transition_time)
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
    """Return when the conditions that a policy names last changed on a cluster."""
    reported = (condition(cluster.status.conditions, rule.condition_type) for rule in policy.spec.match_conditions)
    times = (None if state is None else state.last_transition_time for state in reported)
    return [moment for moment in times if moment is not None]


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
    """Return the want of one taint of a policy, and when to look again.

    Want None: the taint is not wanted. Time None: time alone changes nothing.
    """
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
    if _waived(known, (taint.key, taint.effect)):
        return None, None
    due = _end(began, taint.remove_on_mismatch_seconds, window, sight)
    return (want, _look(due, now=now)) if owned and sight.until < due else (None, None)


def _end(since: datetime, seconds: int, window: MatchWindow, sight: Sight) -> datetime:
    """Return when a window ends. Time in which the cluster was not observed does not count [taint-windows]."""
    unobserved = max(0.0, sight.unobserved_seconds - window.unobserved_seconds)
    return later(since, seconds + unobserved)


def _look(due: datetime, *, now: datetime) -> datetime:
    """Return when to check a window again: when it ends, or in 5 s if that is past because observations are missing."""
    return due if due > now else now + timedelta(seconds=5)
