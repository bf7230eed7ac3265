"""Where evicted workloads go, and that they stay where there is no room for them [refuge-first]."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controlplane.kinds.binding import (
    TAINT_UNTOLERATED,
    BindingPriority,
    BindingSuspension,
    GracefulEvictionTask,
    TargetCluster,
)
from controlplane.kinds.policy import ClusterFailoverBehavior, Placement
from controlplane.kinds.rows import CapacityReservation, PlacementHint
from controlplane.settings import EvictionSettings
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import by_room, by_weight, duplicated
from tests.core.eviction_fleet import ANYWHERE, CLUSTERS, FAST, fleet
from tests.core.fleet_story import Story


def test_no_cluster_left_means_held_with_the_reason_and_the_copy_stays() -> None:
    story = fleet(binding("web", duplicated("member1", least=1, most=1), on={"member1": 2}))

    story.taint("member1", no_execute())
    story.pass_seconds(60)

    assert story.placed("web") == {"member1": 2}
    assert story.queue() == {"web|member1": "Held"}
    assert [one.involved_object.kind for one in story.events("EvictionHeld")] == ["ResourceBinding", "Deployment"]


def test_a_held_eviction_goes_on_when_a_cluster_joins() -> None:
    story = fleet(binding("web", duplicated("member1", "member9", least=1, most=1), on={"member1": 2}))
    story.taint("member1", no_execute())
    story.pass_seconds(60)

    story.store.create(cluster("member9"))
    story.pass_seconds(5)

    assert story.placed("web") == {"member9": 2}


def test_a_held_eviction_goes_on_when_its_policy_finds_it_a_place() -> None:
    story = fleet(binding("web", duplicated("member1", least=1, most=1), on={"member1": 2}))
    story.taint("member1", no_execute())
    story.pass_seconds(60)

    old = story.binding("web")
    story.store.put(old.with_spec(placement=duplicated("member1", "member2", least=1, most=1)), old)
    story.pass_seconds(5)

    assert story.placed("web") == {"member2": 2}


@pytest.mark.parametrize("mode", ["Directly", "Gracefully"])
def test_what_may_not_be_placed_again_stays_until_it_may(mode: str) -> None:
    behaviour = ClusterFailoverBehavior(purge_mode=mode)
    story = fleet(binding("web", ANYWHERE, on={"member1": 2}, failover=behaviour))
    old = story.binding("web")
    story.store.put(old.with_spec(suspension=BindingSuspension(scheduling=True)), old)

    story.taint("member1", no_execute())
    story.pass_seconds(60)
    assert story.placed("web") == {"member1": 2}
    assert story.queue() == {"web|member1": "Held"}

    old = story.binding("web")
    story.store.put(old.with_spec(suspension=None), old)
    story.pass_seconds(5)
    assert set(story.placed("web")) - {"member1"}


@pytest.mark.parametrize("placement", [duplicated("member1", least=1, most=1), by_room("member1")])
def test_what_another_scheduler_places_leaves_without_asking_ours(placement: Placement) -> None:
    """Ours knows of no place for it; the old copy stays until theirs has found one [taint-manager]
    [scheduling-triggers]."""
    story = fleet(binding("web", placement, on={"member1": 2}))
    old = story.binding("web")
    story.store.put(old.with_spec(scheduler_name="theirs"), old)

    story.taint("member1", no_execute())
    story.pass_seconds(700)
    assert (story.placed("web"), story.leaving("web"), story.queue()) == ({}, ["member1"], {})
    assert not story.store.rows(CapacityReservation, "binding", [str(old.ref)])
    assert not story.store.rows(PlacementHint, "key", [str(old.ref)])

    left = story.binding("web")
    story.store.put(left.with_spec(clusters=(TargetCluster("member2", 2),)), left)
    placed = story.binding("web")
    seen = placed.with_status(scheduler_observed_generation=placed.metadata.generation)
    story.store.put(seen, placed)
    story.pass_seconds(5)
    assert (story.placed("web"), story.leaving("web")) == ({"member2": 2}, [])


def test_two_failed_and_one_candidate_move_nothing() -> None:
    placement = duplicated("member1", "member2", "member3", least=2, most=2)
    story = fleet(binding("web", placement, on={"member1": 2, "member2": 2}))

    story.taint("member1", no_execute())
    story.taint("member2", no_execute())
    story.pass_seconds(60)

    assert story.placed("web") == {"member1": 2, "member2": 2}
    assert story.queue() == {"web|member1": "Held", "web|member2": "Held"}


def test_duplicated_without_a_minimum_needs_a_replacement_for_each_lost_copy() -> None:
    story = fleet(binding("web", duplicated("member1", "member2"), on={"member1": 2, "member2": 2}))

    story.taint("member1", no_execute())
    story.pass_seconds(60)

    assert set(story.placed("web")) == {"member1", "member2"}
    assert story.queue() == {"web|member1": "Held"}


def test_divided_moves_onto_a_cluster_of_the_old_result() -> None:
    story = fleet(binding("web", by_weight(member1=1, member2=2), on={"member1": 1, "member2": 2}, replicas=3))

    story.taint("member1", no_execute())
    story.pass_seconds(5)

    assert story.placed("web") == {"member2": 3}


def test_what_is_reserved_for_one_is_not_reserved_for_the_next() -> None:
    story = Story(
        cluster("member1"),
        cluster("member2", room=10),
        cluster("member3", room=5),
        *(
            binding(f"web{n:02}", by_room("member1", "member2", "member3"), on={"member1": 1}, replicas=1)
            for n in range(20)
        ),
        settings=FAST,
    )

    story.taint("member1", no_execute())
    story.pass_seconds(30)

    places = [name for n in range(20) for name in story.placed(f"web{n:02}")]
    assert {name: places.count(name) for name in sorted(set(places))} == {"member1": 5, "member2": 10, "member3": 5}
    assert len(story.queue()) == 5


@pytest.mark.parametrize(
    ("source", "partial", "placed"),
    [
        ("False", True, {"member2": 3}),
        ("False", False, {"member1": 4}),
        ("True", True, {"member1": 4}),
    ],
)
def test_a_part_goes_where_the_source_is_down_and_the_rest_stays_pending(
    source: str, partial: bool, placed: dict[str, int]
) -> None:
    settings = replace(FAST, eviction=EvictionSettings(partial_refuge=partial))
    story = Story(
        cluster("member1"),
        cluster("member2", room=3),
        cluster("member4"),
        binding("web", by_room("member1", "member2"), on={"member1": 4}, replicas=4),
        settings=settings,
    )
    story.ready("member1", source)

    story.taint("member1", no_execute())
    story.pass_seconds(10)

    assert story.placed("web") == placed


@pytest.mark.parametrize("batched", [False, True], ids=["later", "in the same batch"])
def test_the_capacity_of_a_part_is_taken(batched: bool) -> None:
    gone = GracefulEvictionTask("member1", replicas=4, reason=TAINT_UNTOLERATED, creation_timestamp=START)
    where = by_room("member1", "member2")
    web = binding("web", where, replicas=4, scheduled=False).with_spec(graceful_eviction_tasks=(gone,))
    other = binding("other", where, replicas=3, scheduled=False)
    lost = cluster("member1", ready="False", taints=[no_execute()])
    story = Story(lost, cluster("member2", room=3), *((web,) if not batched else ()), settings=FAST)
    story.store.create(*((web.with_spec(schedule_priority=BindingPriority(1)), other) if batched else (other,)))
    story.work()

    assert (story.placed("web"), story.placed("other")) == ({"member2": 3}, {})


@pytest.mark.parametrize(("full", "moves"), [(False, True), (True, False)])
def test_a_spread_minimum_that_still_holds_is_refuge_enough_unless_each_copy_must_be_replaced(
    full: bool, moves: bool
) -> None:
    settings = replace(FAST, eviction=EvictionSettings(require_full_replacement=full))
    placement = duplicated("member1", "member2", "member3", least=2, most=3)
    story = fleet(binding("web", placement, on={"member1": 2, "member2": 2, "member3": 2}), settings=settings)

    story.taint("member1", no_execute())
    story.pass_seconds(10)

    assert ("member1" not in story.placed("web")) == moves


@pytest.mark.parametrize(("kind", "left"), [("Deployment", {"member2": 0, "member3": 0}), ("ConfigMap", {})])
def test_of_a_divided_workload_scaled_to_nothing_no_replica_needs_a_place(kind: str, left: dict[str, int]) -> None:
    """It is on every cluster it may be on, as what has no replicas is; that has copies to replace, it has not."""
    old = binding("web", by_weight(member1=1, member2=1, member3=1), on=dict.fromkeys(CLUSTERS[:3], 0), replicas=0)
    template = replace(old.spec.resource, kind=kind, api_version="apps/v1" if kind == "Deployment" else "v1")
    story = fleet(replace(old, spec=replace(old.spec, resource=template, replica_requirements=None)))

    story.taint("member1", no_execute())
    story.pass_seconds(5)

    assert story.placed("web") == (left or dict.fromkeys(CLUSTERS[:3], 0))
