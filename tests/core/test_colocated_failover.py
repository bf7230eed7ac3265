"""Application failover of one part: which of the other parts follow it, and when (docs/decisions/0007)."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apimachinery.names import TOGETHER_ANNOTATION
from controlplane.eviction.colocated_failover import clusters_to_follow_from
from controlplane.kinds.binding import APPLICATION_FAILURE, AggregatedStatusItem, Binding, TargetCluster
from controlplane.kinds.policy import (
    DIRECTLY,
    GRACEFULLY,
    ApplicationFailoverBehavior,
    DecisionConditions,
    FailoverBehavior,
)
from controlplane.settings import Settings
from tests.builders.objects import leaving
from tests.core.fleet_story import Story
from tests.core.test_colocation import part, serving

HOME = "member1"
KINDS = {"server": "Deployment", "database": "StatefulSet", "front": "Service", "settings": "ConfigMap"}


def online(*names: str, mode: str = GRACEFULLY, **annotations: str) -> tuple[Binding, ...]:
    """Parts of one application on member1, whose policy lets unhealthy copies leave after a minute."""
    grace = 600 if mode == GRACEFULLY else None
    asked = FailoverBehavior(application=ApplicationFailoverBehavior(DecisionConditions(60), mode, grace))
    made = (
        part(name, 2 if name in ("server", "database") else 0, kind=KINDS[name], on=HOME, **annotations)
        for name in names
    )
    return tuple(one.with_spec(failover=asked, propagate_deps=True) for one in made)


def story(*objects: Any, members: int = 3) -> Story:
    return Story(*(serving(f"member{n}") for n in range(1, members + 1)), *objects, settings=Settings())


def becomes_unhealthy(fleet: Story, name: str) -> None:
    old = fleet.binding(name)
    item = AggregatedStatusItem(HOME, applied=True, health="Unhealthy")
    fleet.store.put(old.with_status(aggregated_status=(item,)), old)
    fleet.work()
    fleet.pass_seconds(61)


@pytest.mark.parametrize("mode", [GRACEFULLY, DIRECTLY])
@pytest.mark.parametrize(
    ("beside", "said", "follow"),
    [
        (("front", "settings"), None, {"front", "settings"}),
        (("front", "settings"), "true", {"front", "settings"}),
        (("front", "settings"), "false", set()),
        (("front", "settings", "database"), None, set()),
        (("front", "settings", "database"), "true", {"front", "settings", "database"}),
        (("front", "settings", "database"), "false", set()),
    ],
)
def test_what_has_no_pods_follows_the_last_that_does_and_all_do_where_the_policy_says_so(
    beside: tuple[str, ...], said: str | None, follow: set[str], mode: str
) -> None:
    notes = {} if said is None else {TOGETHER_ANNOTATION: said}
    fleet = story(*online("server", *beside, mode=mode, **notes))

    becomes_unhealthy(fleet, "server")

    (refuge,) = fleet.placed("server")
    assert refuge != HOME
    assert {name for name in beside if HOME not in fleet.placed(name)} == follow
    assert all(set(fleet.placed(name)) == {refuge} for name in follow)
    for name in follow:
        reasons = {
            event.message
            for event in fleet.events("EvictWorkloadFromClusterSucceed")
            if name in event.involved_object.name
        }
        assert any("follows server-deployment" in one for one in reasons)


def test_no_part_follows_one_that_has_no_place() -> None:
    fleet = story(*online("server", "front"), members=1)

    becomes_unhealthy(fleet, "server")

    assert fleet.leaving("server") == [HOME]
    assert fleet.leaving("front") == []
    assert set(fleet.placed("front")) == {HOME}


def test_a_part_without_application_failover_of_its_own_stays() -> None:
    (server, front) = online("server", "front", **{TOGETHER_ANNOTATION: "true"})
    fleet = story(server, front.with_spec(failover=None))

    becomes_unhealthy(fleet, "server")

    assert HOME not in fleet.placed("server")
    assert set(fleet.placed("front")) == {HOME}


def test_who_followed_does_not_follow_twice() -> None:
    fleet = story(*online("server", "front"))
    becomes_unhealthy(fleet, "server")
    before = fleet.binding("front")

    fleet.pass_seconds(600)

    assert fleet.placed("front") == {one.name: one.replicas for one in before.spec.clusters}
    assert len(fleet.events("EvictWorkloadFromClusterSucceed")) == 2


@pytest.mark.parametrize(
    ("on", "tasks", "follows"),
    [
        (("first", "second"), (), ["first", "second"]),
        (("second",), (), ["second"]),  # it was never on the first
        (("first", "second"), ("first",), ["second"]),  # it is leaving the first already
        ((), (), []),
    ],
)
def test_a_part_follows_from_each_cluster_that_it_is_on_and_not_yet_leaving(
    on: tuple[str, ...], tasks: tuple[str, ...], follows: list[str]
) -> None:
    (server,) = online("server")
    left = tuple(leaving(name, reason=APPLICATION_FAILURE) for name in ("first", "second"))
    server = server.with_spec(clusters=(TargetCluster("refuge", 2),), graceful_eviction_tasks=left)
    (front,) = online("front")
    front = front.with_spec(
        clusters=tuple(TargetCluster(name, 0) for name in on),
        graceful_eviction_tasks=tuple(leaving(name) for name in tasks),
    )

    assert list(clusters_to_follow_from(front, (server, front), {})) == follows
