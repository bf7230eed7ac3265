"""Previews that follow from a write alone: orders, a placement that a person changes, fences, holds, cordons, rates."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from controlplane.apimachinery.meta import Ref
from controlplane.clusters import fence
from controlplane.engine.decision import Delete, Put
from controlplane.eviction import operator_orders
from controlplane.eviction.refuge import Refuge
from controlplane.insight.previews import is_deletion
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.configuration import NAME, FailoverConfiguration
from controlplane.kinds.eviction_hold import EvictionHold, EvictionHoldSpec
from controlplane.kinds.maintenance_window import MaintenanceWindow
from controlplane.kinds.rows import HELD_BY_HAND, NO_REFUGE, Eviction

STEERING: Final = (("featureGates", "Failover"), ("resourceEvictionRate",), ("secondaryResourceEvictionRate",))
"""Fields of a FailoverConfiguration that decide whether and how fast copies leave failed clusters."""


def order_text(verb: str, row: Eviction, refuge: Refuge | None, *, now: datetime) -> str:
    """Return the warning for the author of an order about an eviction.

    `refuge`: where the copy would go. None: not known.
    """
    workload = Ref.parse(row.binding)
    name = f"{workload.namespace}/{workload.name}".lstrip("/")
    if verb == operator_orders.HOLD:
        return f"effects: the copy of {name} stays on cluster {row.cluster} until it is released"
    why = row.message or row.reason
    if verb == operator_orders.RELEASE:
        stays = row.held and row.reason != HELD_BY_HAND
        then = f"stays held: {why}" if stays else "goes on in the order of the queue"
        return f"effects: the eviction of {name} from cluster {row.cluster} {then}"
    if verb == operator_orders.SKIP:
        return f"effects: the copy of {name} stays on cluster {row.cluster} while its present taints last"
    if row.held and row.reason != NO_REFUGE:
        return f"effects: {name} goes first, but stays on cluster {row.cluster} for now: {why}"
    first = f"{name} leaves cluster {row.cluster} before all others"
    if row.due_at is not None and row.due_at > now:
        first += f" that are due then, but not before it is due: {row.due_at:%Y-%m-%dT%H:%M:%SZ}"
    if refuge is None:
        return f"effects: {first}"
    if not refuge.found:
        return f"effects: {name} goes first, but stays on cluster {row.cluster} for now: {refuge.why}"
    return f"effects: {first}; {refuge.why}"


def placement_text(write: Put | Delete) -> str:
    """Return the warning for the author of a revert or of another change of a placement; "": nothing moves."""
    if not isinstance(write, Put) or not isinstance(write.new, Binding) or not isinstance(write.old, Binding):
        return ""
    old, new = write.old.spec.clusters, write.new.spec.clusters
    if old == new:
        return ""
    name = f"{write.new.metadata.namespace}/{write.new.metadata.name}".lstrip("/")
    return f"effects: moves 1, {name} from {_targets(write.old)} to {_targets(write.new)}"


def _targets(binding: Binding) -> str:
    targets = binding.spec.clusters
    return ", ".join(f"{at.name} ({at.replicas})" if at.replicas else at.name for at in targets) or "no cluster"


def cordon_text(name: str, bindings: int) -> str:
    """Return the warning for the author of a cordon. `bindings`: their number on the cluster."""
    stay = "1 binding stays" if bindings == 1 else f"{bindings} bindings stay"
    return f"effects: moves nothing, {stay} on cluster {name}, which takes no new copies"


def fence_text(name: str, waiting: int) -> str:
    """Return the warning for the author of a fence. `waiting`: workloads whose new copies wait for it."""
    if not waiting:
        return (
            f"effects: nothing starts now, because no new copy waits for cluster {name} to be confirmed as down; "
            "while the fence lasts, later new copies start at once"
        )
    workloads = "1 workload starts" if waiting == 1 else f"{waiting} workloads start"
    return f"effects: the new copies of {workloads}; they wait for cluster {name} to be confirmed as down"


def unfence_text(write: Put | Delete) -> str:
    """Return the warning for the author of the removal of a fence; "": the write removes none."""
    if not isinstance(write, Put) or not isinstance(write.new, Cluster) or not isinstance(write.old, Cluster):
        return ""
    if fence.fence_of(write.old) is None or fence.fence_of(write.new) is not None:
        return ""
    name = write.new.metadata.name
    return (
        f"effects: with purge mode Directly, new copies that replace those on cluster {name} wait again "
        "until the cluster is confirmed as down"
    )


def hold_text(write: Put | Delete, *, now: datetime) -> str:
    """Return the warning about a hold or window that changes no waiting eviction; "": it changes none."""
    hold = write.old if isinstance(write, Delete) else write.new
    if not isinstance(hold, EvictionHold | MaintenanceWindow):
        return ""
    if is_deletion(write):
        return "effects: none, because no waiting eviction is held by it"
    before = write.old
    if isinstance(before, EvictionHold | MaintenanceWindow) and before.spec == hold.spec:
        return ""
    return f"effects: no waiting eviction changes; {_later(hold, now=now)}"


def _later(hold: EvictionHold | MaintenanceWindow, *, now: datetime) -> str:
    """Return which evictions a hold or window concerns from now on."""
    if isinstance(hold, EvictionHold):
        ends = hold.spec.expires_at
        if ends is not None and ends <= now:
            return "the hold has expired"
        until = "" if ends is None else f" until {ends:%Y-%m-%dT%H:%M:%SZ}"
        return f"later evictions {_scope(hold.spec)} are held{until}"
    begins, ends = hold.spec.begins, hold.spec.until
    if ends is not None and ends <= now:
        return "the window is over"
    since = "" if begins is None or begins <= now else f" from {begins:%Y-%m-%dT%H:%M:%SZ}"
    until = "" if ends is None else f" until {ends:%Y-%m-%dT%H:%M:%SZ}"
    return f"later evictions from {_clusters(hold.spec.clusters)} are held{since}{until}"


def _scope(spec: EvictionHoldSpec) -> str:
    parts = [f"from {_clusters(spec.clusters)}"] if spec.clusters else []
    if spec.namespaces:
        parts.append(f"in namespace{'s' if len(spec.namespaces) > 1 else ''} {', '.join(spec.namespaces)}")
    if spec.selector is not None:
        parts.append("of workloads that its selector selects")
    return " ".join(parts) or "of the whole fleet"


def _clusters(names: tuple[str, ...]) -> str:
    return f"cluster{'s' if len(names) > 1 else ''} {', '.join(names)}"


def steering_text(write: Put | Delete) -> str:
    """Return the warning about a gate or rate that changes no waiting eviction; "": the write changes neither."""
    subject = write.old if isinstance(write, Delete) else write.new
    if not isinstance(subject, FailoverConfiguration) or subject.metadata.name != NAME:
        return ""
    old = write.old.spec if isinstance(write.old, FailoverConfiguration) else {}
    new = {} if is_deletion(write) else subject.spec
    changed = [
        f"{'.'.join(field)} from {_value(old, field)} to {_value(new, field)}"
        for field in STEERING
        if _value(old, field) != _value(new, field)
    ]
    return f"effects: no eviction that waits changes; later ones: {', '.join(changed)}" if changed else ""


def _value(spec: dict[str, Any], field: tuple[str, ...]) -> str:
    found: Any = spec
    for name in field:
        found = found.get(name) if isinstance(found, dict) else None
    return "default" if found is None else str(found).lower()
