"""Previews: which question of `insight.what_if` a write asks, so that its author reads the effects beforehand."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from controlplane.apimachinery.equality import same
from controlplane.apimachinery.meta import Object
from controlplane.apimachinery.names import UNJOIN_ANNOTATION, UNSCHEDULABLE_TAINT
from controlplane.clusters import fence
from controlplane.engine.decision import Delete, Put
from controlplane.insight.changes import (
    Change,
    ClusterRemoved,
    ClustersDrained,
    Cordoned,
    Failback,
    GateOrRateChanged,
    HoldEdited,
    ObjectsDeleted,
    PolicyEdited,
    Rescheduled,
    TaintAdded,
    TaintRemoved,
)
from controlplane.insight.effects import Effects
from controlplane.kinds import (
    BINDINGS,
    CLUSTER,
    CLUSTER_TAINT_POLICY,
    EVICTION_HOLD,
    FAILOVER_CONFIGURATION,
    MAINTENANCE_WINDOW,
    OVERRIDE_POLICIES,
    POLICIES,
)
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster
from controlplane.kinds.configuration import NAME, FailoverConfiguration
from controlplane.kinds.drain import Drain
from controlplane.kinds.drill import DRAIN, Drill
from controlplane.kinds.eviction_hold import EvictionHold
from controlplane.kinds.failback import Failback as FailbackObject
from controlplane.kinds.maintenance_window import MaintenanceWindow
from controlplane.kinds.override_policy import OverridePolicy
from controlplane.kinds.policy import Policy
from controlplane.kinds.taint_policy import ClusterTaintPolicy
from controlplane.kinds.template import Template
from controlplane.kinds.workload_rebalancer import WorkloadRebalancer, WorkloadRebalancerSpec

# Kinds whose deletion has effects on workloads, besides Cluster, FailoverConfiguration and workloads themselves.
DELETED = frozenset((*BINDINGS, *POLICIES, *OVERRIDE_POLICIES, CLUSTER_TAINT_POLICY, EVICTION_HOLD, MAINTENANCE_WINDOW))


def questions(writes: Iterable[Put | Delete]) -> tuple[Change, ...]:
    """Return what the writes change for workloads. (): nothing that is dangerous.

    All deletions of one batch are one change.
    """
    changes: list[Change] = []
    deleted: list[str] = []
    for write in writes:
        if is_deletion(write):
            old = write.old
            assert old is not None, "a deletion has an old object"
            if isinstance(old, Cluster):
                changes.append(ClusterRemoved(old.metadata.name, old.metadata.annotations.get(UNJOIN_ANNOTATION, "")))
            elif old.ref.kind == FAILOVER_CONFIGURATION and old.metadata.name == NAME:
                changes.append(GateOrRateChanged({}))
            elif old.ref.kind in DELETED or isinstance(old, Template):
                deleted.append(str(old.ref))
        elif isinstance(write, Put):
            changes += _edited(write.new, write.old)
    return (*changes, *((ObjectsDeleted(tuple(deleted)),) if deleted else ()))


def is_deletion(write: Put | Delete) -> bool:
    """Test whether a write deletes its object, at once or as soon as its finalizers are removed."""
    if isinstance(write, Delete):
        return True
    new, old = write.new.metadata, None if write.old is None else write.old.metadata
    return old is not None and new.deletion_timestamp is not None and old.deletion_timestamp is None


def _edited(new: Object, old: Object | None) -> Iterable[Change]:
    """Yield what a created or edited object changes for workloads."""
    match new:
        case Drain(spec=spec) if _starts(new, old):
            yield ClustersDrained((spec.cluster,), spec.rate)
        case Drill(spec=spec) if old is None and spec.mode == DRAIN:
            yield ClustersDrained(spec.clusters, spec.rate)
        case FailbackObject(spec=spec) if _starts(new, old) and spec.cluster and not spec.dry_run:
            yield Failback(spec.cluster, spec.rate)
        case Policy() | OverridePolicy() | ClusterTaintPolicy() if old is None or not same(old.spec, new.spec):  # type: ignore[attr-defined]
            yield PolicyEdited(msgspec.to_builtins(new))
        case EvictionHold() | MaintenanceWindow() if old is None or old.spec != new.spec:  # type: ignore[attr-defined]
            yield HoldEdited(msgspec.to_builtins(new))
        case FailoverConfiguration(spec=spec) if new.metadata.name == NAME:
            if not isinstance(old, FailoverConfiguration) or old.spec != spec:
                yield GateOrRateChanged(spec)
        case WorkloadRebalancer():
            yield from _rescheduled(new, old)
        case Cluster() if isinstance(old, Cluster) and old.spec.taints != new.spec.taints:
            yield from _tainted(new, old)
        case _:
            return


def _starts(new: Drain | FailbackObject, old: Object | None) -> bool:
    """Test whether a write starts a Drain or Failback, resumes it after a stop, or changes its `dryRun`."""
    if new.spec.stop:
        return False
    before = old.spec if isinstance(old, Drain | FailbackObject) else None
    return before is None or before.stop or getattr(before, "dry_run", False) != getattr(new.spec, "dry_run", False)


def _rescheduled(new: WorkloadRebalancer, old: Object | None) -> Iterable[Change]:
    """Yield the workloads that this write adds. A workload that was listed before is not rescheduled again."""
    before = old.spec if isinstance(old, WorkloadRebalancer) else WorkloadRebalancerSpec()
    workloads = tuple(one for one in new.spec.workloads if one not in before.workloads)
    selector = new.spec.workload_selector if before.workload_selector is None else None
    if workloads or selector is not None:
        yield Rescheduled(workloads, selector)


def _tainted(new: Cluster, old: Cluster) -> Iterable[Change]:
    before = {(taint.key, taint.effect, taint.value) for taint in old.spec.taints}
    kept = {(taint.key, taint.effect) for taint in new.spec.taints}
    for taint in old.spec.taints:
        if taint.effect in EVICTING_EFFECTS and (taint.key, taint.effect) not in kept:
            yield TaintRemoved(new.metadata.name, taint.key, taint.effect)
    for taint in new.spec.taints:
        if (taint.key, taint.effect, taint.value) in before:
            continue
        if taint.key == UNSCHEDULABLE_TAINT:
            yield Cordoned((new.metadata.name,))
        else:
            yield TaintAdded(new.metadata.name, taint)


def named_clusters(changes: Iterable[Change]) -> list[str]:
    """Return the sorted names of the clusters that drains, taints, holds and deletions name."""
    names: set[str] = set()
    for change in changes:
        match change:
            case ClustersDrained(names=drained):
                names.update(drained)
            case TaintAdded(cluster=name) | TaintRemoved(cluster=name) | ClusterRemoved(name=name):
                names.add(name)
            case HoldEdited(hold=hold):
                names.update(hold.get("spec", {}).get("clusters", ()))
    return sorted(names)


def fenced_cluster(write: Put | Delete) -> str:
    """Return the name of the cluster that a write fences; "": it fences none."""
    if not isinstance(write, Put) or not isinstance(write.new, Cluster) or write.new.ref.kind != CLUSTER:
        return ""
    before = fence.fence_of(write.old) if isinstance(write.old, Cluster) else None
    made = fence.fence_of(write.new)
    return write.new.metadata.name if made is not None and made != before else ""


def subject_of(write: Put | Delete) -> str:
    """Return what a person types to confirm a large act: the clusters that an order names, else the object's name.

    A name that the server generates is new with each attempt, so its beginning is typed.
    """
    about = write.old if isinstance(write, Delete) else write.new
    if isinstance(about, Drain | FailbackObject) and about.spec.cluster:
        return about.spec.cluster
    if isinstance(about, Drill | MaintenanceWindow) and about.spec.clusters:
        return ", ".join(about.spec.clusters)
    metadata = about.metadata
    is_new = isinstance(write, Put) and write.old is None
    return metadata.generate_name.rstrip("-") if is_new and metadata.generate_name else metadata.name


def is_final(write: Put | Delete) -> bool:
    """Test whether a write cannot be taken back: a fence, or a cluster that leaves. Its subject is always typed."""
    return bool(fenced_cluster(write)) or (is_deletion(write) and isinstance(write.old, Cluster))


def has_effects(effects: Effects) -> bool:
    """Test whether there is anything to report about a write."""
    lists = (effects.moves, effects.without_place, effects.held, effects.removed, effects.overridden)
    return any(lists) or bool(effects.overpacked or effects.cancelled)


def concerned(effects: Effects) -> int:
    """Return how many workloads move, stop, change in their content, or stay because their eviction is cancelled."""
    lists = (effects.moves, effects.without_place, effects.held, effects.removed, effects.overridden)
    return len({one.binding for found in lists for one in found}) + effects.cancelled


def preview_text(effects: Effects) -> str:
    """Return the warning for the author of a write: the effects in one line, and how long they take."""
    sentence = "; ".join((effects.sentence, *effects.remarks))
    if effects.eta_seconds is None:
        return f"effects: {sentence}"
    return f"effects: {sentence}; the last eviction takes place in about {_duration(effects.eta_seconds)}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
