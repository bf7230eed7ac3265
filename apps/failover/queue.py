"""The eviction queue for pages and the API: its items, the tier and forecasts, all of the same time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from apps.objects.store import DjangoStore
from controlplane.clusters import eviction_tier
from controlplane.controllers.reads.readiness_state import situation_of
from controlplane.eviction.rate import bucket_of
from controlplane.insight.failure_outlook import Situation
from controlplane.insight.forecast import Forecast, forecast
from controlplane.kinds.eviction import Stopped
from controlplane.kinds.rows import ENDED, HELD, QUEUED, RECOVERING, Eviction
from controlplane.settings import EvictionSettings, Settings


class Queue(msgspec.Struct, frozen=True):
    """The items of the queue, waiting and ended ones, with the health of the fleet and the tier of the rate.

    `tier`: with the rate at which evictions take place.
    """

    rows: tuple[Eviction, ...]
    fleet: eviction_tier.FleetHealth
    tier: eviction_tier.Tier
    eviction: EvictionSettings
    now: datetime

    def buckets(self) -> set[str]:
        """Return the token buckets from which queued evictions need tokens."""
        return {bucket_of(row.cluster, self.eviction.bucket_scope) for row in self.rows if row.state == QUEUED}

    @property
    def stopped(self) -> Stopped | None:
        """Why nothing is evicted at present; None: evictions go on."""
        return stopped_by(self.tier)

    def forecast(self, *, rate: float | None = None, tokens: Mapping[str, float]) -> dict[str, Forecast]:
        """Return the position and the expected time of each eviction. `rate`: evictions a second; None: the tier's.

        `tokens`: the tokens in the buckets now.
        """
        speed = self.tier.rate if rate is None else rate
        ageing, scope = self.eviction.ageing_seconds, self.eviction.bucket_scope
        return forecast(self.rows, rate=speed, ageing_seconds=ageing, scope=scope, tokens=tokens, now=self.now)


class FleetTier(NamedTuple):
    """The health of the fleet, the tier of the eviction rate, and the time at which both were read."""

    fleet: eviction_tier.FleetHealth
    tier: eviction_tier.Tier
    now: datetime


def stopped_by(tier: eviction_tier.Tier) -> Stopped | None:
    """Return why nothing is evicted in a tier of the rate; None: evictions go on."""
    if tier.rate > 0:
        return None
    reasons = {
        eviction_tier.NO_TOKENS: "NoTokens",
        eviction_tier.NOT_OBSERVED: "NotObserved",
        eviction_tier.GATE_OFF: "GateOff",
    }
    reason = next((word for begin, word in reasons.items() if tier.why.startswith(begin)), tier.name)
    return Stopped(reason, tier.why or "the rate of evictions is 0")


def tier_of(situation: Situation, settings: Settings, *, now: datetime) -> FleetTier:
    """Return the health of the fleet and the tier of the eviction rate in a situation.

    Its rate is 0 while evictions wait for the token buckets, and while the feature gate Failover is off.
    """
    fleet = eviction_tier.fleet_health(situation.clusters, maintained=situation.holds.maintained(now=now))
    tier = eviction_tier.in_force(fleet, situation.fleet, settings)
    if not settings.gate("Failover"):
        return FleetTier(fleet, eviction_tier.Tier(tier.name, 0, eviction_tier.GATE_OFF), now)
    return FleetTier(fleet, eviction_tier.as_it_works(tier, situation.queue_row), now)


def read_tier(store: DjangoStore, settings: Settings) -> FleetTier:
    """Return the tier of the eviction rate as it is now. Six queries."""
    return tier_of(situation_of(store), settings, now=store.now())


def read(store: DjangoStore, settings: Settings) -> Queue:
    """Return the queue as it is now: seven queries, whatever its length."""
    situation, now = situation_of(store), store.now()
    fleet, tier, _ = tier_of(situation, settings, now=now)
    by_state = store.rows(Eviction, "state", [QUEUED, HELD, RECOVERING, *ENDED])
    rows = tuple(row for some in by_state.values() for row in some if row.due_at is not None or row.state in ENDED)
    return Queue(rows, fleet, tier, settings.eviction, now)
