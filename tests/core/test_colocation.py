"""Parts of an application that go to exactly one cluster end on the same one: first placed, and moved (the failover
guide)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as tuned
from hypothesis import strategies as st
from msgspec.structs import replace

from controlplane.apimachinery.names import (
    CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION,
    PROPAGATION_POLICY_NAME_ANNOTATION,
    TOGETHER_ANNOTATION,
)
from controlplane.eviction.refuge import refuge_from
from controlplane.insight.failure_outlook import Situation, dry_run_of
from controlplane.kinds.binding import Binding, ObjectReference
from controlplane.kinds.binding.colocation_index import application
from controlplane.kinds.cluster import APIEnablement, APIResource, Cluster
from controlplane.kinds.policy import Placement, Policy
from controlplane.kinds.rows import FleetNames, PlacementNote
from controlplane.propagation import bindings as made_of
from controlplane.scheduling import placement_explanation
from controlplane.scheduling.colocation import Applications
from controlplane.settings import Settings
from tests.builders.documents import policy
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import by_room, by_weight, duplicated
from tests.core.admitted import created, fields
from tests.core.eviction_fleet import FAST
from tests.core.fleet_story import Story

ONE = duplicated(least=1, most=1)
DIVIDED = replace(by_room(), cluster_affinity=None, spread_constraints=ONE.spread_constraints)
WITHOUT_PODS = {"ConfigMap": "v1", "Service": "v1"}
APIS = (
    APIEnablement("apps/v1", (APIResource("deployments", "Deployment"), APIResource("statefulsets", "StatefulSet"))),
    APIEnablement("v1", (APIResource("configmaps", "ConfigMap"), APIResource("services", "Service"))),
)


def part(
    name: str,
    replicas: int = 0,
    *,
    kind: str = "Deployment",
    on: str = "",
    of: str = "online",
    placement: Placement = ONE,
    **annotations: str,
) -> Binding:
    """Return a part of an application, placed nowhere where `on` is left out."""
    one = binding(name, placement, on={on: replicas} if on else {}, replicas=replicas)
    resource = ObjectReference(WITHOUT_PODS.get(kind, "apps/v1"), kind, name, "default", uid=f"template-{name}")
    spec = replace(one.spec, resource=resource)
    if kind in WITHOUT_PODS:
        spec = replace(spec, replica_requirements=None)
    one = replace(one, spec=spec).with_meta(annotations={PROPAGATION_POLICY_NAME_ANNOTATION: of, **annotations})
    return one if on else one.with_status(conditions=(), scheduler_observed_generation=0, aggregated_status=())


def serving(name: str, slots: int = 1000, **more: Any) -> Cluster:
    return cluster(name, room=slots, **more).with_status(api_enablements=APIS)


def story(*objects: Any, at_once: bool = True, **slots: int) -> Story:
    """Return a fleet with so many slots on each member; the objects come together or one after the other."""
    clusters = [serving(name, count) for name, count in slots.items()]
    if at_once:
        return Story(*clusters, *objects, settings=FAST)
    run = Story(*clusters, settings=FAST)
    for one in objects:
        run.store.create(one)
        run.work()
    return run


def homes(run: Story, *names: str) -> set[str]:
    return {place for name in names for place in run.placed(name)}


def explained(run: Story, name: str) -> str:
    """Return what `explain` says about the other parts."""
    ref = run.binding(name).ref
    (note,) = run.store.rows(PlacementNote, "key", [str(ref)])[str(ref)]
    (names,) = run.store.rows(FleetNames, "key", [note.fleet])[note.fleet]
    found = placement_explanation.explained(ref, note, names, {})
    assert not found.together or found.together in placement_explanation.text(found)
    return found.together


PARTS = ("settings", "server", "database", "front")


def parts(**more: Any) -> tuple[Binding, ...]:
    return (
        part("settings", kind="ConfigMap", **more),
        part("server", 20, **more),
        part("database", 5, kind="StatefulSet", **more),
        part("front", kind="Service", **more),
    )


@pytest.mark.parametrize("placement", [ONE, DIVIDED], ids=["duplicated", "divided"])
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one after the other"])
def test_all_parts_are_placed_on_one_cluster(placement: Placement, at_once: bool) -> None:
    run = story(*parts(placement=placement), at_once=at_once, member1=60, member2=100, member3=70)

    assert len(homes(run, *PARTS)) == 1


def test_without_the_others_each_part_goes_its_own_way() -> None:
    """What the rule is for: the same parts, each for itself."""
    run = story(*parts(**{TOGETHER_ANNOTATION: "false"}), member1=60, member2=100, member3=90)

    assert homes(run, "settings") == {"member1"}
    assert homes(run, "server") == {"member2"}
    assert homes(run, "database") == {"member3"}


@given(
    slots=st.lists(st.integers(0, 40), min_size=2, max_size=4),
    replicas=st.lists(st.integers(0, 12), min_size=2, max_size=4),
    order=st.randoms(use_true_random=False),
    placement=st.sampled_from([ONE, DIVIDED]),
)
@tuned(max_examples=80, deadline=None)
def test_wherever_one_cluster_has_room_for_all_they_end_on_one(
    slots: list[int], replicas: list[int], order: Any, placement: Placement
) -> None:
    if max(slots) < sum(replicas):
        slots[-1] = sum(replicas)
    kinds = ["Deployment" if count else "ConfigMap" for count in replicas]
    made = [
        part(f"o{number}", count, kind=kind, placement=placement)
        for number, (count, kind) in enumerate(zip(replicas, kinds, strict=True))
    ]
    order.shuffle(made)

    run = story(*made, **{f"member{number}": count for number, count in enumerate(slots)})

    assert len(homes(run, *(f"o{number}" for number in range(len(replicas))))) == 1


def test_the_first_part_goes_where_all_of_them_have_room() -> None:
    run = story(*parts(), member1=24, member2=26, member3=25)

    assert homes(run, *PARTS) == {"member2"}
    texts = {name: explained(run, name) for name in PARTS}
    first = texts.pop("settings")
    assert first == "It is the first part of its application, placed where all parts (25 pods together) fit."
    assert set(texts.values()) == {"It is placed where other parts of its application are: member2."}


def test_of_the_clusters_with_room_for_all_what_has_no_pods_takes_the_roomiest_as_its_first_part() -> None:
    run = story(*parts(), member1=30, member2=90, member3=60)

    assert homes(run, *PARTS) == {"member2"}


def test_the_first_part_avoids_a_cluster_that_lacks_the_kind_of_another_part() -> None:
    without_sets = replace(APIS[0], resources=(APIResource("deployments", "Deployment"),))
    small, large = serving("member1", 30), serving("member2", 90).with_status(api_enablements=(without_sets, APIS[1]))
    run = Story(small, large, *parts(), settings=FAST)

    assert homes(run, *PARTS) == {"member1"}


def test_parts_without_pods_need_no_room_and_the_first_of_them_is_placed_as_if_it_were_alone() -> None:
    run = story(*(part(name, kind="ConfigMap") for name in ("one", "two")), member1=9, member2=90)

    assert homes(run, "one", "two") == {"member1"}
    assert explained(run, "one") == ""
    assert explained(run, "two") == "It is placed where other parts of its application are: member1."


def test_a_part_that_has_no_room_beside_the_others_goes_as_if_it_were_alone() -> None:
    run = story(part("server", 20), at_once=False, member1=30, member2=25)
    assert homes(run, "server") == {"member1"}

    run.store.create(part("database", 12, kind="StatefulSet", placement=DIVIDED))
    run.work()

    assert homes(run, "database") == {"member2"}
    assert explained(run, "database") == (
        "Other parts of its application are on member1, where it does not fit: it is placed alone."
    )
    assert homes(run, "server") == {"member1"}


def test_where_no_cluster_has_room_for_all_each_goes_as_if_it_were_alone() -> None:
    run = story(part("server", 20), part("database", 15, kind="StatefulSet"), member1=30, member2=25)

    assert homes(run, "server", "database") == {"member1", "member2"}
    assert "No cluster has room for all 35 pods" in explained(run, "server")


def test_what_has_no_pods_and_came_first_goes_after_the_pods() -> None:
    run = story(part("settings", kind="ConfigMap"), at_once=False, member1=10, member2=30)
    assert homes(run, "settings") == {"member1"}

    run.store.create(part("server", 20))
    run.work()
    assert homes(run, "server") == {"member2"}
    run.pass_seconds(5)

    assert homes(run, "settings") == {"member2"}
    assert run.store.next_due(["scheduler"]) is None


def test_what_has_no_pods_and_cannot_follow_the_pods_stays() -> None:
    run = story(part("settings", kind="ConfigMap"), at_once=False, member1=10, member2=30, member3=50)
    run.store.create(part("server", 20, on="member2"))
    run.taint("member2", replace(no_execute("full"), effect="NoSchedule"))
    run.work()
    run.pass_seconds(60)

    assert (homes(run, "settings"), homes(run, "server")) == ({"member1"}, {"member2"})


def test_what_has_no_pods_and_has_its_place_for_long_stays() -> None:
    run = story(part("settings", kind="ConfigMap"), at_once=False, member1=10, member2=30)
    run.pass_seconds(400)
    assert run.store.next_due(["scheduler"]) is None

    run.store.create(part("server", 20))
    run.work()
    run.pass_seconds(400)

    assert (homes(run, "settings"), homes(run, "server")) == ({"member1"}, {"member2"})


def test_what_is_placed_stays_where_it_is() -> None:
    apart = (part("server", 5, on="member1"), part("database", 5, kind="StatefulSet", on="member2"))
    run = story(*apart, member1=9, member2=99)
    run.store.create(part("front", kind="Service"))
    run.work()
    run.pass_seconds(60)

    assert (homes(run, "server"), homes(run, "database")) == ({"member1"}, {"member2"})


def test_no_part_follows_onto_a_cluster_whose_taints_refuse_it() -> None:
    run = story(part("server", 5, on="member1"), member1=99, member2=50, member3=60)
    run.taint("member1", replace(no_execute("full"), effect="PreferNoSchedule"))

    run.store.create(part("database", 5, kind="StatefulSet"))
    run.work()

    assert homes(run, "database") == {"member3"}


@pytest.mark.parametrize("rate", [1000.0, 1.0], ids=["at once", "one after the other"])
@pytest.mark.parametrize("placement", [ONE, DIVIDED], ids=["duplicated", "divided"])
def test_a_failed_cluster_is_left_for_the_same_refuge(placement: Placement, rate: float) -> None:
    """Each for itself would go elsewhere: the largest to member3, and what has no pods to member2."""
    run = story(*parts(on="member1", placement=placement), member1=500, member2=24, member3=40, member4=26, member5=26)
    run.settings = replace(FAST, resource_eviction_rate=rate, secondary_resource_eviction_rate=rate)

    run.taint("member1", no_execute())
    run.pass_seconds(30)

    assert len(homes(run, *PARTS)) == 1
    assert homes(run, *PARTS) & {"member3", "member4", "member5"}
    assert all(run.leaving(name) == [] for name in PARTS)


@pytest.mark.parametrize(("spare", "stays"), [(4, False), (1, True)])
def test_a_part_whose_room_others_took_leaves_for_another_refuge_or_stays(spare: int, stays: bool) -> None:
    """Room for later parts is not reserved (decisions/0009): what that costs is their company, never their refuge."""
    parts = [part(name, 2, on="member1", placement=DIVIDED) for name in ("db", "web")]
    run = story(*parts, member1=8, member2=4, member3=spare, member4=0, member5=0)
    run.settings = replace(FAST, resource_eviction_rate=0.1, secondary_resource_eviction_rate=0.1)
    run.taint("member1", no_execute(at=run.now))
    run.pass_seconds(15)
    assert run.placed("db") == {"member2": 2}
    assert run.placed("web") == {"member1": 2}

    run.store.create(binding("rival", by_room("member2"), on={}, replicas=2))
    run.work()
    run.pass_seconds(30)

    assert run.placed("rival") == {"member2": 2}
    assert run.placed("web") == ({"member1": 2} if stays else {"member3": 2})
    assert run.queue() == ({"web|member1": "Held"} if stays else {})


def test_the_eviction_says_the_refuge_it_will_be() -> None:
    run = story(*parts(on="member1"), member1=500, member2=24, member3=26)

    run.taint("member1", no_execute())
    run.pass_seconds(5)

    moved = {one.message for one in run.events("EvictWorkloadFromClusterSucceed")}
    assert len(moved) == 3  # with 20 replicas, with 5, and without
    assert all("member3" in one for one in moved)


def test_dry_runs_name_the_refuge_it_will_be() -> None:
    """Readiness and Drain ask as the scheduler does; one that goes is seen by the next."""
    clusters = [serving(name, slots) for name, slots in {"member1": 500, "member2": 24, "member3": 25}.items()]
    found = parts(on="member1")
    rehearsal = dry_run_of(Situation(clusters, applications={"default/online": found}), FAST)

    for one in found:
        answer = rehearsal.place_without(one, {"member1"})
        assert [place.name for place in answer.clusters] == ["member3"]
        rehearsal.reserve(one, refuge_from(one, {"member1"}, answer, FAST, source_ready=True), now=START)

    alone = dry_run_of(Situation(clusters), FAST)
    assert [place.name for place in alone.place_without(found[0], {"member1"}).clusters] == ["member2"]


UNHEEDED = replace(by_weight(member1=1), spread_constraints=ONE.spread_constraints)
ALONE: list[tuple[str, dict[str, Any]]] = [
    ("two clusters", {"placement": duplicated(least=2, most=2)}),
    ("no spread constraint", {"placement": duplicated()}),
    ("static weights, which spread constraints do not bind", {"placement": UNHEEDED}),
    ("its policy excludes it", {TOGETHER_ANNOTATION: "false"}),
]


@pytest.mark.parametrize(("case", "more"), ALONE, ids=[row[0] for row in ALONE])
def test_who_is_no_part_of_an_application(case: str, more: dict[str, Any]) -> None:
    assert application(part("server", 2, **more)) == ""


@pytest.mark.parametrize(("said", "together"), [("", ""), ("false", ""), ("true", "default//all")])
def test_a_cluster_propagation_policy_has_to_ask_for_it(said: str, together: str) -> None:
    one = part("server", 2).with_meta(annotations={CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION: "all"})
    one = one.with_meta(annotations={**one.metadata.annotations, **({TOGETHER_ANNOTATION: said} if said else {})})

    assert application(one) == together


def test_parts_of_other_applications_and_namespaces_play_no_part() -> None:
    elsewhere = part("server", 2, on="member1").with_meta(namespace="elsewhere")
    other = part("database", 2, on="member1", of="other")
    run = story(elsewhere, other, member1=10, member2=50)

    run.store.create(part("settings", 1))
    run.work()

    assert homes(run, "settings") == {"member2"}
    assert explained(run, "settings") == ""


def test_a_policy_says_true_or_false_and_its_bindings_carry_it() -> None:
    doc = policy()
    doc["metadata"] = {**doc["metadata"], "annotations": {TOGETHER_ANNOTATION: "no"}}
    assert fields(doc) == {f"metadata.annotations[{TOGETHER_ANNOTATION}]"}

    doc["metadata"]["annotations"][TOGETHER_ANNOTATION] = "false"
    made: Policy = created(doc).object
    template = created({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}).object
    one = made_of.create(template, made, gates={}, now=START)
    assert one.metadata.annotations[TOGETHER_ANNOTATION] == "false"
    assert TOGETHER_ANNOTATION not in made_of.release(one).metadata.annotations


def test_clusters_with_most_parts_that_run_pods_are_nearest_then_those_with_most_parts() -> None:
    placed = [part("one", 1, on="b"), part("two", kind="Service", on="a")]
    placed += [part(name, kind="ConfigMap", on="c") for name in ("three", "four")]

    seen = Applications({application(placed[0]): placed}, Settings()).seen_by(part("new"))

    assert seen.near == ("b", "c", "a")
