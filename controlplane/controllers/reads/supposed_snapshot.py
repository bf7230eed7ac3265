"""Reads what a question of `insight.what_if` is answered from. The number of queries does not depend on the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref, kind_key
from controlplane.clusters.taint_policies import evicting_taints
from controlplane.clusters.taints import for_flapping
from controlplane.controllers.reads.binding_groups import applications, workload_groups
from controlplane.controllers.reads.fleet_state import fleet_state
from controlplane.controllers.reads.override_edits import concerned, override_edits
from controlplane.controllers.reads.policy_edits import policy_edits
from controlplane.controllers.reads.workload_labels import workload_labels
from controlplane.engine.state import State
from controlplane.eviction.holds import Holds
from controlplane.insight.changes import (
    Change,
    ClusterRemoved,
    ClustersDrained,
    ClustersLost,
    Failback,
    GateOrRateChanged,
    ObjectsDeleted,
    PolicyEdited,
    Rescheduled,
    TaintAdded,
    lost_clusters,
)
from controlplane.insight.supposed.edited_policies import (
    admitted_policies,
    edited_refs,
    only_overrides,
    written_overrides,
    written_taint_policies,
)
from controlplane.insight.supposed.snapshot import Snapshot
from controlplane.kinds import (
    BINDINGS,
    CLUSTER,
    CLUSTER_TAINT_POLICY,
    EVICTION_HOLD,
    MAINTENANCE_WINDOW,
    NAMESPACE,
    OVERRIDE_POLICIES,
    POLICIES,
)
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster
from controlplane.kinds.eviction_hold import EvictionHold
from controlplane.kinds.rows import Eviction
from controlplane.kinds.taint_policy import ClusterTaintPolicy
from controlplane.kinds.template import Template
from controlplane.kinds.workload_rebalancer import listed_template, selects
from controlplane.propagation.bindings import binding_ref
from controlplane.scheduling.ledger import RESERVATION_EXPIRY
from controlplane.settings import Settings

FLEET_KINDS = frozenset(
    (CLUSTER, CLUSTER_TAINT_POLICY, EVICTION_HOLD, MAINTENANCE_WINDOW, *POLICIES, *OVERRIDE_POLICIES)
)
"""Kinds whose deletion changes more than the deleted workloads."""


def supposed_snapshot(
    state: State, changes: Sequence[Change], *, settings: Settings, base: Settings, now: datetime
) -> Snapshot:
    """Return the fleet and all bindings that the changes may concern.

    These are the bindings on the named clusters, and on clusters with an evicting taint: they are in the queue already.
    Added are those that would return to a cluster, those of edited policies and of deleted objects, and those to
    reschedule. `base`: the settings without FailoverConfiguration/default.
    """
    if _only_removes(changes):
        deleted = [Ref.parse(text) for change in changes if isinstance(change, ObjectsDeleted) for text in change.refs]
        return Snapshot((), _in_order(_deleted(state, deleted)), base=base)
    stored = state.get(refs) if (refs := edited_refs(changes)) else {}
    edited, invalid = admitted_policies(changes, stored, settings, now=now)
    deleted = [Ref.parse(text) for change in changes if isinstance(change, ObjectsDeleted) for text in change.refs]
    by_policy = policy_edits(state, {ref: one for ref, one in edited.items() if ref.kind in POLICIES}, deleted)
    clusters: tuple[Cluster, ...] = tuple(state.list(CLUSTER))
    taint_policies: tuple[ClusterTaintPolicy, ...] = tuple(state.list(CLUSTER_TAINT_POLICY))
    reserved = state.reserved_capacity(within=RESERVATION_EXPIRY)
    rescheduled = rescheduled_bindings(state, changes)
    bindings = _in_order(
        {
            **_on_clusters(state, changes, clusters_concerned(changes, clusters, taint_policies)),
            **_deleted(state, deleted),
            **by_policy.bindings,
            **(state.get(rescheduled) if rescheduled else {}),
        }
    )
    flapping = {cluster.metadata.name: for_flapping(cluster) for cluster in clusters if cluster.flapping}
    holds = Holds(tuple(state.list(EVICTION_HOLD)), tuple(state.list(MAINTENANCE_WINDOW)), flapping)
    if holds.needs_labels() or Holds(tuple(_edited_holds(edited))).needs_labels():
        holds = replace(holds, labels=workload_labels(state, bindings.values()))
    return Snapshot(
        clusters=clusters,
        bindings=bindings,
        rows=state.rows(Eviction, "binding", [str(ref) for ref in bindings]) if bindings else {},
        taint_policies=taint_policies,
        fleet=fleet_state(state),
        holds=holds,
        reserved_capacity=reserved,
        applications=applications(state, bindings.values()),
        groups=workload_groups(state, bindings.values()),
        base=base,
        edited=edited,
        invalid=invalid,
        templates=by_policy.templates,
        policies=by_policy.policies,
        rescheduled=frozenset(rescheduled),
        priorities=by_policy.priorities,
        copies=override_edits(state, edited, deleted),
    )


def _edited_holds(edited: Mapping[Ref, Any]) -> Iterable[EvictionHold]:
    return (hold for hold in edited.values() if isinstance(hold, EvictionHold))


def _only_removes(changes: Sequence[Change]) -> bool:
    """Test whether nothing but workloads, bindings and namespaces is deleted. Copies are removed then, and none
    moves."""
    deleted = [change for change in changes if isinstance(change, ObjectsDeleted)]
    kinds = {Ref.parse(text).kind for change in deleted for text in change.refs}
    return len(deleted) == len(changes) and not kinds & FLEET_KINDS


def count_concerned(
    state: State, changes: Sequence[Change], *, limit: int, at_least: Callable[[Sequence[str]], int] = lambda names: 0
) -> int:
    """Return how many bindings the changes may concern, at most about `limit`. At most one query for each index.

    `at_least`: returns a number of bindings on clusters that is known without a search. If it reaches `limit`, nothing
    is searched.
    """
    gates = any(isinstance(change, GateOrRateChanged) for change in changes)
    policies_of_fleet = state.list(CLUSTER_TAINT_POLICY) if gates else ()
    removes = _only_removes(changes)
    names = [] if removes else clusters_concerned(changes, state.list(CLUSTER), policies_of_fleet)
    if names and (known := at_least(names)) >= limit:
        return known
    deleted = [Ref.parse(text) for change in changes if isinstance(change, ObjectsDeleted) for text in change.refs]
    policies = [*edited_refs(changes), *(ref for ref in deleted if ref.kind in POLICIES)]
    returning = sorted({change.cluster for change in changes if isinstance(change, Failback)})
    found: set[Ref] = {*deleted[:limit], *rescheduled_bindings(state, changes, limit=limit)}
    found.update(concerned(state, written_overrides(changes), deleted, limit=limit))
    for index, values in (("placed", names), ("left", returning), ("policy", [str(ref) for ref in policies])):
        for kind in BINDINGS if values else ():
            found.update(state.refs_by_index(kind, index, values, limit=limit))
    for ref in deleted:
        if ref.kind == NAMESPACE:
            found.update(one.ref for one in state.list(BINDINGS[0], namespace=ref.name, limit=limit))
    return len(found)


def clusters_concerned(
    changes: Iterable[Change], clusters: Sequence[Cluster], taint_policies: Iterable[ClusterTaintPolicy]
) -> list[str]:
    """Return the sorted names of the clusters whose bindings the changes may concern.

    Override policies change copies where they are, and move none. `taint_policies`: all that are stored. A gate that
    is switched on lets them add their taints; an edit concerns those of the edited policies.
    """
    changes = list(changes)
    if changes and all(map(only_overrides, changes)):
        return []
    names = {cluster.metadata.name for cluster in clusters if cluster.has_taint(*EVICTING_EFFECTS)}
    for change in changes:
        match change:
            case ClustersLost():
                names.update(lost_clusters(change, clusters))
            case ClustersDrained(drained, _):
                names.update(drained)
            case TaintAdded(name, taint):
                names.update([name] if taint.effect in EVICTING_EFFECTS else [])
            case ClusterRemoved(name, _):
                names.add(name)
            case PolicyEdited():
                names.update(_tainted_by(written_taint_policies([change]).values(), clusters))
                names.update(cluster.metadata.name for cluster in clusters if cluster.ready != "True")
            case GateOrRateChanged():
                names.update(_tainted_by(taint_policies, clusters))
                names.update(cluster.metadata.name for cluster in clusters if cluster.ready != "True")
            case ObjectsDeleted():
                names.update(ref.name for ref in change.of_kinds({CLUSTER}))
    return sorted(names)


def _tainted_by(policies: Iterable[ClusterTaintPolicy], clusters: Iterable[Cluster]) -> Iterator[str]:
    """Yield the clusters to which policies add evicting taints because of their present conditions."""
    policies = tuple(policies)
    for cluster in clusters:
        conditions = cluster.status.conditions
        if any(evicting_taints(policy, cluster, conditions) for policy in policies):
            yield cluster.metadata.name


def _on_clusters(state: State, changes: Sequence[Change], names: Sequence[str]) -> dict[Ref, Binding]:
    """Return the bindings on these clusters, and those that would return to a cluster."""
    found: dict[Ref, Binding] = {}
    returning = sorted({change.cluster for change in changes if isinstance(change, Failback)})
    for kind in BINDINGS:
        for index, values in (("placed", names), ("left", returning)):
            for ones in state.by_index(kind, index, values).values() if values else ():
                found |= {binding.ref: binding for binding in ones}
    return found


def _deleted(state: State, deleted: Sequence[Ref]) -> dict[Ref, Binding]:
    """Return the bindings that are deleted, or whose workloads or namespaces are."""
    found: dict[Ref, Binding] = {}
    if deleted:
        found |= state.get([ref if ref.kind in BINDINGS else binding_ref(ref) for ref in deleted])
    for ref in deleted:
        if ref.kind == NAMESPACE:
            found |= {binding.ref: binding for binding in state.list(BINDINGS[0], namespace=ref.name)}
    return found


def rescheduled_bindings(state: State, changes: Iterable[Change], *, limit: int = 0) -> list[Ref]:
    """Return the bindings of the workloads that are scheduled again. `limit`: about so many of each change; 0: all.

    With a limit, a selector counts all workloads of its kind once there are more than that: to compare the labels of
    all of them would take too long for an answer that is only their number.
    """
    found: dict[Ref, None] = {}
    for change in changes:
        if not isinstance(change, Rescheduled):
            continue
        found |= dict.fromkeys(binding_ref(listed_template(workload)) for workload in change.workloads[: limit or None])
        if (selector := change.workload_selector) is not None:
            key = kind_key(selector.api_version, selector.kind)
            page: Sequence[Template] = state.list(key, namespace=selector.namespace, limit=limit)
            too_many = 0 < limit <= len(page)
            found |= dict.fromkeys(binding_ref(one.ref) for one in page if too_many or selects(selector, one))
    return list(found)


def _in_order(found: Mapping[Ref, Binding]) -> dict[Ref, Binding]:
    """Return the bindings in the order of their references, namespaced ones first."""
    return dict(sorted(found.items(), key=lambda item: (BINDINGS.index(item[0].kind), item[0])))
