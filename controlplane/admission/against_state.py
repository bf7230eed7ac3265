"""What a write means in view of everything else: refused where it cannot work, a Warning where it does less than it
seems to. Admission sees one object; this sees the state, and is asked after it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import Invalid
from controlplane.apimachinery.meta import Object, Ref
from controlplane.clusters import taint_policies, taints
from controlplane.clusters.tolerations import spelled
from controlplane.engine.state import State
from controlplane.eviction import failback
from controlplane.kind import Kind
from controlplane.kinds import (
    BINDINGS,
    CLUSTER,
    CLUSTER_TAINT_POLICY,
    EVICTION_HOLD,
    MAINTENANCE_WINDOW,
    NAMESPACE,
    POLICIES,
)
from controlplane.kinds.binding import Binding, origin
from controlplane.kinds.cluster import EVICTING_EFFECTS, Taint
from controlplane.kinds.drain import DRAIN
from controlplane.kinds.eviction import eviction_name
from controlplane.kinds.failback import FAILBACK, Failback
from controlplane.kinds.rows import ENDED, Eviction
from controlplane.settings import Settings

MOST_NAMED = 5  # taints
MOST_BINDINGS = 1000  # of a policy, of either scope, whose evictions are counted


def told(
    state: State, kind: Kind, new: Object, old: Object | None, settings: Settings, *, now: datetime
) -> tuple[str, ...]:
    """Return what whoever writes an admitted object should know. `old` None: it is new.

    Raises Invalid with all causes where it cannot work as things are.
    """
    if kind.key == FAILBACK:
        _check_failback(state, kind, new, old, now=now)
    if kind.key == DRAIN and old is None:
        _check_drain(state, kind, new)
    if kind.key in (EVICTION_HOLD, MAINTENANCE_WINDOW):
        return (*_strangers(state, new), *_passed(new, now=now))
    if old is not None and kind.key == CLUSTER_TAINT_POLICY:
        return _withdrawn(state, old, "this edit", kept=_listed(new) & _listed(old))
    found: tuple[str, ...] = ()
    if old is not None and kind.key in POLICIES and old.metadata.deletion_timestamp is not None:
        found = (f"{kind.resource.kind} {old.metadata.name} is being deleted: apply it again once it is gone",)
    if old is not None and kind.key in (*POLICIES, *BINDINGS) and _spec(new) != _spec(old):
        found += _queued(state, kind, new, settings)
    return found


def told_of_deletion(state: State, old: Object) -> tuple[str, ...]:
    """Return what whoever deletes an object should know; a dry run shows it beforehand."""
    return _withdrawn(state, old, "this deletion") if old.ref.kind == CLUSTER_TAINT_POLICY else ()


def _check_drain(state: State, kind: Kind, drain: Any) -> None:
    """Raise Invalid where there is no such cluster: a Drain of it would be finished at once, and nothing empty."""
    name = drain.spec.cluster
    if Ref(CLUSTER, "", name) not in state.get([Ref(CLUSTER, "", name)]):
        cause = invalid("spec.cluster", name, "there is no such cluster; see kubectl get clusters")
        raise Invalid.of(kind.resource.kind, drain.metadata.name, [cause], group=kind.resource.group)


def _strangers(state: State, holding: Any) -> tuple[str, ...]:
    """Tell which clusters and namespaces a hold or a window names that there are none of: it keeps nothing there until
    there are."""
    clusters = [Ref(CLUSTER, "", name) for name in dict.fromkeys(holding.spec.clusters)]
    namespaces = [Ref(NAMESPACE, "", name) for name in dict.fromkeys(getattr(holding.spec, "namespaces", ()))]
    known, said = state.get([*clusters, *namespaces]), list[str]()
    for field, named in (("cluster", clusters), ("namespace", namespaces)):
        if strange := ", ".join(f'"{ref.name}"' for ref in named if ref not in known):
            said.append(f"spec.{field}s: there is no {field} {strange} (yet); see kubectl get {field}s")
    return tuple(said)


def _passed(holding: Any, *, now: datetime) -> tuple[str, ...]:
    """Tell that a hold or a window is over already, as one written in another time zone may be."""
    window = holding.ref.kind == MAINTENANCE_WINDOW
    field, ends = ("until", holding.spec.until) if window else ("expiresAt", holding.spec.expires_at)
    if ends is None or now < ends:
        return ()
    return (f"spec.{field}: it was over at {ends:%Y-%m-%dT%H:%M:%SZ}, it is {now:%Y-%m-%dT%H:%M:%SZ}: nothing is held",)


def _listed(policy: Any) -> frozenset[tuple[taints.Identity, str]]:
    """Return the taints a ClusterTaintPolicy adds, in either dialect, each with its rule."""
    listed = (*policy.spec.taints_to_add, *policy.spec.taints)
    return frozenset(((one.key, one.effect), taint_policies.rule_of(policy.spec, one)) for one in listed)


def _withdrawn(
    state: State, policy: Any, doing: str, *, kept: Collection[tuple[taints.Identity, str]] = ()
) -> tuple[str, ...]:
    """Tell which taints go with a ClusterTaintPolicy, and what of the queue goes with them (D3, D12). `kept`: those it
    still adds after an edit, by the same rule."""
    stay = {identity for identity, _ in kept}
    waiting, found, dropped = state.evictions_by_cluster(), list[str](), 0
    for cluster in state.list(CLUSTER):
        known = taints.owned(cluster)
        own = [one for one in cluster.spec.taints if _owned_by(known, one) == {taint_policies.owner(policy)}]
        gone = [one for one in own if (one.key, one.effect) not in stay]
        found += [f"{spelled(one)} from cluster {cluster.metadata.name}" for one in gone]
        left = [one for one in cluster.spec.taints if one not in gone]
        if gone and not any(one.effect in EVICTING_EFFECTS for one in left):
            dropped += waiting.get(cluster.metadata.name, 0)
    if not found:
        return ()
    first = ", ".join(found[:MOST_NAMED]) + (f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else "")
    queue = f", and with them {dropped} queued {'eviction' if dropped == 1 else 'evictions'}" if dropped else ""
    return (f"{doing} withdraws {len(found)} {'taint' if len(found) == 1 else 'taints'}: {first}{queue}",)


def _owned_by(known: taints.Owners, taint: Taint) -> set[str]:
    return set(known.get((taint.key, taint.effect), taints.Ownership()).by)


def _spec(obj: Any) -> Any:
    return obj.spec


def _check_failback(state: State, kind: Kind, new: Any, old: Any, *, now: datetime) -> None:
    """Raise Invalid where what shall go back cannot (D23): when it is created, and when an edit sets it going."""
    one: Failback = new
    if old is not None:
        if not _still(old) or _still(new):
            return
        one = one.with_spec(binding="")  # it may be on its way
    named = failback.binding_ref(one.spec.binding)
    found = state.get([named, Ref(CLUSTER, "", one.spec.cluster)])
    binding: Binding | None = found.get(named)
    known = None if binding is None else origin.home(binding)
    away = state.get([Ref(CLUSTER, "", name) for name in known.left]) if known is not None else {}
    clusters = {ref.name: cluster for ref, cluster in {**found, **away}.items() if ref.kind == CLUSTER}
    causes = list(failback.refusal_causes(one.spec, binding, clusters, now=now))
    if causes:
        raise Invalid.of(kind.resource.kind, one.metadata.name, causes, group=kind.resource.group)


def _still(one: Failback) -> bool:
    return one.spec.stop or one.spec.dry_run


def _queued(state: State, kind: Kind, edited: Object, settings: Settings) -> tuple[str, ...]:
    """Tell who edits a policy or a binding while evictions by it are queued what the edit does to them (D6)."""
    if not state.evictions_by_cluster():
        return ()
    refs = [edited.ref] if kind.key in BINDINGS else _claimed(state, edited.ref)
    found = state.rows(Eviction, "binding", [str(ref) for ref in refs]).values()
    rows = [row for of in found for row in of if row.due_at is not None and row.state not in ENDED]
    if not rows:
        return ()
    least = "at least " if len(refs) >= MOST_BINDINGS else ""
    count = f"{least}{len(rows)} {'eviction' if len(rows) == 1 else 'evictions'} of its workloads queued"
    if settings.eviction.reevaluate_policies:
        return (f"{count}: this edit has them judged anew (eviction.reevaluatePolicies is on)",)
    first = min(rows, key=lambda row: row.key)
    place, name = Ref.parse(first.binding).namespace, eviction_name(first)
    where = f"namespaces/{place}/evictions/{name}" if place else f"clusterevictions/{name}"
    return (
        f"{count}: this edit neither stops, hastens nor adds to them, who leaves was decided when the taint appeared "
        f"(D6). To keep a copy where it is, POST to its skip, e.g. {where}/skip",
    )


def _claimed(state: State, policy: Ref) -> list[Ref]:
    """Return the first bindings of a policy."""
    return [ref for key in BINDINGS for ref in state.refs_by_index(key, "policy", str(policy), limit=MOST_BINDINGS)]
