"""A fleet in memory under a clock moved by hand: clusters, bindings, the failover controllers, a pure bucket."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from controlplane.apimachinery.meta import Condition, Ref, with_condition
from controlplane.controllers.application_failover import ApplicationFailover
from controlplane.controllers.cluster_status import ClusterStatus as ClusterStatusController
from controlplane.controllers.cluster_taints import ClusterTaints
from controlplane.controllers.eviction_pending import EvictionPending
from controlplane.controllers.eviction_queue import EvictionQueue
from controlplane.controllers.eviction_records import EvictionRecords
from controlplane.controllers.evictions import Evictions
from controlplane.controllers.fleet_watch import FleetWatch
from controlplane.controllers.graceful_eviction import GracefulEviction
from controlplane.controllers.reservations import Reservations
from controlplane.controllers.scheduler import Scheduler
from controlplane.engine import run
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import Decision, Put, Save
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor, State, Watch
from controlplane.eviction.rate import Bucket, TakeTokens, Tokens, take_tokens
from controlplane.kinds import BINDINGS, CLUSTER, RESOURCE_BINDING
from controlplane.kinds.binding import (
    AggregatedStatusItem,
    Binding,
)
from controlplane.kinds.cluster import (
    Cluster,
    Taint,
)
from controlplane.kinds.rows import Eviction, Row
from controlplane.settings import GATES, Settings
from tests.builders.objects import START

FAILOVER = Settings(feature_gates={**GATES, "Failover": True})


class Members(Controller):
    """Perfect members: what is placed on them is reported `health` at once; what was reported before stays."""

    name = "test_members"
    group = "members"
    keys = BINDINGS
    watches = tuple(Watch(kind, lambda old, new: [] if new is None else [new.ref]) for kind in BINDINGS)
    owns = Ownership(dict.fromkeys(BINDINGS, ("status.aggregated_status",)))
    healthy = True

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Binding | None]:
        found = state.get(refs)
        return [found.get(ref) for ref in refs]

    def decide(self, snapshot: Binding, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        known = {item.cluster_name: item for item in snapshot.status.aggregated_status}
        health = "Healthy" if self.healthy else "Unhealthy"
        for target in snapshot.spec.clusters:
            known.setdefault(target.name, AggregatedStatusItem(target.name, applied=True, health=health))
        new = snapshot.with_status(aggregated_status=tuple(known.values()))
        return Decision(changes=(Put(new, snapshot),) if new is not snapshot else ())


class Story:
    """A store, its controllers and a clock."""

    def __init__(self, *objects: Any, settings: Settings = FAILOVER, start: datetime = START) -> None:
        self.now = start
        self.settings = settings
        self.members = Members()
        self.controllers: list[Controller] = [
            ClusterStatusController(),
            FleetWatch(),
            ClusterTaints(),
            EvictionQueue(),
            Evictions(),
            Scheduler(),
            Reservations(),
            self.members,
            GracefulEviction(),
            ApplicationFailover(),
            EvictionPending(),
            EvictionRecords(),
        ]
        self.store = MemoryStore(controllers=self.controllers, clock=lambda: self.now)
        self.buckets: dict[str, Bucket] = {}
        self.redis_away = False
        self.failures: list[run.Failure] = []
        self.world = run.World(answer=self._answer, report=self.failures.append)
        self.store.create(*objects)
        self.work()

    def _answer(self, question: TakeTokens) -> Tokens:
        if self.redis_away:
            return Tokens({}, 1.0, problem="Redis is away")
        granted, waits = {}, []
        for name, wanted in question.wanted.items():
            taken = take_tokens(self.buckets.get(name), wanted, rate=question.rate, at=self.now.timestamp())
            self.buckets[name] = taken.bucket
            granted[name] = taken.granted
            waits.append(taken.next_in)
        return Tokens(granted, min((one for one in waits if one >= 0), default=-1.0))

    def work(self) -> None:
        run.run_until_idle(self.controllers, self.store, self.settings, world=self.world)
        assert not self.failures, [failure.trace for failure in self.failures]

    def pass_seconds(self, seconds: float) -> None:
        """Let time pass, waking at every moment something is due."""
        end = self.now + timedelta(seconds=seconds)
        while True:
            due = self.store.next_due([one.name for one in self.controllers])
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            self.work()
        self.now = end
        self.work()

    def cluster(self, name: str) -> Cluster:
        ref = Ref(CLUSTER, "", name)
        found: Cluster = self.store.get([ref])[ref]
        return found

    def binding(self, name: str) -> Binding:
        ref = Ref(RESOURCE_BINDING, "default", f"{name}-deployment")
        found: Binding = self.store.get([ref])[ref]
        return found

    def placed(self, name: str) -> dict[str, int]:
        return {one.name: one.replicas for one in self.binding(name).spec.clusters}

    def leaving(self, name: str) -> list[str]:
        return [task.from_cluster for task in self.binding(name).spec.graceful_eviction_tasks]

    def queue(self) -> dict[str, str]:
        """Rows that wait, as "binding name|cluster": state."""
        rows = self.store.rows(Eviction, "state", ["Queued", "Held", "Recovering"]).values()
        return {
            f"{row.binding.rpartition('/')[2].removesuffix('-deployment')}|{row.cluster}": row.state
            for found in rows
            for row in found
            if row.due_at is not None
        }

    def taint(self, name: str, *taints: Taint) -> None:
        old = self.cluster(name)
        self.store.put(old.with_spec(taints=(*old.spec.taints, *taints)), old)
        self.work()

    def untaint(self, name: str) -> None:
        old = self.cluster(name)
        self.store.put(old.with_spec(taints=()), old)
        self.work()

    def ready(self, name: str, status: str) -> None:
        self._tell(name, Condition("Ready", status))

    def access_lost(self, name: str, status: str) -> None:
        self._tell(name, Condition("AccessLost", status))

    def _tell(self, name: str, reports: Condition) -> None:
        old = self.cluster(name)
        self.store.put(old.with_status(conditions=with_condition(old.status.conditions, reports, now=self.now)), old)
        self.work()

    def save(self, row: Row) -> None:
        """Keep a row as an outsider does (probes)."""
        self.store.apply([(None, Decision(changes=(Save(row),)))], by=Actor("test"))
        self.work()

    def events(self, reason: str) -> list[Any]:
        return [one for ref, one in self.store.objects.items() if ref.kind == "Event" and one.reason == reason]
