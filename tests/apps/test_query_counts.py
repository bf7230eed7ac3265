"""No controller asks the database more often for 500 objects than for 10.

The same story is played at both sizes with everything there is to decide: clusters join, workloads are propagated and
applied, one cluster is lost, the workloads leave it. What a controller reads is counted and compared with the file
beside this one (`LIFEBOAT_WRITE_QUERY_COUNTS=1` writes it); what a transaction writes depends on the tables it touches,
and is bounded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from apps.objects import apply as writing
from apps.objects.arrays import BinaryCursor
from apps.objects.store import DjangoStore
from apps.runtime.fleet import Fleet, store_all
from controlplane import kinds
from controlplane.controllers import CONTROLLERS
from controlplane.controllers.controller import Controller
from controlplane.controllers.member import MemberController
from controlplane.decision import Decision, Put, Save
from controlplane.eviction.rate import TakeTokens, Tokens
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.policy import (
    DUPLICATED,
    ClusterAffinity,
    Placement,
    ReplicaSchedulingStrategy,
    SpreadConstraint,
)
from controlplane.kinds.rows import FleetState
from controlplane.members import Answer, Collect, Observe
from controlplane.run import World, begin, run_batch
from controlplane.settings import GATES, Settings
from controlplane.state import Actor
from tests.processes import until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

FILE = Path(__file__).with_name("query_counts.json")
SIZES = (10, 500)
ROUNDS = 60
WITHIN = 120.0  # seconds
MOST_IN_A_TRANSACTION = 25  # statements: as many as there are tables and operations, however many objects
SETTINGS = replace(Settings(), feature_gates={**GATES, "Failover": True}, resource_eviction_rate=1e6)
APIS = [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]
# Their keys are one object, or a handful however large the fleet is.
FEW = {
    "fleet",
    "evictions",
    "garbage",
    "policy_release",
    "rebalancer",
    "namespaces",
    "namespace_content",
    "drains",
}


class Counter:
    """Statements since the last look, those of each transaction apart."""

    def __init__(self) -> None:
        self.read = 0
        self.written: list[int] = []
        self._inside = False

    def count(self) -> None:
        if self._inside:
            self.written[-1] += 1
        else:
            self.read += 1

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.written.append(0)
        self._inside = True
        try:
            yield
        finally:
            self._inside = False


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    """Counts every statement of the store."""
    found = Counter()
    run, write = BinaryCursor.run, writing._Transaction.run

    def counted(self: BinaryCursor, *arguments: Any) -> BinaryCursor:
        found.count()
        return run(self, *arguments)

    def bracketed(self: Any) -> Any:
        with found.transaction():
            return write(self)

    monkeypatch.setattr(BinaryCursor, "run", counted)
    monkeypatch.setattr(writing._Transaction, "run", bracketed)
    return found


class Play:
    """The story at one size; the most statements each controller needed, and the most objects it had at once."""

    def __init__(self, size: int, counter: Counter) -> None:
        self.size = size
        self.counter = counter
        self.store = DjangoStore(controllers=CONTROLLERS)
        self.reading = {one.name: 0 for one in CONTROLLERS}
        self.writing = dict.fromkeys(self.reading, 0)  # in one transaction
        self.most = dict.fromkeys(self.reading, 0)
        self.world = World(answer=self._answer)

    def run(self) -> None:
        fleet = Fleet(clusters=self.size, bindings=self.size, now=self.store.now(), prefix="play")
        objects = list(fleet.objects())
        self._create([self._push(one) for one in objects if isinstance(one, Cluster)])
        self._create([one for one in objects if one.kind == "Namespace"])
        self._create([self._everywhere_the_same(next(iter(fleet.policies())))])
        begin(CONTROLLERS, self.store)
        self._work_off()
        self._create([one for one in objects if one.kind == "Deployment"])
        until(lambda: self._placed("play-0000", "play-0001") == self.size, within=WITHIN)
        self._lose("play-0000")
        until(lambda: self._placed("play-0001", "play-0002") == self.size, within=WITHIN)
        self._again()

    def _placed(self, *names: str) -> int:
        """Work off what is due; return how many bindings have healthy copies on exactly these clusters."""
        self._work_off()
        bindings = self.store.list(kinds.RESOURCE_BINDING)
        wanted = dict.fromkeys(names, "Healthy")
        return sum({one.cluster_name: one.health for one in b.status.aggregated_status} == wanted for b in bindings)

    def _push(self, cluster: Cluster) -> Cluster:
        return cluster.with_spec(api_endpoint="https://member.example")

    def _everywhere_the_same(self, policy: Any) -> Any:
        selector = replace(policy.spec.resource_selectors[0], label_selector=None)
        placement = Placement(
            cluster_affinity=ClusterAffinity(cluster_names=("play-0000", "play-0001", "play-0002")),
            spread_constraints=(SpreadConstraint(spread_by_field="cluster", min_groups=2, max_groups=2),),
            replica_scheduling=ReplicaSchedulingStrategy(DUPLICATED),
        )
        return replace(policy, spec=replace(policy.spec, resource_selectors=(selector,), placement=placement))

    def _create(self, objects: list[Any]) -> None:
        assert store_all(self.store, objects, by="play") == len(objects)

    def _lose(self, name: str) -> None:
        cluster = next(one for one in self.store.list(kinds.CLUSTER) if one.metadata.name == name)
        taint = Taint("example.io/lost", "NoExecute", time_added=self.store.now())
        began = FleetState("default", failover_on_since=cluster.metadata.creation_timestamp)
        changes = (Put(cluster.with_spec(taints=(taint,)), cluster), Save(began))
        assert not self.store.apply([(None, Decision(changes=changes))], by=Actor("play"))[0].lost

    def _work_off(self) -> None:
        """Let everything settle; what the clock and the watches on members would make due is made due here."""
        self.store.mark("cluster_status", [one.ref for one in self.store.list(kinds.CLUSTER)])
        self.store.mark("work_status", [one.ref for one in self.store.list(kinds.WORK)])
        for _ in range(ROUNDS):
            if not sum([self._batch(one) for one in CONTROLLERS]):
                break

    def _again(self) -> None:
        """Let every controller look once more at all objects there are: nothing is to be written then."""
        for controller in CONTROLLERS:
            refs = [one.ref for kind in list(controller.keys)[:40] for one in self.store.list(kind, limit=self.size)]
            self.store.mark(controller.name, refs[: self.size])
            self._batch(controller)

    def _batch(self, controller: Controller) -> int:
        self.counter.read, self.counter.written = 0, []
        report = run_batch(controller, self.store, SETTINGS, world=self.world, limit=self.size)
        assert not report.failures, report.failures[0].trace
        if report.expanded == 0:
            name = controller.name
            self.reading[name] = max(self.reading[name], self.counter.read)
            self.writing[name] = max([self.writing[name], *self.counter.written])
            self.most[name] = max(self.most[name], report.claimed)
        return report.claimed

    def _answer(self, question: Any) -> Any:
        if isinstance(question, TakeTokens):
            return Tokens(dict(question.wanted), -1.0)
        return [None if one is None else self._member(one) for one in question]

    def _member(self, question: Any) -> Answer:
        if isinstance(question, Collect):
            return Answer(200, {"version": {"gitVersion": "v1.32.0"}, "apis": APIS, "nodes": [], "pods": []})
        if isinstance(question, Observe):
            ready = question.manifest.get("spec", {}).get("replicas", 0)
            status = {"replicas": ready, "readyReplicas": ready, "updatedReplicas": ready, "availableReplicas": ready}
            return Answer(200, {**question.manifest, "status": status})
        return Answer(200, {})


def test_every_controller_asks_as_often_for_500_objects_as_for_10(counter: Counter, flush: Callable[[], None]) -> None:
    plays = []
    for size in SIZES:
        flush()
        plays.append(Play(size, counter))
        plays[-1].run()
    few, many = plays

    assert few.reading == many.reading
    assert max(many.writing.values()) <= MOST_IN_A_TRANSACTION, many.writing
    idle = {name for name, most in many.most.items() if most < SIZES[1]} - FEW
    assert not idle, f"these were never asked about {SIZES[1]} objects at once: {idle}"
    if os.environ.get("LIFEBOAT_WRITE_QUERY_COUNTS"):
        FILE.write_text(json.dumps(many.reading, indent=2) + "\n")
    recorded = json.loads(FILE.read_text())
    assert recorded == {name: many.reading[name] for name in recorded}


def test_members_are_asked_with_one_question_for_each_object() -> None:
    assert {one.name for one in CONTROLLERS if isinstance(one, MemberController)} == {
        one.name for one in CONTROLLERS if one.group == "members"
    }
