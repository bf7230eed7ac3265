"""Workloads that share a quota, in a series of outages, recoveries and scalings: they never use more than its limit,
and nothing counts for ever [federated-quotas]."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from controlplane.estimate.quota import use_of
from controlplane.eviction.purge import with_task
from controlplane.kinds.binding import TAINT_UNTOLERATED, Binding, origin
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY
from tests.builders.objects import binding, cluster, no_execute
from tests.builders.placements import AGGREGATED, DYNAMIC, duplicated, placement
from tests.core.fleet_story import FAILOVER, Story
from tests.core.test_federated_quotas import quota

LIMIT = 6
MEMBERS = tuple(f"member{number}" for number in range(1, 5))
WORKLOADS = tuple(f"web{number}" for number in range(4))
PLACEMENTS = (
    duplicated(least=1, most=1),
    placement(how=DYNAMIC),
    placement("member1", "member2", how=DYNAMIC),
    placement("member1"),
    placement("member2", how=AGGREGATED),
)
SETTINGS = replace(FAILOVER, feature_gates={**FAILOVER.feature_gates, "FederatedQuotaEnforcement": True})


class Outages:
    """Four clusters and four workloads, to which the same things happen for the same seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        choose = self.chance.choice
        webs = [
            binding(name, choose(PLACEMENTS), replicas=choose((1, 2, 3, 4)), cpu="1", scheduled=False)
            for name in WORKLOADS
        ]
        members = [cluster(name, room=choose((2, 6, 20))) for name in MEMBERS]
        self.story = Story(*members, quota(cpu=str(LIMIT)), *webs, settings=SETTINGS)
        self.story.members.healthy = choose((True, False))
        self.lost: set[str] = set()

    def bindings(self) -> list[Binding]:
        return [self.story.binding(name) for name in WORKLOADS]

    def step(self) -> None:
        kind = self.chance.random()
        if kind < 0.3:
            self.turn(self.chance.choice(MEMBERS))
        elif kind < 0.6:
            old = self.story.binding(self.chance.choice(WORKLOADS))
            self.story.store.put(old.with_spec(replicas=self.chance.randint(0, 5)), old)
            self.story.work()
        else:
            self.story.pass_seconds(self.chance.choice((1, 10, 70, 400)))

    def turn(self, name: str) -> None:
        """Lose a cluster, from which some workloads are evicted without a refuge, or let it recover."""
        if name in self.lost:
            self.story.untaint(name)
            self.lost.remove(name)
            return
        self.lost.add(name)
        self.story.ready(name, "False")
        self.story.taint(name, no_execute(at=self.story.now))
        for old in self.bindings():
            if old.spec.target(name) is not None and self.chance.random() < 0.7:
                mode = self.chance.choice((GRACEFULLY, DIRECTLY))
                now = self.story.now
                left = with_task(old, name, mode=mode, reason=TAINT_UNTOLERATED, producer="", message="", now=now)
                self.story.store.put(origin.with_departures(left, old, now=now), old)
        self.story.work()

    def recover(self) -> None:
        for name in MEMBERS:
            self.story.untaint(name)
            self.story.ready(name, "True")
        self.story.members.healthy = True
        self.story.pass_seconds(1500)


@pytest.mark.parametrize("seed", [5, 13, 18, 21])
def test_a_quota_is_never_exceeded_and_no_replica_counts_for_ever(seed: int) -> None:
    outages = Outages(seed)

    for _ in range(40):
        outages.step()
        placed = [sum(target.replicas for target in one.spec.clusters) for one in outages.bindings()]
        assert sum(placed) <= LIMIT
        assert outages.story.store.quota_use(["default"]).get("default", {}).get("cpu", 0) <= LIMIT * 1000
    outages.recover()

    for one in outages.bindings():
        assert use_of(one).get("cpu", 0) == 1000 * sum(target.replicas for target in one.spec.clusters)
