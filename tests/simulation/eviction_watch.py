"""What must hold of every eviction (I2, I3, I4, I8), asserted from rows and clusters after every step."""

from __future__ import annotations

from datetime import datetime

from controlplane import kinds
from controlplane.kinds.cluster import EVICTING_EFFECTS
from controlplane.kinds.eviction_hold import EvictionHold
from controlplane.kinds.rows import EVICTED, Eviction, FleetState
from controlplane.meta import Ref
from tests.simulation.world import Simulation

Appeared = tuple[str, str, str, datetime | None]  # cluster, key, effect, timeAdded


class EvictionWatch:
    """Remembers who tolerated what for ever when it appeared, and how many tokens there can have been."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, datetime | None]] = set()
        self._bears: dict[Appeared, frozenset[str]] = {}
        self._allowed = 0.0
        self._last: tuple[datetime, float] | None = None
        self.flushed: datetime | None = None

    def begins(self, world: Simulation) -> None:
        """Count the bucket's tokens from here, where it is empty."""
        self._allowed, self._last = 0.0, (world.now, world.settings.resource_eviction_rate)

    def __call__(self, world: Simulation) -> None:
        self._note_taints(world)
        self._count_tokens(world)
        for row in world.store.rows(Eviction, "state", [EVICTED]).get(EVICTED, ()):
            if (row.key, row.ended_at) not in self._seen:
                self._seen.add((row.key, row.ended_at))
                self._check(world, row)

    def _note_taints(self, world: Simulation) -> None:
        for cluster in world.store.list(kinds.CLUSTER):
            for taint in cluster.spec.taints:
                key = (cluster.metadata.name, taint.key, taint.effect, taint.time_added)
                if taint.effect not in EVICTING_EFFECTS or key in self._bears:
                    continue
                self._bears[key] = frozenset(
                    str(one.ref)
                    for one in world.store.list(kinds.RESOURCE_BINDING)
                    for toleration in one.spec.placement.cluster_tolerations
                    if toleration.operator == "Exists" and toleration.key in ("", taint.key)
                    if toleration.toleration_seconds is None
                )

    def _count_tokens(self, world: Simulation) -> None:
        """I2, I12: no more tokens than the rate has made since the bucket began, empty."""
        rate = world.settings.resource_eviction_rate
        if self._last is not None:
            self._allowed += (world.now - self._last[0]).total_seconds() * self._last[1]
        self._last = (world.now, rate)
        count = len(world.tokens)
        assert count <= self._allowed + 1e-6, f"{count} tokens where the rate has made {self._allowed:.2f}"
        if self.flushed is not None:
            since = [one for one in world.tokens if one >= self.flushed]
            made = (world.now - self.flushed).total_seconds() * rate
            assert len(since) <= made + 1e-6, f"{len(since)} tokens since the flush, {made:.2f} made"

    def _check(self, world: Simulation, row: Eviction) -> None:
        where = f"{row.key} at {world.now}"
        assert len(self._seen) <= len(world.tokens), f"{where}: evicted without a token"
        fleet = next(iter(world.store.rows(FleetState, "key", ["default"]).get("default", ())), FleetState("default"))
        assert fleet.blind_since is None, f"{where}: evicted while blind (I4)"
        cluster = world.store.get([Ref(kinds.CLUSTER, "", row.cluster)]).get(Ref(kinds.CLUSTER, "", row.cluster))
        present = [] if cluster is None else [one for one in cluster.spec.taints if one.effect in EVICTING_EFFECTS]
        assert present, f"{where}: evicted from a cluster that has recovered (I8)"
        tolerated = [self._bears.get((row.cluster, one.key, one.effect, one.time_added), ()) for one in present]
        assert any(row.binding not in one for one in tolerated), f"{where}: it tolerated the taint (I3)"
        holds: list[EvictionHold] = list(world.store.list(kinds.EVICTION_HOLD))
        namespace = Ref.parse(row.binding).namespace
        open_ = [one for one in holds if one.open(now=world.now) and one.covers(row.cluster, namespace, {})]
        assert not open_, f"{where}: evicted in spite of hold {open_[0].metadata.name} (I4)"
