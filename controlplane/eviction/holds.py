"""What keeps an eviction waiting whatever its token says: open holds, maintenance windows, an order about the item, and
a cluster that flaps."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from controlplane.apimachinery.meta import Ref, condition
from controlplane.clusters.taints import BY_DELETION, Identity, owned
from controlplane.engine.decision import Guard, unchanged
from controlplane.eviction import operator_orders
from controlplane.kinds import EVICTION_HOLD, MAINTENANCE_WINDOW
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import FLAPPING, Cluster
from controlplane.kinds.eviction_hold import EvictionHold
from controlplane.kinds.maintenance_window import MaintenanceWindow
from controlplane.kinds.rows import HELD_BY_HAND, MAINTENANCE, ON_HOLD, UNSTEADY, Eviction


class Holds(msgspec.Struct, frozen=True):
    """All holds and windows there are, and the labels of the workloads they may choose by (bindings' references)."""

    holds: tuple[EvictionHold, ...] = ()
    windows: tuple[MaintenanceWindow, ...] = ()
    # Clusters that are not told apart from well ones for long (fault 3), each with the taints it has for just that.
    flapping: Mapping[str, frozenset[Identity]] = {}
    labels: Mapping[Ref, dict[str, str]] = {}

    def needs_labels(self) -> bool:
        """Test whether any hold chooses workloads by their labels."""
        return any(one.spec.selector is not None for one in self.holds)

    def guards(self) -> tuple[Guard, ...]:
        """Return that nobody holds anything else meanwhile: a hold counts for what is decided but not yet written."""
        return unchanged(EVICTION_HOLD, self.holds), unchanged(MAINTENANCE_WINDOW, self.windows)

    def maintained(self, *, now: datetime) -> frozenset[str]:
        """Return the clusters being worked on now."""
        return frozenset(name for one in self.windows if one.open(now=now) for name in one.spec.clusters)

    def why(self, row: Eviction, binding: Binding, cluster: Cluster, *, now: datetime) -> tuple[str, str]:
        """Return reason and message of what keeps an eviction waiting; ("", "") where nothing does."""
        ordered = operator_orders.active_orders(binding, cluster, held=row.reason == HELD_BY_HAND)
        if operator_orders.HOLD in ordered:
            return manual_hold_reason(ordered[operator_orders.HOLD])
        for window in self.windows:
            if row.cluster in window.spec.clusters and window.open(now=now):
                until = "" if window.spec.until is None else f" until {window.spec.until:%Y-%m-%dT%H:%M:%SZ}"
                name, reason = window.metadata.name, window.spec.reason
                return MAINTENANCE, f"cluster {row.cluster} is in MaintenanceWindow {name}{until}: {reason}"
        hold = self.covering(row, binding, now=now)
        if hold is not None:
            who = f" ({hold.spec.who})" if hold.spec.who else ""
            return ON_HOLD, f"EvictionHold {hold.metadata.name}{who}: {hold.spec.reason}"
        return _flapping_reason(row, cluster) if row.cluster in self.flapping else ("", "")

    def covering(self, row: Eviction, binding: Binding, *, now: datetime) -> EvictionHold | None:
        """Return the first open hold that covers an eviction; None: there is none."""
        labels, namespace = self.labels.get(binding.ref, {}), binding.spec.resource.namespace
        found = (one for one in self.holds if one.open(now=now) and one.covers(row.cluster, namespace, labels))
        return next(found, None)

    def digest(self, *, now: datetime) -> str:
        """Return a digest of what is open: when it moves, what was held is looked at again."""
        open_ = [
            *((one.metadata.uid, one.metadata.name, one.spec) for one in self.holds if one.open(now=now)),
            *((one.metadata.uid, one.metadata.name, one.spec) for one in self.windows if one.open(now=now)),
            *((name, *sorted(self.flapping[name])) for name in sorted(self.flapping)),
        ]
        return hashlib.sha256(msgspec.json.encode(open_)).hexdigest()[:16] if open_ else ""

    def next_change(self, *, now: datetime) -> datetime | None:
        """Return when the next hold expires or the next window ends or begins."""
        moments: Iterable[datetime | None] = (
            *(one.spec.expires_at for one in self.holds),
            *(moment for one in self.windows for moment in (one.spec.begins, one.spec.until)),
        )
        return min((one for one in moments if one is not None and one > now), default=None)


def _flapping_reason(row: Eviction, cluster: Cluster) -> tuple[str, str]:
    """Return reason and message of an eviction from a flapping cluster. A taint that belongs to nobody here is the word
    of a person, who may empty the cluster with it, so is the cluster's deletion (D20), and one that is there because
    the cluster flaps says that such clusters shall be left: they are not held."""
    moving = {(one.key, one.effect) for one in row.judged if one.due_at is not None}
    ours = {identity for identity, one in owned(cluster).items() if BY_DELETION not in one.by and not one.flapping}
    if not moving or not moving <= ours:
        return "", ""
    told = condition(cluster.status.conditions, FLAPPING)
    why = "" if told is None else f": {told.message}"
    return UNSTEADY, f"cluster {row.cluster} flaps{why}"


def manual_hold_reason(order: operator_orders.Order) -> tuple[str, str]:
    """Return reason and message of an eviction somebody holds."""
    return HELD_BY_HAND, f"held by {order.by or 'somebody'}: {order.reason}"
