"""People steer the queue: holds, maintenance windows, orders about single evictions; and bindings say how it stands."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import ObjectMeta, condition
from controlplane.apimachinery.names import EVICTION_ORDERS_ANNOTATION
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.clusters import eviction_tier
from controlplane.engine.decision import Decision as Decided
from controlplane.engine.decision import Delete
from controlplane.engine.state import Actor
from controlplane.eviction import operator_orders
from controlplane.eviction.pending import EVICTION_PENDING
from controlplane.kinds.binding import Binding
from controlplane.kinds.policy import Toleration
from controlplane.kinds.rows import Eviction, eviction_key
from controlplane.kinds.template import Template
from controlplane.settings import EvictionSettings
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import duplicated
from tests.builders.steering import hold, window
from tests.core.fleet_story import FAILOVER, Story

FAST = replace(
    FAILOVER, resource_eviction_rate=1000.0, secondary_resource_eviction_rate=100.0, eviction=EvictionSettings()
)
SLOW = replace(FAILOVER, resource_eviction_rate=0.1, secondary_resource_eviction_rate=0.1)
ONE = duplicated(least=1, most=1)
LATER = duplicated(least=1, most=1, tolerations=[Toleration("gone", "Exists", toleration_seconds=100)])
API = "failover.lifeboat.io/v1alpha1"


def fleet(*objects: Any, settings: Any = FAST, members: int = 5) -> Story:
    return Story(*(cluster(f"member{n}") for n in range(1, members + 1)), *objects, settings=settings)


def web(placement: Any = ONE, name: str = "web", **fields: Any) -> Binding:
    return binding(name, placement, on={"member1": 2}, **fields)


def reported(story: Story, name: str = "web") -> tuple[str, str]:
    found = condition(story.binding(name).status.conditions, EVICTION_PENDING)
    return ("", "") if found is None else (found.status, found.reason)


def row(story: Story, name: str = "web") -> Eviction | None:
    key = eviction_key(story.binding(name).ref, "member1")
    found = story.store.rows(Eviction, "key", [key]).get(key, ())
    return next(iter(found), None)


def remove(story: Story, obj: Any) -> None:
    live = story.store.get([obj.ref])[obj.ref]
    story.store.apply([(None, Decided(changes=(Delete(live),)))], by=Actor("test"))
    story.work()


def give(story: Story, verb: str, name: str = "web") -> None:
    old, item = story.binding(name), row(story, name)
    assert item is not None
    new = operator_orders.with_order(old, item, verb, reason="because", by="jane", now=story.now)
    assert not story.store.put(new, old).lost
    story.work()


def gone(story: Story, name: str = "web") -> bool:
    return "member1" not in story.placed(name)


# What a binding says


def test_a_binding_says_queued_then_evicted() -> None:
    story = fleet(web(LATER))

    story.taint("member1", no_execute())
    story.pass_seconds(4)
    assert reported(story) == ("True", "Queued")
    assert {one.involved_object.kind for one in story.events("EvictionQueued")} == {"ResourceBinding", "Deployment"}
    story.pass_seconds(102)

    assert reported(story) == ("False", "Evicted")
    assert len(story.events("EvictWorkloadFromClusterSucceed")) == 2


def test_a_binding_without_refuge_says_held_and_why() -> None:
    story = fleet(web(duplicated("member1", least=1, most=1)))

    story.taint("member1", no_execute())
    story.pass_seconds(5)

    assert reported(story) == ("True", "Held")
    assert "NoRefuge" in condition(story.binding("web").status.conditions, EVICTION_PENDING).message  # type: ignore[union-attr]


def test_what_is_held_no_longer_says_so_at_once_though_its_turn_comes_later() -> None:
    stop = hold()
    story = fleet(web(), web(name="other"), stop, settings=SLOW)
    story.taint("member1", no_execute())
    story.pass_seconds(30)
    assert reported(story) == reported(story, "other") == ("True", "Held")

    remove(story, stop)
    story.pass_seconds(1)

    assert {gone(story), gone(story, "other")} == {True, False}
    assert reported(story, "web" if not gone(story) else "other") == ("True", "Queued")


def test_a_cluster_that_recovers_leaves_abandoned_evictions_and_no_records() -> None:
    story = fleet(web(LATER), web(ONE, "quick"))
    story.taint("member1", no_execute())
    story.pass_seconds(10)
    assert reported(story, "quick") == ("False", "Evicted")
    assert row(story, "quick") is not None

    story.untaint("member1")
    story.pass_seconds(1)

    assert reported(story) == ("False", "Abandoned")
    assert [one.reason for one in story.events("EvictionAbandoned")] == ["EvictionAbandoned"] * 2
    assert row(story, "quick") is None


def test_a_binding_that_is_not_to_leave_reports_nothing() -> None:
    story = fleet(web(duplicated(least=1, most=1, tolerations=[Toleration(operator="Exists")])))

    story.taint("member1", no_execute())
    story.pass_seconds(5)

    assert reported(story) == ("", "")


# Holds


@pytest.mark.parametrize(
    ("scope", "holds"),
    [
        ({}, True),
        ({"clusters": ("member1",)}, True),
        ({"clusters": ("member2",)}, False),
        ({"namespaces": ("default",)}, True),
        ({"namespaces": ("shop",)}, False),
        ({"clusters": ("member1",), "namespaces": ("shop",)}, False),
        ({"selector": LabelSelector(match_labels={"tier": "gold"})}, True),
        ({"selector": LabelSelector(match_labels={"tier": "iron"})}, False),
        ({"expires_at": START - timedelta(seconds=1)}, False),
    ],
)
def test_an_open_hold_keeps_what_it_covers(scope: dict[str, Any], holds: bool) -> None:
    labelled = Template(
        "apps/v1", "Deployment", ObjectMeta(name="web", namespace="default", uid="t", labels={"tier": "gold"})
    )
    story = fleet(web(), labelled, hold(**scope))

    story.taint("member1", no_execute())
    story.pass_seconds(5)

    assert gone(story) is not holds
    assert reported(story) == (("True", "Held") if holds else ("False", "Evicted"))


def test_a_workload_whose_labels_no_hold_chooses_any_more_leaves() -> None:
    labelled = Template(
        "apps/v1", "Deployment", ObjectMeta(name="web", namespace="default", uid="t", labels={"tier": "gold"})
    )
    story = fleet(web(), labelled, hold(selector=LabelSelector(match_labels={"tier": "gold"})))
    story.taint("member1", no_execute())
    story.pass_seconds(5)
    for labels, held in (({"tier": "gold", "team": "a"}, True), ({"tier": "iron"}, False)):
        assert not gone(story)
        live = story.store.get([labelled.ref])[labelled.ref]

        story.store.put(live.with_meta(labels=labels), live)
        story.work()
        story.pass_seconds(2)

        assert gone(story) is not held


def test_what_was_held_leaves_when_the_last_hold_goes() -> None:
    first, second = hold("first"), hold("second", clusters=("member1",))
    story = fleet(web(), first, second)
    story.taint("member1", no_execute())
    story.pass_seconds(5)

    remove(story, first)
    story.pass_seconds(5)
    assert not gone(story)
    remove(story, second)
    story.pass_seconds(2)

    assert gone(story)


def test_a_hold_made_while_the_queue_runs_counts_at_once() -> None:
    story = fleet(web(), web(name="api"), settings=SLOW)
    story.taint("member1", no_execute())
    story.pass_seconds(11)
    assert [gone(story, "api"), gone(story, "web")] == [True, False]

    story.store.create(hold())
    story.pass_seconds(60)

    assert not gone(story, "web")


def test_a_hold_ends_by_itself() -> None:
    story = fleet(web(), hold(expires_at=START + timedelta(seconds=30)))
    story.taint("member1", no_execute())
    story.pass_seconds(29)
    assert not gone(story)

    story.pass_seconds(3)

    assert gone(story)


# Maintenance


def test_nothing_is_evicted_in_a_maintenance_window_and_everything_after_it() -> None:
    story = fleet(web(), window("member1", until=60))
    story.taint("member1", no_execute())
    story.pass_seconds(59)
    assert not gone(story)
    assert row(story).reason == "Maintenance"  # type: ignore[union-attr]

    story.pass_seconds(3)

    assert gone(story)


def test_a_window_that_begins_while_the_queue_runs_stops_it() -> None:
    story = fleet(web(LATER), window("member1", begins=50, until=200))
    story.taint("member1", no_execute())

    story.pass_seconds(199)
    assert not gone(story)
    story.pass_seconds(3)

    assert gone(story)


def test_a_cluster_in_maintenance_counts_in_neither_number() -> None:
    clusters = [cluster("member1"), cluster("member2", ready="False"), cluster("member3", ready="False")]

    counted = eviction_tier.fleet_health(clusters, maintained={"member3"})

    assert (counted.total, counted.faulty) == (2, ("member2",))


def test_the_tier_leaves_out_clusters_in_maintenance() -> None:
    """2 of 3 faulty stops a small fleet; with one of the two in maintenance it is 1 of 2."""
    placement = duplicated("member1", "member3", least=1, most=1)
    story = fleet(binding("web", placement, on={"member1": 2}), members=3)
    story.taint("member2", no_execute("other"))
    story.taint("member1", no_execute())
    story.pass_seconds(10)
    assert not gone(story)

    story.store.create(window("member2"))
    story.pass_seconds(5)

    assert gone(story)


# Orders


def test_an_item_held_by_hand_waits_until_it_is_released() -> None:
    story = fleet(web(LATER))
    story.taint("member1", no_execute())
    give(story, operator_orders.HOLD)
    assert row(story).reason == "HeldByHand"  # type: ignore[union-attr]
    story.pass_seconds(300)
    assert not gone(story)

    give(story, operator_orders.RELEASE)
    story.pass_seconds(2)

    assert gone(story)


def test_a_skipped_item_stays_until_that_taint_goes_and_a_later_taint_is_its_own_question() -> None:
    story = fleet(web(LATER))
    story.taint("member1", no_execute())
    story.pass_seconds(4)
    give(story, operator_orders.SKIP)
    story.pass_seconds(4)
    assert reported(story) == ("False", "Abandoned")
    story.pass_seconds(300)
    assert not gone(story)

    story.taint("member1", no_execute("worse", at=story.now))
    story.pass_seconds(2)

    assert gone(story)


def test_a_skip_ends_with_its_taint() -> None:
    story = fleet(web(LATER))
    story.taint("member1", no_execute())
    give(story, operator_orders.SKIP)
    story.untaint("member1")
    story.pass_seconds(10)

    story.taint("member1", no_execute(at=story.now))
    story.pass_seconds(103)

    assert gone(story)


def test_a_hold_stands_whatever_else_is_ordered_until_it_is_released() -> None:
    story = fleet(web(LATER), web(ONE, "first", priority=10), settings=SLOW)
    story.taint("member1", no_execute())
    give(story, operator_orders.HOLD)
    give(story, operator_orders.EXPEDITE)
    story.pass_seconds(150)
    assert not gone(story)
    assert row(story).reason == "HeldByHand"  # type: ignore[union-attr]

    give(story, operator_orders.RELEASE)
    story.pass_seconds(11)

    assert gone(story)


def test_what_was_skipped_stays_after_a_hold_on_it_is_released() -> None:
    story = fleet(web(LATER))
    story.taint("member1", no_execute())
    for verb in (operator_orders.SKIP, operator_orders.HOLD, operator_orders.RELEASE):
        give(story, verb)

    story.pass_seconds(300)

    assert not gone(story)
    assert reported(story) == ("False", "Abandoned")


@pytest.mark.parametrize(
    "verbs", [(operator_orders.SKIP, operator_orders.RELEASE), (operator_orders.SKIP, operator_orders.EXPEDITE)]
)
def test_a_skip_is_taken_back(verbs: tuple[str, ...]) -> None:
    story = fleet(web(LATER))
    story.taint("member1", no_execute())
    for verb in verbs:
        give(story, verb)

    story.pass_seconds(101)

    assert gone(story)


@pytest.mark.parametrize("text", ["not JSON", "[]", '{"member1": "Hold"}', '{"member1": [{"verb": 1}]}'])
def test_an_annotation_that_is_no_list_of_orders_orders_nothing(text: str) -> None:
    one = binding("web", duplicated(), on={"member1": 1}).with_meta(annotations={EVICTION_ORDERS_ANNOTATION: text})

    assert operator_orders.orders_by_cluster(one) == {}


def test_an_order_of_an_earlier_outage_is_in_the_way_of_no_other() -> None:
    story = fleet(web(LATER))
    story.taint("member1", no_execute())
    give(story, operator_orders.HOLD)
    story.untaint("member1")
    story.pass_seconds(10)
    story.taint("member1", no_execute(at=story.now))
    for verb in (operator_orders.SKIP, operator_orders.RELEASE):
        give(story, verb)

    story.pass_seconds(103)

    assert gone(story)


def test_a_hold_by_hand_goes_on_when_another_taint_takes_the_place_of_the_first() -> None:
    """As where a cluster that was Unknown answers again and is False [automatic-taints]."""
    story = fleet(web(duplicated(least=1, most=1, tolerations=[Toleration(operator="Exists", toleration_seconds=100)])))
    story.taint("member1", no_execute("unreachable"))
    give(story, operator_orders.HOLD)

    old = story.cluster("member1")
    assert not story.store.put(old.with_spec(taints=(no_execute("not-ready", at=story.now),)), old).lost
    story.pass_seconds(300)
    assert not gone(story)
    give(story, operator_orders.RELEASE)
    story.pass_seconds(2)

    assert gone(story)


def test_an_expedited_item_is_first_in_order_and_still_needs_its_token() -> None:
    names = ["a", "b", "c"]
    story = fleet(*(web(name=name, priority=10 if name == "a" else 0) for name in names), settings=SLOW)
    story.taint("member1", no_execute())
    give(story, operator_orders.EXPEDITE, "c")
    assert not gone(story, "c")

    story.pass_seconds(11)

    assert [gone(story, name) for name in names] == [False, False, True]


def test_an_expedited_item_does_not_pass_a_hold_or_go_nowhere() -> None:
    story = fleet(web(LATER), binding("stuck", duplicated("member1", least=1, most=1), on={"member1": 2}), hold())
    story.taint("member1", no_execute())
    give(story, operator_orders.EXPEDITE)
    give(story, operator_orders.EXPEDITE, "stuck")

    story.pass_seconds(200)

    assert not gone(story)
    assert not gone(story, "stuck")
