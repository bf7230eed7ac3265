"""Tokens are never given back, so a conflict on one binding must not cost those of the others."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from controlplane.controllers.evictions import Evictions
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.controllers.scheduler import Scheduler
from controlplane.engine import run
from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor
from controlplane.eviction import operator_orders
from controlplane.eviction.eviction_plan import EvictionPlan
from controlplane.eviction.rate import Tokens
from controlplane.kinds.binding import Binding
from controlplane.kinds.rows import Eviction, PlacementHint, eviction_key
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import by_room, duplicated
from tests.core.fleet_story import FAILOVER, Story
from tests.core.test_eviction_steering import hold

EVICTIONS = Actor("evictions", controller=True)
FAST = replace(FAILOVER, resource_eviction_rate=1000.0, secondary_resource_eviction_rate=100.0)


def web(name: str) -> Binding:
    return binding(name, duplicated(least=1, most=1), on={"member1": 1})


def about_to_leave(story: Story, tokens: int, home: str = "member1") -> Decision:
    """Return what Evictions decides when there are tokens for what waits; nothing of it is written yet."""
    story.redis_away = True
    story.taint(home, no_execute())
    controller = Evictions()
    snapshot = controller.load(story.store, [FLEET])[0]
    assert snapshot is not None
    return controller.decide(snapshot, FAST, now=story.now, answer=Tokens({"fleet": tokens}, 1.0))


def to_store(decision: Decision) -> Decision:
    """Return a decision without what its separate decisions only hand over."""
    return replace(decision, separate_decisions=tuple(replace(one, found=None) for one in decision.separate_decisions))


def test_the_plan_that_the_tokens_were_counted_for_is_the_plan_that_is_carried_out() -> None:
    """The plan travels in the snapshot: the controller that decides need not be the instance that asked."""
    story = Story(*(cluster(f"member{n}") for n in (1, 2)), *map(web, ("a", "b")), settings=FAST)
    about_to_leave(story, 0)
    snapshots = [one for one in Evictions().load(story.store, [FLEET]) if one is not None]

    inquiry = Evictions().ask(snapshots, FAST, now=story.now)
    without_moves = replace(inquiry.snapshots[0], plan=EvictionPlan())

    assert inquiry.question.wanted == {"fleet": 2}
    tokens = Tokens({"fleet": 2}, 1.0)
    planned = Evictions().decide(inquiry.snapshots[0], FAST, now=story.now, answer=tokens)
    assert to_store(planned) == to_store(Evictions().decide(snapshots[0], FAST, now=story.now, answer=tokens))
    assert len(planned.separate_decisions) == 2
    assert not Evictions().decide(without_moves, FAST, now=story.now, answer=tokens).separate_decisions


def test_a_binding_that_was_edited_meanwhile_costs_its_own_token_only() -> None:
    story = Story(*(cluster(f"member{n}") for n in (1, 2, 3)), *map(web, ("a", "b", "c")), settings=FAST)
    decision = about_to_leave(story, 3)

    edited = story.binding("b")
    story.store.put(edited.with_spec(graceful_eviction_tasks=()).with_spec(replicas=7), edited)
    changed = story.binding("b")
    story.store.put(changed.with_spec(clusters=(replace(changed.spec.clusters[0], replicas=5),)), changed)
    outcomes = story.store.apply([(None, one) for one in decision.separate_decisions], by=EVICTIONS)

    assert sorted(bool(one.lost) for one in outcomes) == [False, False, True]
    assert story.leaving("a") == story.leaving("c") == ["member1"]
    assert story.leaving("b") == []
    assert "b|member1" in story.queue()


def test_a_hold_made_after_the_decision_and_before_its_writing_counts() -> None:
    story = Story(*(cluster(f"member{n}") for n in (1, 2, 3)), web("a"), settings=FAST)
    decision = about_to_leave(story, 1)

    story.store.create(hold())
    outcomes = story.store.apply([(None, one) for one in decision.separate_decisions], by=EVICTIONS)

    assert [one.lost for one in outcomes] == ["guard failover.lifeboat.io/EvictionHold:*"]
    assert story.leaving("a") == []


@pytest.mark.parametrize("verb", [operator_orders.HOLD, operator_orders.SKIP])
@pytest.mark.parametrize("homes", [("member1",), ("member1", "member2")], ids=["from home", "from where it fled to"])
def test_an_order_given_after_the_decision_and_before_its_writing_counts(homes: tuple[str, ...], verb: str) -> None:
    """Of a home nothing more is noted when the copy has left it before: an eviction from elsewhere writes no
    annotation that would have conflicted with the order."""
    story = Story(*(cluster(f"member{n}") for n in (1, 2, 3, 4, 5)), web("a"), settings=FAST)
    for home in homes[:-1]:
        story.taint(home, no_execute())
        story.pass_seconds(5)
    (last,) = story.placed("a")
    decision = about_to_leave(story, 1, last)
    assert len(decision.separate_decisions) == 1

    old, key = story.binding("a"), eviction_key(story.binding("a").ref, last)
    (item,) = story.store.rows(Eviction, "key", [key])[key]
    story.store.put(operator_orders.with_order(old, item, verb, reason="because", by="jane", now=story.now), old)
    outcomes = story.store.apply([(None, one) for one in decision.separate_decisions], by=EVICTIONS)
    story.redis_away = False
    story.work()
    story.pass_seconds(60)

    assert [one.lost for one in outcomes] == [f"conflict {old.ref}"]
    assert list(story.placed("a")) == [last]
    assert last not in story.leaving("a")


def test_a_process_that_begins_looks_at_what_concerns_everything() -> None:
    story = Story(cluster("member1"))
    story.store.due.clear()

    run.mark_due_at_start(story.controllers, story.store)

    assert {name for name, rows in story.store.due.items() if FLEET in rows} >= {
        "fleet",
        "evictions",
        "cluster_taints",
        "eviction_queue",
    }


def test_the_scheduler_takes_what_the_dry_run_found_where_it_still_holds() -> None:
    web = binding("web", by_room("member1", "member2", "member3"), on={"member1": 4}, replicas=4)
    clusters = [cluster(name, room=100) for name in ("member1", "member2", "member3")]
    story = Story(*clusters, settings=FAST)
    generation = web.with_spec(clusters=()).metadata.generation
    found = PlacementHint(str(web.ref), generation, {"member2": 1, "member3": 3})
    story.store.apply([(None, Decision(changes=(Save(found),)))], by=Actor("test"))
    left = web.with_spec(clusters=())

    story.store.create(left)
    snapshot = Scheduler().load(story.store, [left.ref])[0]
    assert snapshot is not None
    assert snapshot.hint == found
    decision = Scheduler().decide(snapshot, FAST, now=START + timedelta(seconds=1))
    story.store.apply([(None, decision)], by=Actor("scheduler", controller=True))

    assert story.placed("web") == {"member2": 1, "member3": 3}
    assert story.store.rows(PlacementHint, "key", [str(web.ref)]) == {}
