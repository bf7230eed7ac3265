"""The scheduler confirms the rehearsal of an eviction that it follows, or is asked again where that does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import PROPAGATION_POLICY_NAME_ANNOTATION
from controlplane.controllers.eviction_queue import EvictionQueue
from controlplane.controllers.evictions import Evictions
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.controllers.scheduler import Scheduler, _BatchScheduler
from controlplane.engine.memory import MemoryStore
from controlplane.engine.run import run_batch, run_until_idle
from controlplane.engine.state import ReservedCapacity
from controlplane.eviction.rate import Tokens
from controlplane.kinds import CLUSTER, RESOURCE_BINDING
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.rows import FleetNames, PlacementNote
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.question import Question, question_of
from controlplane.scheduling.refusals import Explanation, refusals
from controlplane.scheduling.rehearsal import Rehearsal, confirmed
from controlplane.scheduling.schedule import answer
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import duplicated
from tests.core.evicting import CONTROLLERS, WORLD, evict, placed, queued
from tests.core.eviction_fleet import ANYWHERE, FAST

APPLICATION = {PROPAGATION_POLICY_NAME_ANNOTATION: "shop"}


def shut(cluster: Cluster) -> Cluster:
    """Return a cluster with a taint that keeps new copies away."""
    return cluster.with_spec(taints=(*cluster.spec.taints, Taint("closed", "NoSchedule")))


def rooms(store: MemoryStore, name: str) -> dict[str, int]:
    """Return the free capacity that the placement note of a workload names, by cluster."""
    key = f"{RESOURCE_BINDING}:default/{name}-deployment"
    (note,) = store.rows(PlacementNote, "key", [key])[key]
    (names,) = store.rows(FleetNames, "key", [note.fleet])[note.fleet]
    (term,) = msgspec.json.decode(note.detail)["terms"]
    clusters = msgspec.json.decode(names.names)
    return {clusters[place]: count for place, count in zip(term["seen"], term["room"], strict=True)}


def test_the_scheduler_confirms_the_rehearsal_and_its_note_has_the_room_of_that_time() -> None:
    """Asked again, the room would lack what the evictions of the same batch reserve for others."""
    together, apart = (
        queued(*(binding(f"web{number}", ANYWHERE, on={"member1": 4}) for number in range(3))) for _ in range(2)
    )
    evict(together)
    evict(apart, alone=True)
    run_batch(CONTROLLERS[2], apart, FAST, world=WORLD)

    assert placed(together) == placed(apart)
    (chosen,) = placed(together)["web0-deployment"]
    assert [rooms(store, "web0")[chosen] for store in (together, apart)] == [1000, 998]


@pytest.mark.parametrize(
    "change",
    [
        lambda snapshot: replace(snapshot, rehearsal=None),
        lambda snapshot: replace(snapshot, hint=None),
        lambda snapshot: replace(snapshot, subject=snapshot.subject.with_meta(annotations=APPLICATION)),
        lambda snapshot: replace(snapshot, clusters=tuple(map(shut, snapshot.clusters))),
        lambda snapshot: replace(snapshot, reserved_capacity=ReservedCapacity(at=START)),
    ],
    ids=["no rehearsal", "no hint", "part of an application", "closed clusters", "nothing reserved"],
)
def test_a_rehearsal_that_does_not_hold_is_not_confirmed(change: Callable[[Any], Any]) -> None:
    store = queued(binding("web", ANYWHERE, on={"member1": 2}))
    seen = list[Any]()

    class Watching(Scheduler):
        def deciding(self, snapshots: Any, settings: Any, *, now: Any) -> Any:
            seen.extend(snapshots)
            return super().deciding(snapshots, settings, now=now)

    evict(store, scheduler=Watching())
    (snapshot,) = seen
    fleet = Fleet.of(snapshot.clusters, settings=FAST)
    assert _BatchScheduler(fleet, snapshot, FAST, START)._confirmed(snapshot, "evicted") is not None
    changed = change(snapshot)
    fleet = Fleet.of(changed.clusters, settings=FAST)

    assert _BatchScheduler(fleet, changed, FAST, START)._confirmed(changed, "evicted") is None


QUESTION = question_of(binding("web", ANYWHERE).spec, binding("web", ANYWHERE).status, settings=FAST, left=("member1",))
BEFORE = replace(QUESTION, targets=(("member1", 2),), evicted=())
NAMES = ("member1", "member2", "member3")


def fleet(*names: str) -> Fleet:
    return Fleet.of([cluster(name) for name in names], settings=FAST)


def rehearsed(question: Question, *, on: str = "member2") -> Rehearsal:
    """Return the rehearsal of a binding that leaves member1, where only the cluster that is named takes copies."""
    seen = Fleet.of([one if one.metadata.name == on else shut(one) for one in map(cluster, NAMES)], settings=FAST)
    return Rehearsal(frozenset({"member1"}), answer(question, seen.without({"member1"}), Ledger(seen), settings=FAST))


def twice_tried() -> Rehearsal:
    """Return a rehearsal in which the first affinity term gives no result."""
    found = rehearsed(BEFORE)
    attempts = found.verdict.explanation.attempts * 2
    return replace(found, verdict=replace(found.verdict, explanation=Explanation(BEFORE, attempts)))


def test_a_confirmed_verdict_has_the_result_of_the_rehearsal_and_the_question_and_filters_of_now() -> None:
    now = Fleet.of([cluster("member1", taints=(no_execute(),)), cluster("member2"), cluster("member3")], settings=FAST)
    found = confirmed(rehearsed(BEFORE), QUESTION, now)

    assert found is not None
    assert found.outcome == rehearsed(BEFORE).verdict.outcome
    assert found.explanation.question is QUESTION
    (attempt,) = found.explanation.attempts
    assert attempt.reserved == ("member2",)
    assert {name: refusal.value for name, refusal in refusals(found.explanation).items()} == {
        "member1": "taint gone:NoExecute is not tolerated"
    }


@pytest.mark.parametrize(
    ("rehearsal", "question", "clusters"),
    [
        (rehearsed(BEFORE), replace(QUESTION, fresh=True), NAMES),
        (rehearsed(BEFORE), replace(QUESTION, replicas=3), NAMES),
        (rehearsed(BEFORE), replace(QUESTION, blocked=("member3",)), NAMES),
        (rehearsed(BEFORE), replace(QUESTION, targets=(("member3", 2),)), NAMES),
        (rehearsed(BEFORE), replace(QUESTION, evicted=()), NAMES),
        (rehearsed(BEFORE), replace(QUESTION, evicted=("member1", "member3")), NAMES),
        (rehearsed(BEFORE), QUESTION, (*NAMES, "member4")),
        (rehearsed(BEFORE), QUESTION, ("member0", "member1", "member2")),
        (rehearsed(BEFORE, on="nowhere"), QUESTION, NAMES),
        (rehearsed(replace(BEFORE, targets=(("member1", 2), ("member3", 1)))), QUESTION, NAMES),
        (rehearsed(replace(BEFORE, evicted=("member3",))), QUESTION, NAMES),
        (twice_tried(), QUESTION, NAMES),
    ],
    ids=[
        "a reschedule was requested",
        "scaled",
        "blocked",
        "another target",
        "not evicted",
        "evicted from more",
        "a new cluster",
        "other clusters",
        "refused",
        "on more clusters before",
        "evicted from more before",
        "two affinity terms",
    ],
)
def test_a_verdict_on_another_question_is_not_confirmed(
    rehearsal: Rehearsal, question: Question, clusters: tuple[str, ...]
) -> None:
    assert confirmed(rehearsed(BEFORE), QUESTION, fleet(*NAMES)) is not None

    assert confirmed(rehearsal, question, fleet(*clusters)) is None


def test_a_cluster_that_is_not_feasible_any_more_is_not_confirmed() -> None:
    now = Fleet.of([cluster("member1"), shut(cluster("member2")), cluster("member3")], settings=FAST)

    assert confirmed(rehearsed(BEFORE), QUESTION, now) is None
    assert confirmed(rehearsed(BEFORE, on="member3"), QUESTION, now) is not None


def test_a_cluster_that_reports_less_room_since_then_is_not_confirmed() -> None:
    now = Fleet.of([cluster("member1"), cluster("member2", room=1), cluster("member3")], settings=FAST)

    assert confirmed(rehearsed(BEFORE), QUESTION, now) is None


def handed_over(tokens: int) -> list[Rehearsal | None]:
    """Return what the evictions of a binding on two tainted clusters hand over, if there are so many tokens."""
    store = queued(binding("web", duplicated(least=1, most=2), on={"member1": 1, "member2": 1}))
    store.create(*(cluster(f"member{number}") for number in range(4, 9)))  # else most of the fleet is down
    old = store.objects[Ref(CLUSTER, "", "member2")]
    store.put(old.with_spec(taints=(no_execute(),)), old)
    run_until_idle([EvictionQueue()], store, FAST, world=WORLD)
    (snapshot,) = Evictions().load(store, [FLEET])
    assert snapshot is not None
    decided = Evictions().decide(snapshot, FAST, now=START, answer=Tokens({"fleet": tokens}, 0.0))
    return [one.found for one in decided.separate_decisions]


def test_a_rehearsal_without_a_cluster_that_the_binding_does_not_leave_now_is_not_handed_over() -> None:
    assert handed_over(1) == [None]
    (found,) = handed_over(2)
    assert found is not None
    assert found.left == {"member1", "member2"}
