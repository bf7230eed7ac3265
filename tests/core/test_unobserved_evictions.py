"""Evictions from clusters that are not observed wait, and only they [recovered-clusters-cancel]."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from controlplane.apimachinery.meta import Ref
from controlplane.clusters import health
from controlplane.clusters.eviction_tier import NO_TOKENS, NOT_OBSERVED
from controlplane.clusters.health import Seen
from controlplane.controllers.eviction_queue import EvictionQueue
from controlplane.controllers.evictions import HEADS, Evictions
from controlplane.controllers.reads.fleet_state import QUEUE_ROW, fleet_states
from controlplane.engine import run
from controlplane.engine.decision import Decision, Save
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor
from controlplane.eviction.rate import TakeTokens, Tokens
from controlplane.kinds import CLUSTER
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import Eviction, FleetState, Observation
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster, no_execute
from tests.core.eviction_fleet import ANYWHERE, FAST

SETTINGS = Settings()
UP, DOWN = Seen("True", "ClusterReady"), Seen("False", "ClusterNotReachable")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def probed_member(name: str, *, ready: str, since: float = 0) -> Cluster:
    """Return a cluster that is probed, with a taint that evicts."""
    return cluster(name, ready=ready, at=at(since)).with_spec(api_endpoint="https://a", taints=(no_execute(),))


class Queue:
    """Workloads on member1, which is down and was not observed for an hour, and on member2.

    `both`: member2 is down and was not observed either.
    """

    def __init__(self, *, on_member1: int, on_member2: int, both: bool = False) -> None:
        self.now, self.problem = at(3600), ""
        self.controllers = [EvictionQueue(), Evictions()]
        self.store = MemoryStore(controllers=self.controllers, clock=lambda: self.now)
        where = {"member1": on_member1, "member2": on_member2}
        self.store.create(
            probed_member("member1", ready="False"),
            probed_member("member2", ready="False") if both else cluster("member2", taints=[no_execute(at=at(1))]),
            *(cluster(f"member{number}") for number in (3, 4, 5)),
            *(binding(f"{on}-{n}", ANYWHERE, on={on: 1}) for on, count in where.items() for n in range(count)),
        )
        names = ("member1", "member2") if both else ("member1",)
        seen = [Observation(name, status="False", since=START, observed_at=START) for name in names]
        self.save(*seen, FleetState("default", failover_on_since=START))
        self.work()

    def save(self, *rows: Observation | FleetState) -> None:
        self.store.apply([(None, Decision(changes=tuple(map(Save, rows))))], by=Actor("test"))

    def work(self) -> None:
        run.run_until_idle(self.controllers, self.store, FAST, world=run.World(answer=self._answer))

    def _answer(self, question: TakeTokens) -> Tokens:
        return Tokens({} if self.problem else dict(question.wanted), 0.0, problem=self.problem)

    def probe(self) -> None:
        """Let a probe find member1 down."""
        (before,) = self.store.rows(Observation, "key", ["member1"])["member1"]
        self.save(health.observe(before, DOWN, SETTINGS, now=self.now))
        self.later()

    def later(self) -> None:
        self.now += timedelta(seconds=2)
        self.work()

    def waiting(self, name: str) -> int:
        """Return how many evictions from a cluster wait."""
        rows = self.store.rows(Eviction, "cluster", [name]).get(name, ())
        return sum(row.due_at is not None for row in rows)

    @property
    def why(self) -> str:
        """The reason of the last stop."""
        (queue,) = fleet_states(self.store, QUEUE_ROW)
        return queue.stops[-1].why

    @property
    def stops(self) -> list[tuple[str, bool]]:
        """How the reasons of the stops begin, and whether they last."""
        (queue,) = fleet_states(self.store, QUEUE_ROW)
        return [(stop.why.partition(":")[0], stop.until is None) for stop in queue.stops]


def test_a_long_queue_of_a_cluster_that_is_not_observed_keeps_no_other_cluster_from_being_left() -> None:
    queue = Queue(on_member1=HEADS + 1, on_member2=3)

    queue.later()

    assert (queue.waiting("member1"), queue.waiting("member2")) == (HEADS + 1, 0)


def test_a_long_queue_of_a_cluster_that_is_not_observed_is_not_read_again_and_again() -> None:
    """Each time are hundreds of rows and bindings, and an outage of the control plane itself may last."""
    queue = Queue(on_member1=HEADS + 1, on_member2=0)

    queue.later()

    again = queue.store.next_due([Evictions.name])
    assert again is None or again >= queue.now + timedelta(seconds=1)


def test_the_reason_why_nothing_is_evicted_is_the_one_that_holds_now() -> None:
    queue = Queue(on_member1=1, on_member2=0)
    assert queue.stops == [(NOT_OBSERVED, True)]

    queue.problem = "Redis is away"
    queue.probe()
    assert queue.stops == [(NOT_OBSERVED, False), (NO_TOKENS, True)]

    queue.problem = ""
    queue.now += timedelta(seconds=60)
    queue.work()
    assert queue.stops == [(NOT_OBSERVED, False), (NO_TOKENS, False), (NOT_OBSERVED, True)]


@pytest.mark.parametrize("on_member1", [1, HEADS + 1], ids=["", "long"])
def test_the_reason_names_the_clusters_that_are_not_observed_now(on_member1: int) -> None:
    """At first only rows of member1 are read, if its queue is long."""
    queue = Queue(on_member1=on_member1, on_member2=1, both=True)
    queue.later()
    assert queue.why.startswith(f"{NOT_OBSERVED}: member1, member2 may have recovered")

    recovered = queue.store.objects[Ref(CLUSTER, "", "member1")]
    assert not queue.store.put(recovered.with_spec(taints=()), recovered).lost  # type: ignore[attr-defined]
    queue.later()
    assert queue.why.startswith(f"{NOT_OBSERVED}: member2 may have recovered")
    assert queue.stops == [(NOT_OBSERVED, True)]


@pytest.mark.parametrize(
    ("ready", "since", "waits"), [("True", -60, False), ("True", 3610, True), ("False", -60, True)]
)
def test_only_a_cluster_that_was_not_ready_may_have_recovered(ready: str, since: float, waits: bool) -> None:
    """A person may empty a cluster that is well right after an outage of ours."""
    row = health.observe(Observation("member1"), UP, SETTINGS, now=START)
    row = health.observe(row, UP, SETTINGS, now=at(3600))
    member = probed_member("member1", ready=ready, since=since)

    assert health.may_have_recovered(member, row, SETTINGS, now=at(3615)) is waits
