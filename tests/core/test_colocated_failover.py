"""Application failover of one part: which of the other parts follow it, and when (docs/decisions/0007)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.names import TOGETHER_ANNOTATION
from controlplane.eviction.colocated_failover import (
    application_to_follow,
    clusters_to_follow_from,
    with_following_tasks,
)
from controlplane.kinds.binding import APPLICATION_FAILURE, AggregatedStatusItem, Binding, TargetCluster
from controlplane.kinds.policy import (
    DIRECTLY,
    GRACEFULLY,
    ApplicationFailoverBehavior,
    DecisionConditions,
    FailoverBehavior,
    StatePreservation,
    StatePreservationRule,
)
from controlplane.settings import GATES, Settings
from tests.builders.objects import START, leaving
from tests.builders.placements import duplicated
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
    (server, front) = online("server", "front")
    gone = server.with_spec(clusters=(), graceful_eviction_tasks=(leaving(HOME, reason=APPLICATION_FAILURE),))
    fleet = story(gone, front, members=1)

    fleet.pass_seconds(1)

    assert fleet.leaving("server") == [HOME]
    assert fleet.leaving("front") == []
    assert set(fleet.placed("front")) == {HOME}


def test_a_part_that_no_other_cluster_can_take_does_not_follow() -> None:
    """The server has a new place; the database may only run on its present cluster."""
    (server, database) = online("server", "database", mode=DIRECTLY, **{TOGETHER_ANNOTATION: "true"})
    fleet = story(server, database.with_spec(placement=duplicated(HOME, least=1, most=1)))

    becomes_unhealthy(fleet, "server")
    fleet.pass_seconds(60)

    assert HOME not in fleet.placed("server")
    assert set(fleet.placed("database")) == {HOME}
    assert any("no other cluster can take the copy" in event.message for event in fleet.events("EvictionHeld"))


def test_a_part_without_application_failover_of_its_own_stays() -> None:
    (server, front) = online("server", "front", **{TOGETHER_ANNOTATION: "true"})
    fleet = story(server, front.with_spec(failover=None))

    becomes_unhealthy(fleet, "server")

    assert HOME not in fleet.placed("server")
    assert set(fleet.placed("front")) == {HOME}


@pytest.mark.parametrize(("missing", "leaves"), [("Hold", []), ("Proceed", ["first"])])
def test_a_part_whose_state_is_missing_follows_only_where_it_may_go_without(missing: str, leaves: list[str]) -> None:
    rules = StatePreservation((StatePreservationRule("job", "{.jobID}"),))
    behaviour = ApplicationFailoverBehavior(DecisionConditions(60), DIRECTLY, None, rules)
    (front,) = online("front")
    front = front.with_spec(
        failover=FailoverBehavior(application=behaviour), clusters=(TargetCluster("first", 0),)
    ).with_status(aggregated_status=(AggregatedStatusItem("first", status={}),))
    settings = Settings(
        feature_gates={**GATES, "StatefulFailoverInjection": True}, state_preservation_on_missing=missing
    )

    after, held, _ = with_following_tasks(front, {"first": "server"}, settings, now=START)

    assert [task.from_cluster for task in after.spec.graceful_eviction_tasks] == leaves
    assert list(held) == ([] if leaves else ["first"])


@pytest.mark.parametrize(
    ("reason", "clusters", "application"),
    [
        (APPLICATION_FAILURE, ("refuge",), True),
        (APPLICATION_FAILURE, ("first",), False),  # it has not left yet
        (APPLICATION_FAILURE, (), False),  # it has no place, and nothing follows it there
        ("TaintUntolerated", ("refuge",), False),
    ],
)
def test_other_parts_are_checked_once_a_part_has_left_a_cluster_because_it_was_unhealthy_there(
    reason: str, clusters: tuple[str, ...], application: bool
) -> None:
    (server,) = online("server")
    server = server.with_spec(
        clusters=tuple(TargetCluster(name, 2) for name in clusters),
        graceful_eviction_tasks=(leaving("first", reason=reason),),
    )

    assert bool(application_to_follow(server)) is application


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


@pytest.mark.parametrize("is_deleted", [False, True])
def test_no_part_follows_one_that_is_being_deleted(is_deleted: bool) -> None:
    server, front = online("server", "front")
    server = server.with_spec(
        clusters=(TargetCluster("refuge", 2),), graceful_eviction_tasks=(leaving(HOME, reason=APPLICATION_FAILURE),)
    )
    if is_deleted:
        server = replace(server, metadata=replace(server.metadata, deletion_timestamp=START))

    assert list(clusters_to_follow_from(front, (server, front), {})) == ([] if is_deleted else [HOME])
