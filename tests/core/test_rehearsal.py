"""The scheduler confirms the rehearsal of an eviction that it follows, or is asked again where that does not hold."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
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
from controlplane.engine.decision import Decision, Guard, Put
from controlplane.engine.memory import MemoryStore
from controlplane.engine.run import run_batch, run_until_idle
from controlplane.engine.state import ReservedCapacity
from controlplane.eviction.purge import with_task
from controlplane.eviction.rate import Tokens
from controlplane.kinds import CLUSTER, RESOURCE_BINDING
from controlplane.kinds.binding import TAINT_UNTOLERATED, Binding, TargetCluster, manual_placement
from controlplane.kinds.binding.origin import with_departures
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.policy import GRACEFULLY
from controlplane.kinds.rows import FleetNames, PlacementNote
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.departures import left_for_taints
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.question import question_of
from controlplane.scheduling.refusals import Explanation, refusals
from controlplane.scheduling.rehearsal import Rehearsal, confirmed
from controlplane.scheduling.schedule import answer
from tests.builders.objects import START, binding, cluster, leaving, no_execute
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


def snapshots_of(store: MemoryStore) -> list[Any]:
    """Return the snapshots from which the scheduler decides about the bindings that are evicted now."""
    seen = list[Any]()

    class Watching(Scheduler):
        def deciding(self, snapshots: Any, settings: Any, *, now: Any) -> Any:
            seen.extend(snapshots)
            return super().deciding(snapshots, settings, now=now)

    evict(store, scheduler=Watching())
    return seen


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
    (snapshot,) = snapshots_of(queued(binding("web", ANYWHERE, on={"member1": 2})))
    fleet = Fleet.of(snapshot.clusters, settings=FAST)
    assert _BatchScheduler(fleet, snapshot, FAST, START)._confirmed(snapshot, "evicted") is not None
    changed = change(snapshot)
    fleet = Fleet.of(changed.clusters, settings=FAST)

    assert _BatchScheduler(fleet, changed, FAST, START)._confirmed(changed, "evicted") is None


BEFORE = binding("web", ANYWHERE, on={"member1": 2})
FRESH = BEFORE.with_spec(reschedule_triggered_at=START + timedelta(seconds=1)).with_status(last_scheduled_time=START)
ON_TWO = binding("web", ANYWHERE, on={"member1": 2, "member3": 2})
NAMES = ("member1", "member2", "member3")
THIRD = shut(cluster("member3"))


def fleet(*names: str) -> Fleet:
    return Fleet.of([cluster(name) for name in names], settings=FAST)


def left(one: Binding, *names: str, reason: str = TAINT_UNTOLERATED) -> Binding:
    """Return a binding after it has left these clusters."""
    for name in names or ("member1",):
        one = with_task(one, name, mode=GRACEFULLY, reason=reason, producer="test", message="", now=START)
    return one


def drained(one: Binding) -> Binding:
    """Return a binding with the task of a drain of member3, which is no target."""
    return one.with_spec(graceful_eviction_tasks=(*one.spec.graceful_eviction_tasks, leaving("member3")))


def home(one: Binding) -> Binding:
    """Return a binding that left member3 because of a taint, with no task any more."""
    return with_departures(left(one, "member3"), one, now=START).with_spec(graceful_eviction_tasks=())


def rehearsed(one: Binding = BEFORE, *, on: str = "member2", third: Cluster = THIRD) -> Rehearsal:
    """Return the rehearsal of a binding that leaves member1, where only the cluster that is named takes copies."""
    clusters = [shut(cluster("member1")), shut(cluster("member2")), third]
    seen = Fleet.of([cluster(on) if each.metadata.name == on else each for each in clusters], settings=FAST)
    question = question_of(one.spec, one.status, settings=FAST, left=left_for_taints(one, seen))
    verdict = answer(question, seen.without({"member1"}), Ledger(seen), settings=FAST)
    return Rehearsal(frozenset({"member1"}), verdict, one)


def twice_tried() -> Rehearsal:
    """Return a rehearsal in which the first affinity term gives no result."""
    found = rehearsed()
    explanation = found.verdict.explanation
    tried = Explanation(explanation.question, explanation.attempts * 2)
    return replace(found, verdict=replace(found.verdict, explanation=tried))


def test_a_confirmed_verdict_has_the_result_of_the_rehearsal_and_the_question_and_filters_of_now() -> None:
    now = Fleet.of([cluster("member1", taints=(no_execute(),)), cluster("member2"), cluster("member3")], settings=FAST)
    found = confirmed(rehearsed(), left(BEFORE), now)

    assert found is not None
    assert found.outcome == rehearsed().verdict.outcome
    assert found.explanation.question == question_of(left(BEFORE).spec, BEFORE.status, settings=FAST)
    (attempt,) = found.explanation.attempts
    assert attempt.reserved == ("member2",)
    assert {name: refusal.value for name, refusal in refusals(found.explanation).items()} == {
        "member1": "taint gone:NoExecute is not tolerated"
    }


@pytest.mark.parametrize(
    ("rehearsal", "now", "clusters"),
    [
        (rehearsed(), left(BEFORE).with_spec(reschedule_triggered_at=START), NAMES),
        (rehearsed(FRESH), left(FRESH), NAMES),
        (rehearsed(), left(BEFORE).with_spec(replicas=3), NAMES),
        (rehearsed(), left(BEFORE).with_spec(replica_requirements=None), NAMES),
        (rehearsed(), left(BEFORE).with_status(scheduler_observed_affinity_name="second"), NAMES),
        (rehearsed(), left(BEFORE).with_status(last_scheduled_time=START), NAMES),
        (rehearsed(), drained(left(BEFORE)), NAMES),
        (rehearsed(), left(BEFORE).with_spec(clusters=ON_TWO.spec.clusters[1:]), NAMES),
        (rehearsed(), BEFORE, NAMES),
        (rehearsed(), BEFORE.with_spec(clusters=()), NAMES),
        (rehearsed(), left(BEFORE, reason="Drain"), NAMES),
        (rehearsed(), left(ON_TWO, "member1", "member3"), NAMES),
        (rehearsed(ON_TWO), left(BEFORE), NAMES),
        (rehearsed(drained(BEFORE)), left(BEFORE), NAMES),
        (replace(rehearsed(), binding=None), left(BEFORE), NAMES),
        (rehearsed(), left(BEFORE), (*NAMES, "member4")),
        (rehearsed(), left(BEFORE), ("member0", "member1", "member2")),
        (rehearsed(on="nowhere"), left(BEFORE), NAMES),
        (twice_tried(), left(BEFORE), NAMES),
    ],
    ids=[
        "a reschedule was requested",
        "a reschedule was requested before",
        "scaled",
        "requests less",
        "another affinity term",
        "scheduled meanwhile",
        "drained from another cluster",
        "another target",
        "not evicted",
        "removed without a task",
        "drained",
        "evicted from more",
        "on more clusters before",
        "drained before",
        "not handed over",
        "a new cluster",
        "other clusters",
        "refused",
        "two affinity terms",
    ],
)
def test_a_verdict_on_another_question_is_not_confirmed(
    rehearsal: Rehearsal, now: Binding, clusters: tuple[str, ...]
) -> None:
    assert confirmed(rehearsed(), left(BEFORE), fleet(*NAMES)) is not None

    assert confirmed(rehearsal, now, fleet(*clusters)) is None


def test_a_binding_whose_tasks_exclude_clusters_is_not_confirmed() -> None:
    """With this setting the tasks of taints exclude clusters as those of drains do."""
    compat = replace(FAST, compat=replace(FAST.compat, cluster_eviction_filter=True))
    (snapshot,) = snapshots_of(queued(binding("web", ANYWHERE, on={"member1": 2})))
    fleet_ = Fleet.of(snapshot.clusters, settings=FAST)

    assert _BatchScheduler(fleet_, snapshot, FAST, START)._confirmed(snapshot, "evicted") is not None
    assert _BatchScheduler(fleet_, snapshot, compat, START)._confirmed(snapshot, "evicted") is None


def test_a_cluster_that_was_left_earlier_and_has_no_taint_any_more_is_not_confirmed() -> None:
    before, tainted = home(ON_TWO), cluster("member3", taints=(no_execute(),))
    now = Fleet.of([cluster("member1"), cluster("member2"), tainted], settings=FAST)
    rehearsal = rehearsed(before, third=tainted)

    assert rehearsal.verdict.explanation.question.evicted == ("member3",)
    assert confirmed(rehearsal, left(before), now) is not None
    assert confirmed(rehearsal, left(before), fleet(*NAMES)) is None


def test_a_cluster_that_was_left_earlier_and_has_a_taint_again_is_not_confirmed() -> None:
    before, tainted = home(ON_TWO), cluster("member3", taints=(no_execute(),))
    now = Fleet.of([cluster("member1"), cluster("member2"), tainted], settings=FAST)

    assert confirmed(
        rehearsed(before, third=THIRD), left(before), Fleet.of([*map(cluster, NAMES[:2]), THIRD], settings=FAST)
    )
    assert confirmed(rehearsed(before, third=THIRD), left(before), now) is None


def test_a_binding_whose_hand_placement_applies_again_is_not_confirmed() -> None:
    """A user has placed it on member2. The scheduler has added member1, and the eviction takes it away again."""
    unplaced = binding("web", ANYWHERE)
    by_hand = manual_placement.with_mark(unplaced.with_spec(clusters=(TargetCluster("member2", 2),)), unplaced)
    before = by_hand.with_spec(clusters=ON_TWO.spec.clusters[:1] + by_hand.spec.clusters)
    found = rehearsed(before)

    assert not manual_placement.mark_applies(before)
    assert manual_placement.mark_applies(left(before))
    assert confirmed(found, left(before), fleet(*NAMES)) is None


def test_a_decision_rests_on_the_clusters_of_its_own_batch() -> None:
    scheduler, store = Scheduler(), queued(binding("web", ANYWHERE, on={"member1": 2}))
    (snapshot,) = snapshots_of(store)
    put = Put(snapshot.subject.with_spec(clusters=(TargetCluster("member2", 2),)), snapshot.subject)
    later = replace(snapshot, clusters=tuple(map(shut, snapshot.clusters)))

    for each in (snapshot, later, snapshot):
        (chosen,) = (one for one in each.clusters if one.metadata.name == "member2")
        assert scheduler.rests_on(each, Decision(changes=(put,))) == (Guard(chosen.ref, chosen.metadata.generation),)


def test_a_cluster_that_is_not_feasible_any_more_is_not_confirmed() -> None:
    now = Fleet.of([cluster("member1"), shut(cluster("member2")), cluster("member3")], settings=FAST)

    assert confirmed(rehearsed(), left(BEFORE), now) is None
    assert confirmed(rehearsed(on="member3"), left(BEFORE), now) is not None


def test_a_cluster_that_reports_less_room_since_then_is_not_confirmed() -> None:
    now = Fleet.of([cluster("member1"), cluster("member2", room=1), cluster("member3")], settings=FAST)

    assert confirmed(rehearsed(), left(BEFORE), now) is None


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
