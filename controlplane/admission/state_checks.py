"""Checks of an admitted write against other stored objects, for example a Drain of a cluster that does not exist.

A write that cannot work is refused with Invalid. A write that has less effect than its author may expect is accepted
with a Warning. Admission itself (`admit`) sees one object only; these checks run after it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from controlplane.admission import quota_checks
from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import Invalid
from controlplane.apimachinery.meta import Object, Ref
from controlplane.clusters import taint_policies, taints
from controlplane.clusters.tolerations import spelled
from controlplane.engine.state import State
from controlplane.eviction import failback
from controlplane.eviction.eligibility import earliest_judgement, judge_taints, stays_as_decided
from controlplane.kind import Kind
from controlplane.kinds import (
    BINDINGS,
    CLUSTER,
    CLUSTER_TAINT_POLICY,
    EVICTION_HOLD,
    FEDERATED_QUOTA,
    INTERPRETER_CUSTOMIZATION,
    MAINTENANCE_WINDOW,
    NAMESPACE,
    POLICIES,
    RESOURCE_BINDING,
)
from controlplane.kinds.binding import Binding, ResourceBindingSpec, origin
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster, Taint
from controlplane.kinds.drain import DRAIN
from controlplane.kinds.drill import DRILL, MOST_SIMULATED, SIMULATED, drain_name
from controlplane.kinds.eviction import eviction_name
from controlplane.kinds.failback import FAILBACK, Failback
from controlplane.kinds.interpreter_customization import OPERATIONS, script_path
from controlplane.kinds.policy import PropagationSpec
from controlplane.kinds.rows import ENDED, NO_REFUGE, STATE_MISSING, Eviction
from controlplane.settings import Settings

MAX_NAMED_TAINTS = 5  # in a warning
MAX_BINDINGS = 1000  # bindings of a policy whose evictions are counted, per scope


def check_write(
    state: State, kind: Kind, new: Object, old: Object | None, settings: Settings, *, now: datetime
) -> tuple[str, ...]:
    """Return the warnings for the author of an admitted write. `old` None: the object is created.

    Raises Invalid with all causes if the object cannot work in the present state, and Forbidden if a binding would
    exceed a quota.
    """
    if kind.key == FAILBACK:
        _check_failback(state, kind, new, old, now=now)
    if kind.key == DRAIN and old is None:
        _check_drain(state, kind, new)
    if kind.key == DRILL and old is None:
        _check_drill(state, kind, new)
    if kind.key == INTERPRETER_CUSTOMIZATION:
        _check_customization(state, kind, new)
    if kind.key == RESOURCE_BINDING:
        quota_checks.check_binding(state, new, old, settings)
    if kind.key == FEDERATED_QUOTA:
        return quota_checks.warnings(state, new, settings)
    if kind.key in (EVICTION_HOLD, MAINTENANCE_WINDOW):
        return (*_unknown_names(state, new), *_already_over(new, now=now))
    if old is not None and kind.key == CLUSTER_TAINT_POLICY:
        return _withdrawn_taints(state, old, "this edit", kept=_listed(new) & _listed(old))
    warnings: tuple[str, ...] = ()
    if old is not None and kind.key in POLICIES and old.metadata.deletion_timestamp is not None:
        warnings = (f"{kind.resource.kind} {old.metadata.name} is being deleted: apply it again once it is gone",)
    if old is not None and kind.key in (*POLICIES, *BINDINGS) and _spec(new) != _spec(old):
        warnings += _queued_evictions(state, kind, new, settings)
        if kind.key in BINDINGS and settings.gate("Failover"):
            warnings += _targets_that_leave(state, new, old, now=now)
    return warnings


def deletion_warnings(state: State, old: Object) -> tuple[str, ...]:
    """Return the warnings for a user who deletes an object. A dry run returns them too."""
    if old.ref.kind == FEDERATED_QUOTA:
        return quota_checks.deletion_warnings(old)
    return _withdrawn_taints(state, old, "this deletion") if old.ref.kind == CLUSTER_TAINT_POLICY else ()


def _check_drain(state: State, kind: Kind, drain: Any) -> None:
    """Raise Invalid if the cluster of a Drain does not exist. The Drain would finish at once without effect."""
    name = drain.spec.cluster
    if Ref(CLUSTER, "", name) not in state.get([Ref(CLUSTER, "", name)]):
        cause = invalid("spec.cluster", name, "there is no such cluster; see kubectl get clusters")
        raise Invalid.of(kind.resource.kind, drain.metadata.name, [cause], group=kind.resource.group)


def _check_customization(state: State, kind: Kind, new: Any) -> None:
    """Raise Invalid if another customization has a script for the same operation of the same kind.

    Scripts for InterpretDependency may stand in several customizations, because the dependencies of all are added up.
    """
    own = {operation for operation, _ in new.scripts()} - {"InterpretDependency"}
    causes = [
        invalid(
            script_path(OPERATIONS[operation][0]),
            "…",
            f"conflicting with InterpreterOperation({operation}) of existing "
            f"ResourceInterpreterCustomization({other.metadata.name})",
        )
        for other in state.list(INTERPRETER_CUSTOMIZATION)
        if other.metadata.name != new.metadata.name and other.spec.target == new.spec.target
        for operation, _ in other.scripts()
        if operation in own
    ]
    if causes:
        raise Invalid.of(kind.resource.kind, new.metadata.name, causes, group=kind.resource.group)


def _check_drill(state: State, kind: Kind, drill: Any) -> None:
    """Raise Invalid if a cluster of a Drill does not exist, has too many workloads, or if a Drain has its name."""
    known = state.get([Ref(CLUSTER, "", name) for name in drill.spec.clusters])
    causes = [
        invalid(f"spec.clusters[{index}]", name, "there is no such cluster; see kubectl get clusters")
        for index, name in enumerate(drill.spec.clusters)
        if Ref(CLUSTER, "", name) not in known
    ]
    if drill.spec.mode == SIMULATED:
        placed = [state.refs_by_index(one, "placed", drill.spec.clusters, limit=MOST_SIMULATED + 1) for one in BINDINGS]
        if sum(map(len, placed)) > MOST_SIMULATED:
            many = f"a simulated drill computes at most {MOST_SIMULATED} workloads, and these clusters have more: "
            ask = "choose fewer clusters, drain them (spec.mode Drain), or ask What if: lifeboat whatif --lost NAME"
            causes.append(invalid("spec.clusters", drill.spec.clusters, many + ask))
    else:
        orders = (DRAIN, FAILBACK) if drill.spec.returns else (DRAIN,)
        named = [Ref(order, "", drain_name(drill, name)) for order in orders for name in drill.spec.clusters]
        causes += [
            invalid("metadata.name", drill.metadata.name, f"{ref.kind} {ref.name} exists; choose another name")
            for ref in state.get(named)
        ]
    if causes:
        raise Invalid.of(kind.resource.kind, drill.metadata.name, causes, group=kind.resource.group)


def _unknown_names(state: State, hold: Any) -> tuple[str, ...]:
    """Warn of clusters and namespaces in an EvictionHold or MaintenanceWindow that do not exist (yet)."""
    clusters = [Ref(CLUSTER, "", name) for name in dict.fromkeys(hold.spec.clusters)]
    namespaces = [Ref(NAMESPACE, "", name) for name in dict.fromkeys(getattr(hold.spec, "namespaces", ()))]
    known, warnings = state.get([*clusters, *namespaces]), list[str]()
    for field, refs in (("cluster", clusters), ("namespace", namespaces)):
        if unknown := ", ".join(f'"{ref.name}"' for ref in refs if ref not in known):
            warnings.append(f"spec.{field}s: there is no {field} {unknown} (yet); see kubectl get {field}s")
    return tuple(warnings)


def _already_over(hold: Any, *, now: datetime) -> tuple[str, ...]:
    """Warn that a hold or a window has ended already, for example because its time was meant in another time zone."""
    window = hold.ref.kind == MAINTENANCE_WINDOW
    field, ends = ("until", hold.spec.until) if window else ("expiresAt", hold.spec.expires_at)
    if ends is None or now < ends:
        return ()
    times = f"{ends:%Y-%m-%dT%H:%M:%SZ} has passed, it is now {now:%Y-%m-%dT%H:%M:%SZ}"
    return (f"spec.{field}: {times}: nothing is held",)


def _listed(policy: Any) -> frozenset[tuple[taints.Identity, str]]:
    """Return the taints of spec.taintsToAdd and spec.taints of a ClusterTaintPolicy, each with its rule."""
    listed = (*policy.spec.taints_to_add, *policy.spec.taints)
    return frozenset(((taint.key, taint.effect), taint_policies.rule_of(policy.spec, taint)) for taint in listed)


def _withdrawn_taints(
    state: State, policy: Any, action: str, *, kept: Collection[tuple[taints.Identity, str]] = ()
) -> tuple[str, ...]:
    """Warn of the taints that an edit or the deletion (`action`) of a ClusterTaintPolicy removes from clusters.

    The warning also counts the queued evictions that are dropped with the taints. `kept`: taints that the policy still
    adds by the same rule. [taint-ownership] [recovered-clusters-cancel]
    """
    still_added = {identity for identity, _ in kept}
    waiting, removed, dropped = state.evictions_by_cluster(), list[str](), 0
    for cluster in state.list(CLUSTER):
        known = taints.owned(cluster)
        own = [taint for taint in cluster.spec.taints if _owned_by(known, taint) == {taint_policies.owner(policy)}]
        going = [taint for taint in own if (taint.key, taint.effect) not in still_added]
        removed += [f"{spelled(taint)} from cluster {cluster.metadata.name}" for taint in going]
        left = [taint for taint in cluster.spec.taints if taint not in going]
        if going and not any(taint.effect in EVICTING_EFFECTS for taint in left):
            dropped += waiting.get(cluster.metadata.name, 0)
    if not removed:
        return ()
    more = len(removed) - MAX_NAMED_TAINTS
    first = ", ".join(removed[:MAX_NAMED_TAINTS]) + (f" and {more} more" if more > 0 else "")
    queue = f", and with them {dropped} queued {'eviction' if dropped == 1 else 'evictions'}" if dropped else ""
    return (f"{action} withdraws {len(removed)} {'taint' if len(removed) == 1 else 'taints'}: {first}{queue}",)


def _owned_by(known: taints.Owners, taint: Taint) -> set[str]:
    """Return the owners of a taint: policies, or parts of the product."""
    return set(known.get((taint.key, taint.effect), taints.Ownership()).by)


def _spec(obj: Any) -> Any:
    return obj.spec


def _check_failback(state: State, kind: Kind, new: Any, old: Any, *, now: datetime) -> None:
    """Raise Invalid if a Failback cannot do its work, when it is created and when an edit starts it [edits-by-hand]."""
    checked: Failback = new
    if old is not None:
        if not _is_inactive(old) or _is_inactive(new):
            return
        checked = checked.with_spec(binding="")  # its binding may be moving already
    binding_ref = failback.binding_ref(checked.spec.binding)
    found = state.get([binding_ref, Ref(CLUSTER, "", checked.spec.cluster)])
    binding: Binding | None = found.get(binding_ref)
    known = None if binding is None else origin.origin_of(binding)
    away = state.get([Ref(CLUSTER, "", name) for name in known.left]) if known is not None else {}
    clusters = {ref.name: cluster for ref, cluster in {**found, **away}.items() if ref.kind == CLUSTER}
    causes = list(failback.refusal_causes(checked.spec, binding, clusters, now=now))
    if causes:
        raise Invalid.of(kind.resource.kind, checked.metadata.name, causes, group=kind.resource.group)


def _is_inactive(known: Failback) -> bool:
    return known.spec.stop or known.spec.dry_run


def _queued_evictions(state: State, kind: Kind, edited: Any, settings: Settings) -> tuple[str, ...]:
    """Return warnings if copies of an edited policy or binding are on clusters with evicting taints; they say whether
    the edit changes what happens to them.

    It is decided when the taint appears [judged-once], unless eviction.reevaluatePolicies is on.
    """
    refs = [edited.ref] if kind.key in BINDINGS else _bindings_of(state, edited.ref)
    by_binding = state.rows(Eviction, "binding", [str(ref) for ref in refs]) if refs else {}
    judged = [row for rows in by_binding.values() for row in rows if row.state not in ENDED]
    rows = [row for row in judged if row.due_at is not None]
    staying = () if settings.eviction.reevaluate_policies else _staying(state, edited.spec, judged)
    if not rows:
        return staying
    at_least = "at least " if len(refs) >= MAX_BINDINGS else ""
    count = f"{at_least}{len(rows)} {'eviction' if len(rows) == 1 else 'evictions'} of its workloads queued"
    if settings.eviction.reevaluate_policies:
        return (f"{count}: they are decided again after this edit (eviction.reevaluatePolicies is on)",)
    first = min(rows, key=lambda row: row.key)
    namespace, name = Ref.parse(first.binding).namespace, eviction_name(first)
    named = f"{namespace}/{name}" if namespace else name
    return (
        f"{count}: this edit neither stops nor changes them, because evictions are decided when the taint appears"
        f"{_held_ones(rows)}. To keep a copy on its cluster: "
        f'lifeboat skip {named} --reason "keep it"',
        *staying,
    )


def _staying(state: State, spec: ResourceBindingSpec | PropagationSpec, judged: Sequence[Eviction]) -> tuple[str, ...]:
    """Warn of copies that stay on clusters with evicting taints, as was decided, although the edited policy or binding
    would have the taints evict them."""
    names = sorted({row.cluster for row in judged if row.due_at is None})
    if not names:
        return ()
    clusters: dict[Ref, Cluster] = state.get([Ref(CLUSTER, "", name) for name in names])
    found = [
        (row.cluster, decided)
        for row in sorted(judged, key=lambda row: row.key)
        if (cluster := clusters.get(Ref(CLUSTER, "", row.cluster))) is not None
        and (decided := stays_as_decided(spec, cluster, row)) is not None
    ]
    if not found:
        return ()
    (name, taint), many = found[0], len(found) > 1
    count = f"{len(found)} copies of its workloads stay" if many else "1 copy of its workloads stays"
    where = f"cluster {name}" + (" and others" if len({on for on, _ in found}) > 1 else "")
    return (
        f"{count} on {where}: this edit does not evict {'them' if many else 'it'}, because that was decided when taint "
        f"{taint.key}:{taint.effect} appeared. It counts for taints that are added later; with "
        f"eviction.reevaluatePolicies each edit counts",
    )


def _held_ones(rows: list[Eviction]) -> str:
    """Return what an edit does to evictions that are held for want of a place or of state: they are tried again."""
    reasons = [row.reason for row in rows if row.held and row.reason in (NO_REFUGE, STATE_MISSING)]
    if not reasons:
        return ""
    named, verb = " or ".join(sorted(set(reasons))), "is" if len(reasons) == 1 else "are"
    return f"; {len(reasons)} of them {verb} held ({named}) and {verb} tried again after it"


def _targets_that_leave(state: State, new: Any, old: Any, *, now: datetime) -> tuple[str, ...]:
    """Warn of targets that an edit adds on clusters whose taints evict them again: a copy is judged when it arrives
    [judged-once] [edits-by-hand]."""
    added = [target.name for target in new.spec.clusters if old.spec.target(target.name) is None]
    if not added:
        return ()
    warnings = list[str]()
    clusters: dict[Ref, Cluster] = state.get([Ref(CLUSTER, "", name) for name in added])
    for cluster in clusters.values():
        begin = cluster.metadata.creation_timestamp or now
        judged = earliest_judgement(judge_taints(new.spec, cluster, (), clocks_from=begin))
        if judged is None or judged.due_at is None:
            continue
        when = "again" if judged.due_at <= now else f"again at {judged.due_at:%Y-%m-%dT%H:%M:%SZ}"
        warnings.append(
            f"spec.clusters: taint {judged.key}:{judged.effect} of cluster {cluster.metadata.name} evicts the copy "
            f"that this edit places there {when}: remove the taint first, or hold the eviction with an EvictionHold"
        )
    return tuple(warnings)


def _bindings_of(state: State, policy: Ref) -> list[Ref]:
    """Return the bindings of a policy: at most MAX_BINDINGS ResourceBindings, and as many ClusterResourceBindings."""
    value = str(policy)
    return [ref for kind in BINDINGS for ref in state.refs_by_index(kind, "policy", value, limit=MAX_BINDINGS)]
