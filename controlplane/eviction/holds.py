"""What holds an eviction even if tokens are available: holds, maintenance windows, Hold orders and flapping
clusters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec
from msgspec.structs import replace

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
    """All EvictionHolds and MaintenanceWindows.

    `flapping`: the flapping clusters, each with the taints that policies add because it flaps [flapping-cluster].
    `labels`: the labels of the workloads, by binding, for holds with a selector.
    """

    holds: tuple[EvictionHold, ...] = ()
    windows: tuple[MaintenanceWindow, ...] = ()
    flapping: Mapping[str, frozenset[Identity]] = {}
    labels: Mapping[Ref, dict[str, str]] = {}

    def needs_labels(self) -> bool:
        """Test whether any hold selects workloads by their labels."""
        return any(hold.spec.selector is not None for hold in self.holds)

    def guards(self) -> tuple[Guard, ...]:
        """Return guards on all holds and windows: a decision is not stored if one of them changed after it was read."""
        return unchanged(EVICTION_HOLD, self.holds), unchanged(MAINTENANCE_WINDOW, self.windows)

    def maintained(self, *, now: datetime) -> frozenset[str]:
        """Return the clusters with an open maintenance window."""
        return frozenset(name for window in self.windows if window.open(now=now) for name in window.spec.clusters)

    def why(self, row: Eviction, binding: Binding, cluster: Cluster, *, now: datetime) -> tuple[str, str]:
        """Return the reason and message of what holds an eviction; ("", "") if nothing does."""
        active = operator_orders.active_orders(binding, cluster, held=row.reason == HELD_BY_HAND)
        if operator_orders.HOLD in active:
            return manual_hold_reason(active[operator_orders.HOLD])
        for window in self.windows:
            if row.cluster in window.spec.clusters and window.open(now=now):
                until = "" if window.spec.until is None else f" until {window.spec.until:%Y-%m-%dT%H:%M:%SZ}"
                name, reason = window.metadata.name, window.spec.reason
                return MAINTENANCE, f"cluster {row.cluster} is in MaintenanceWindow {name}{until}: {reason}"
        hold = self.covering(row, binding, now=now)
        if hold is not None:
            author = f" ({hold.spec.who})" if hold.spec.who else ""
            return ON_HOLD, f"EvictionHold {hold.metadata.name}{author}: {hold.spec.reason}"
        return _flapping_reason(row, cluster) if row.cluster in self.flapping else ("", "")

    def why_asked(self, binding: Binding, cluster: Cluster, *, now: datetime) -> tuple[str, str]:
        """Return the same for a copy that leaves the cluster by a Drain or a Failback.

        A MaintenanceWindow holds evictions because of failures, which are expected during the maintenance. A user who
        empties the cluster for it goes on.
        """
        row = Eviction("", str(binding.ref), cluster.metadata.name)
        return replace(self, windows=()).why(row, binding, cluster, now=now)

    def covering(self, row: Eviction, binding: Binding, *, now: datetime) -> EvictionHold | None:
        """Return the first open hold that covers an eviction; None: there is none."""
        if not self.holds:
            return None
        labels, namespace = self.labels.get(binding.ref, {}), binding.spec.resource.namespace
        covering = (hold for hold in self.holds if hold.open(now=now) and hold.covers(row.cluster, namespace, labels))
        return next(covering, None)

    def digest(self, *, now: datetime) -> str:
        """Return a digest of all open holds and windows and of the flapping clusters. Held evictions are checked again
        when it changes."""
        open_ = [
            *((hold.metadata.uid, hold.metadata.name, hold.spec) for hold in self.holds if hold.open(now=now)),
            *(
                (window.metadata.uid, window.metadata.name, window.spec)
                for window in self.windows
                if window.open(now=now)
            ),
            *((name, *sorted(self.flapping[name])) for name in sorted(self.flapping)),
        ]
        return hashlib.sha256(msgspec.json.encode(open_)).hexdigest()[:16] if open_ else ""

    def next_change(self, *, now: datetime) -> datetime | None:
        """Return when the next hold expires or the next window begins or ends."""
        moments: Iterable[datetime | None] = (
            *(hold.spec.expires_at for hold in self.holds),
            *(moment for window in self.windows for moment in (window.spec.begins, window.spec.until)),
        )
        return min((item for item in moments if item is not None and item > now), default=None)


def _flapping_reason(row: Eviction, cluster: Cluster) -> tuple[str, str]:
    """Return the reason and message for an eviction from a flapping cluster; ("", "") if the cluster may be left.

    Three kinds of taints are not held: taints that a user added, because the user may want to empty the cluster; taints
    of a cluster that is being deleted [unjoin-and-drain]; and taints of policies about the condition Flapping itself.
    """
    evicting = {(judgement.key, judgement.effect) for judgement in row.judged if judgement.due_at is not None}
    ours = {identity for identity, one in owned(cluster).items() if BY_DELETION not in one.by and not one.flapping}
    if not evicting or not evicting <= ours:
        return "", ""
    flapping = condition(cluster.status.conditions, FLAPPING)
    why = "" if flapping is None else f": {flapping.message}"
    return UNSTEADY, f"cluster {row.cluster} is flapping{why}"


def manual_hold_reason(order: operator_orders.Order) -> tuple[str, str]:
    """Return the reason and message of an eviction with a Hold order."""
    return HELD_BY_HAND, f"held by {order.by or 'an unknown user'}: {order.reason}"
