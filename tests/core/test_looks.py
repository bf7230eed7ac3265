"""graceful_eviction looks at an evicted binding in the write of its eviction, and again when its grace period ends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, Ref
from controlplane.controllers.graceful_eviction import SCHEDULED_WITHIN, GracefulEviction
from controlplane.engine.cascade import followers
from controlplane.engine.decision import NOTHING, Decision, Drop, Event, Guard
from controlplane.engine.memory import MemoryStore
from controlplane.engine.run import run_batch
from controlplane.eviction.graceful import EVICTION_STUCK, SMALLEST_STEP
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.binding import SCHEDULED, AggregatedStatusItem, Binding, GracefulEvictionTask
from controlplane.kinds.policy import GRACEFULLY
from controlplane.kinds.rows import PlacementNote
from controlplane.settings import Settings
from tests.builders.objects import START, binding, work
from tests.core.evicting import CONTROLLERS, WORLD, content, evicted, placed, queued
from tests.core.eviction_fleet import ANYWHERE, FAST

GONE = Guard(Ref("cluster.karmada.io/Cluster", "", "member9"), None)
WITHOUT_SCHEDULER = replace(FAST, controllers=("*", "-scheduler"))


def looked_at(*bindings: Binding, settings: Settings = FAST, looking: GracefulEviction | None = None) -> MemoryStore:
    """Return a store whose bindings were evicted while graceful_eviction looks at what is written."""
    graceful = GracefulEviction() if looking is None else looking
    controllers = (*CONTROLLERS, graceful)
    store = queued(*bindings, store=lambda **given: MemoryStore(**{**given, "controllers": controllers}))
    evictions = CONTROLLERS[1]
    run_batch(evictions, store, settings, world=WORLD, following=followers(evictions, controllers, settings))
    return store


def healthy_on(one: Binding) -> tuple[AggregatedStatusItem, ...]:
    return tuple(AggregatedStatusItem(target.name, applied=True, health="Healthy") for target in one.spec.clusters)


def unplaced(one: Binding) -> Binding:
    """Return a binding for which no cluster was found, and that has left member3, which takes copies."""
    task = replace(one.spec.graceful_eviction_tasks[0], from_cluster="member3")
    refused = Condition(SCHEDULED, "False", "NoClusterFit")
    return one.with_spec(clusters=(), graceful_eviction_tasks=(task,)).with_status(conditions=(refused,))


def waits(store: MemoryStore) -> dict[str, timedelta]:
    """Return how long graceful_eviction waits until it looks at each binding."""
    return {ref.name: row.due_at - START for ref, row in store.due.get("graceful_eviction", {}).items()}


def test_an_evicted_binding_is_looked_at_when_its_grace_period_ends_and_not_before() -> None:
    store = looked_at(binding("web", ANYWHERE, on={"member1": 2}))

    assert waits(store) == {"web-deployment": timedelta(seconds=600) + SMALLEST_STEP}


def test_the_look_that_is_made_at_once_finds_what_the_own_batch_of_graceful_eviction_finds() -> None:
    bindings = [binding(f"web{number}", ANYWHERE, on={"member1": number + 1}) for number in range(3)]

    class Elsewhere(GracefulEviction):
        def looking(self, state: Any, settings: Any, *, now: Any) -> Any:
            return lambda binding: None

    together, apart = looked_at(*bindings), looked_at(*bindings, looking=Elsewhere())
    assert waits(apart) == dict.fromkeys(waits(together), timedelta(0))
    run_batch(GracefulEviction(), apart, FAST, world=WORLD)

    assert waits(apart) == waits(together)
    assert content(apart) == content(together)


class Looking(GracefulEviction):
    """A controller that decides something else than to look again, or fails when it begins or looks."""

    def __init__(self, found: Decision | str) -> None:
        self.found = found

    def looking(self, state: Any, settings: Any, *, now: Any) -> Any:
        if self.found == "fails at the beginning":
            raise ValueError("no clusters")

        def look(binding: Any) -> Decision | None:
            if isinstance(self.found, str):
                raise ValueError("no decision")
            return self.found

        return look


@pytest.mark.parametrize(
    "found",
    [
        Decision(changes=(Drop(PlacementNote("web")),)),
        Decision(events=(Event(work(), "Seen", "seen"),)),
        Decision(guards=(GONE,), wake_at=START + timedelta(hours=1)),
        "fails at the beginning",
        "fails",
    ],
    ids=["a change", "an event", "a guard", "a failure at the beginning", "a failure"],
)
def test_a_look_that_finds_something_to_do_is_repeated_in_the_own_batch(found: Decision | str) -> None:
    store = looked_at(binding("web", ANYWHERE, on={"member1": 2}), looking=Looking(found))

    assert len(evicted(store)) == len(placed(store)["web-deployment"]) == 1
    assert waits(store) == {"web-deployment": timedelta(0)}


def test_a_look_that_finds_nothing_to_wait_for_makes_the_binding_not_due() -> None:
    assert waits(looked_at(binding("web", ANYWHERE, on={"member1": 2}), looking=Looking(NOTHING))) == {}


@pytest.mark.parametrize(("kind", "looks"), [("Deployment", True), ("ConfigMap", False)])
def test_an_object_whose_old_copy_may_wait_for_others_is_looked_at_in_the_own_batch(kind: str, looks: bool) -> None:
    store = looked_at(binding("web", ANYWHERE, on={"member1": 2}))
    (web,) = store.list(RESOURCE_BINDING)
    api_version = "v1" if kind == "ConfigMap" else "apps/v1"
    one = web.with_spec(resource=replace(web.spec.resource, api_version=api_version, kind=kind))

    look = GracefulEviction().looking(store, FAST, now=START)

    assert (look(one) is not None) == looks


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.with_status(aggregated_status=healthy_on(one)),
        lambda one: one.with_status(conditions=(*one.status.conditions, Condition(EVICTION_STUCK, "True", "Stuck"))),
        lambda one: one.with_spec(graceful_eviction_tasks=(GracefulEvictionTask("member1", GRACEFULLY),)),
        lambda one: unplaced(one),
    ],
    ids=["the new copy is healthy", "it was stuck", "a task without its time", "its cluster is back"],
)
def test_a_binding_that_would_be_changed_is_not_only_looked_at(change: Callable[[Binding], Binding]) -> None:
    store = looked_at(binding("web", ANYWHERE, on={"member1": 2}))
    (web,) = store.list(RESOURCE_BINDING)
    controller = GracefulEviction()
    look = controller.looking(store, FAST, now=START)
    (snapshot,) = controller.load(store, [web.ref])
    assert snapshot is not None

    assert look(web) == controller.decide(snapshot, FAST, now=START) != NOTHING
    assert controller.decide(replace(snapshot, subject=change(web)), FAST, now=START).changes
    assert look(change(web)) is None


def test_a_binding_that_is_not_placed_is_looked_at_once_the_scheduler_has_decided() -> None:
    store = looked_at(
        binding("web", ANYWHERE, on={"member1": 2}), settings=replace(FAST, controllers=("*", "-scheduler"))
    )

    assert waits(store) == {"web-deployment": SCHEDULED_WITHIN}
