"""Where bindings go, in tables: filters, selection, division, groups, refusals, hints."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from controlplane.kinds.binding import (
    TAINT_UNTOLERATED,
    GracefulEvictionTask,
    ResourceBindingSpec,
    ResourceBindingStatus,
    TargetCluster,
    WorkloadAffinityGroups,
)
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.policy import (
    ClusterAffinityTerm,
    OverflowAffinity,
    Placement,
    ReplicaSchedulingStrategy,
    SpreadConstraint,
    Toleration,
)
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.note import detail_of, summary_of
from controlplane.scheduling.placement_explanation import NotedDecision, clusters
from controlplane.scheduling.question import Neighbours, neighbours_of
from controlplane.scheduling.refusals import refusals
from controlplane.settings import GATES, Compat, Settings
from tests.builders.objects import cluster
from tests.builders.placements import AGGREGATED, DYNAMIC, EVENLY, placement, weights
from tests.builders.scheduling import ask, refused, shares, spec

HOUR = datetime(2026, 1, 1, 10, tzinfo=UTC)


def three(**rooms: int) -> list[Cluster]:
    return [cluster(name, room=rooms.get(name, 10)) for name in ("a", "b", "c")]


@pytest.mark.parametrize(
    ("how", "replicas", "expected"),
    [
        (None, 2, {"a": 2, "b": 2, "c": 2}),
        (EVENLY, 6, {"a": 2, "b": 2, "c": 2}),
        (weights(a=1, b=2), 3, {"a": 1, "b": 2}),
        (weights(a=1, b=2), 9, {"a": 3, "b": 6}),
        (weights(x=1), 3, {"a": 1, "b": 1, "c": 1}),
        (DYNAMIC, 12, {"a": 2, "b": 4, "c": 6}),
        (AGGREGATED, 10, {"c": 10}),
        (AGGREGATED, 20, {"b": 8, "c": 12}),
    ],
)
def test_replicas_are_divided_as_the_placement_says(
    how: ReplicaSchedulingStrategy | None, replicas: int, expected: dict[str, int]
) -> None:
    clusters = three(a=6, b=12, c=18)

    assert shares(ask(clusters, spec(placement(how=how), replicas=replicas))) == expected


@pytest.mark.parametrize(
    ("on", "replicas", "expected"),
    [
        ({"a": 5, "b": 1}, 6, {"a": 5, "b": 1}),  # nothing to do: stays as it is
        ({"a": 5, "b": 1}, 3, {"a": 2, "b": 1}),  # shrinks in proportion
        ({"a": 4}, 7, {"a": 5, "b": 1, "c": 1}),  # only the difference is spread
    ],
)
def test_shares_that_are_placed_stay(on: dict[str, int], replicas: int, expected: dict[str, int]) -> None:
    assert shares(ask(three(), spec(placement(how=DYNAMIC), replicas=replicas, on=on))) == expected


def test_a_reschedule_divides_everything_again() -> None:
    wanted = spec(placement(how=DYNAMIC), replicas=6, on={"a": 6}, reschedule_triggered_at=HOUR)
    status = ResourceBindingStatus(last_scheduled_time=HOUR.replace(hour=9))

    assert shares(ask(three(a=4), wanted, status=status)) == {"a": 2, "b": 2, "c": 2}


def test_more_than_there_is_room_for_is_refused_with_the_part_that_fits() -> None:
    verdict = refused(ask(three(), spec(placement(how=DYNAMIC), replicas=40)))

    assert (verdict.reason, verdict.retry) == ("Unschedulable", True)
    assert verdict.part is not None
    assert sum(one.replicas for one in verdict.part) == 30


@pytest.mark.parametrize(
    ("tolerations", "taint", "fits"),
    [
        ((), Taint("down", "NoSchedule"), False),
        ((), Taint("down", "NoExecute"), False),
        ((Toleration("down", "Exists"),), Taint("down", "NoSchedule"), True),
        ((Toleration("down", "Exists", effect="NoExecute"),), Taint("down", "NoSchedule"), False),
        ((), Taint("down", "PreferNoSchedule"), True),
        ((), Taint("down", "PreferNoExecute"), True),
    ],
)
def test_taints_keep_new_workloads_away(tolerations: tuple[Toleration, ...], taint: Taint, fits: bool) -> None:
    clusters = [cluster("a", taints=[taint]), cluster("b")]

    got = shares(ask(clusters, spec(placement(tolerations=tolerations))))

    assert ("a" in got) is fits


def test_a_taint_does_not_drive_away_what_is_there() -> None:
    clusters = [cluster("a", taints=[Taint("down", "NoSchedule")]), cluster("b")]

    assert shares(ask(clusters, spec(placement(), on={"a": 1}))) == {"a": 1, "b": 1}


def test_prefer_no_execute_keeps_away_only_what_it_would_drive_away() -> None:
    clusters = [cluster("a", taints=[Taint("sick", "PreferNoExecute")]), cluster("b")]
    one = placement(spread=[SpreadConstraint("cluster", min_groups=1, max_groups=1)])

    assert shares(ask(clusters, spec(placement(), fails_over=True))) == {"b": 1}  # [prefer-no-execute]
    assert shares(ask(clusters, spec(one))) == {"b": 1}  # [prefer-no-execute] ranks last
    assert shares(ask(clusters[:1], spec(one))) == {"a": 1}


@pytest.mark.parametrize("effect", ["PreferNoSchedule", "PreferNoExecute"])
def test_discouraged_clusters_get_shares_only_when_the_others_are_full(effect: str) -> None:
    clusters = [
        cluster("a", room=10, taints=[Taint("sick", effect)]),
        cluster("b", room=10),
    ]  # [prefer-no-execute], [prefer-no-schedule]
    tolerated = placement(how=DYNAMIC, tolerations=[Toleration("sick", "Exists")])

    assert shares(ask(clusters, spec(placement(how=DYNAMIC), replicas=8))) == {"b": 8}
    assert shares(ask(clusters, spec(placement(how=DYNAMIC), replicas=12))) == {"a": 2, "b": 10}
    expected = {"a": 4, "b": 4} if effect == "PreferNoSchedule" else {"b": 8}
    assert shares(ask(clusters, spec(tolerated, replicas=8))) == expected


def test_a_cluster_without_the_api_is_not_chosen() -> None:
    assert shares(ask([cluster("a", apis=()), cluster("b")], spec(placement()))) == {"b": 1}


@pytest.mark.parametrize(
    ("reason", "compat", "blocks"),
    [
        ("TaintUntolerated", False, False),
        ("TaintUntolerated", True, True),
        ("ApplicationFailure", False, True),
        ("", False, True),
    ],
)
def test_a_task_keeps_a_cluster_from_being_chosen_unless_taints_made_it(
    reason: str, compat: bool, blocks: bool
) -> None:
    wanted = spec(placement(), tasks=[GracefulEvictionTask("a", reason=reason)])
    settings = Settings(compat=Compat(cluster_eviction_filter=compat))

    got = shares(ask(three(), wanted, settings=settings))

    assert ("a" not in got) is blocks  # [recovered-clusters-cancel]


def test_spread_fields_ask_clusters_to_say_them() -> None:
    spread = [SpreadConstraint("zone", min_groups=1, max_groups=2), SpreadConstraint("cluster", "", 1, 2)]
    clusters = [cluster("a", zones=["z"]), cluster("b")]

    assert shares(ask(clusters, spec(placement(spread=spread)))) == {"a": 1}


def test_the_roomiest_clusters_are_chosen_and_those_in_use_first() -> None:
    spread = [SpreadConstraint("cluster", min_groups=2, max_groups=2)]
    clusters = three(a=5, b=7, c=9)

    assert shares(ask(clusters, spec(placement(spread=spread)))) == {"b": 1, "c": 1}
    assert shares(ask(clusters, spec(placement(spread=spread), on={"a": 1}))) == {"a": 1, "c": 1}


def test_the_lost_copy_of_two_is_replaced_by_one_of_the_candidates() -> None:
    spread = [SpreadConstraint("cluster", min_groups=2, max_groups=2)]  # the overview
    where = placement("member1", "member2", "member3", "member5", spread=spread)
    down = Taint("cluster.karmada.io/not-ready", "NoExecute")
    clusters = [
        cluster("member1"),
        cluster("member2", taints=[down]),
        *(cluster(f"member{number}") for number in (3, 4, 5)),
    ]

    got = shares(ask(clusters, spec(where, replicas=2, on={"member1": 2})))

    assert got in ({"member1": 2, "member3": 2}, {"member1": 2, "member5": 2})


def test_the_other_cluster_takes_the_lost_shares() -> None:
    where = placement("member1", "member2", how=weights(member1=1, member2=2))  # the overview
    down = Taint("cluster.karmada.io/not-ready", "NoExecute")
    before = shares(ask([cluster("member1"), cluster("member2")], spec(where, replicas=3)))
    after = shares(ask([cluster("member1", taints=[down]), cluster("member2")], spec(where, replicas=3)))

    assert before == {"member1": 1, "member2": 2}
    assert after == {"member2": 3}


@pytest.mark.parametrize(
    ("spread", "said"),
    [
        ([SpreadConstraint("cluster", min_groups=4, max_groups=4)], "at least 4"),
        ([SpreadConstraint("cluster", min_groups=1, max_groups=0)], "maxGroups 0"),
        ([SpreadConstraint(spread_by_label="rack", min_groups=1, max_groups=2)], "only spreadByField"),
        ([SpreadConstraint("region", min_groups=1, max_groups=1)], "0/3 clusters"),
    ],
)
def test_constraints_that_cannot_be_met_say_so(spread: list[SpreadConstraint], said: str) -> None:
    assert said in refused(ask(three(), spec(placement(spread=spread)))).message


def test_clusters_of_the_best_regions_are_chosen() -> None:
    clusters = [
        *(cluster(f"n{number}", region="north", room=30) for number in range(3)),
        *(cluster(f"s{number}", region="south", room=20) for number in range(3)),
        *(cluster(f"w{number}", region="west", room=1) for number in range(3)),
    ]
    spread = [SpreadConstraint("region", "", 2, 2), SpreadConstraint("cluster", "", 2, 3)]

    got = shares(ask(clusters, spec(placement(how=DYNAMIC, spread=spread), replicas=80)))

    assert sum(got.values()) == 80
    assert {name[0] for name in got} == {"n", "s"}
    assert len(got) == 3


def _group(name: str, *clusters: str, overflow: tuple[str, ...] = ()) -> ClusterAffinityTerm:
    tiers = (OverflowAffinity(cluster_names=overflow, affinity_name="more"),) if overflow else ()
    return ClusterAffinityTerm(cluster_names=clusters, affinity_name=name, overflow_affinities=tiers)


def test_of_equal_room_the_first_of_each_region_is_used_before_the_others() -> None:
    members = [cluster("n1", region="north", room=4), *(cluster(name, region="east", room=4) for name in ("a", "b"))]
    spread = [SpreadConstraint("region", "", 2, 2), SpreadConstraint("cluster", "", 2, 3)]

    assert shares(ask(members, spec(placement(how=AGGREGATED, spread=spread), replicas=7))) == {"a": 4, "n1": 3}


def test_the_first_group_that_gives_a_result_is_used_and_named() -> None:
    groups = [_group("first", "gone"), _group("second", "b")]

    verdict = ask(three(), spec(placement(groups=groups)))

    assert shares(verdict) == {"b": 1}
    assert verdict.outcome.affinity_name == "second"  # type: ignore[union-attr]


def test_groups_start_at_the_one_observed_and_after_a_reschedule_at_the_first() -> None:
    where = placement(groups=[_group("first", "a"), _group("second", "b")])
    observed = ResourceBindingStatus(scheduler_observed_affinity_name="second", last_scheduled_time=HOUR)
    later = HOUR.replace(hour=11)

    assert shares(ask(three(), spec(where), status=observed)) == {"b": 1}
    assert shares(ask(three(), spec(where, reschedule_triggered_at=later), status=observed)) == {"a": 1}


def test_of_several_failures_the_first_is_reported() -> None:
    where = placement(groups=[_group("first", "a"), _group("second", "gone")], how=DYNAMIC)

    assert refused(ask(three(), spec(where, replicas=99))).reason == "Unschedulable"


def test_overflow_is_used_only_for_what_does_not_fit() -> None:
    where = placement(groups=[_group("own", "a", overflow=("b", "c"))], how=DYNAMIC)

    assert shares(ask(three(), spec(where, replicas=8))) == {"a": 8}
    assert shares(ask(three(), spec(where, replicas=14))) == {"a": 10, "b": 2, "c": 2}


def test_zero_replicas_leave_unless_empty_workloads_are_propagated() -> None:
    wanted = spec(placement(), replicas=0, on={"a": 2})

    assert shares(ask(three(), wanted)) == {}
    assert shares(ask(three(), wanted, settings=Settings(enable_empty_workload_propagation=True))) == {
        "a": 0,
        "b": 0,
        "c": 0,
    }


def test_groups_of_workloads_keep_together_and_apart() -> None:
    settings = Settings(feature_gates={**GATES, "WorkloadAffinity": True})
    together = Neighbours(together=frozenset({frozenset({"b"})}))
    apart = Neighbours(apart=frozenset({"b"}))

    assert shares(ask(three(), spec(placement()), settings=settings, neighbours=together)) == {"b": 1}
    assert shares(ask(three(), spec(placement()), settings=settings, neighbours=apart)) == {"a": 1, "c": 1}
    assert shares(ask(three(), spec(placement()), neighbours=apart)) == {"a": 1, "b": 1, "c": 1}


GROUPED: dict[
    str, tuple[dict[str, tuple[str, ...]], list[str] | None, set[str] | None]
] = {  # clusters of the other bindings of the group: those of each that is placed, those of any
    "no other binding": ({}, None, None),
    "the others are placed nowhere": ({"one": ()}, None, None),
    "one of them is placed": ({"one": ("a", "b"), "two": ()}, ["ab"], {"a", "b"}),
    "apart is where any of them is": ({"one": ("a", "b"), "two": ("b",)}, ["ab", "b"], {"a", "b"}),
    "they have no cluster in common": ({"one": ("a",), "two": ("b",)}, ["a", "b"], {"a", "b"}),
    "it is not its own neighbour": ({"me": ("c",), "one": ("a",)}, ["a"], {"a"}),
}


@pytest.mark.parametrize("row", GROUPED)
def test_neighbours_are_the_placed_bindings_of_the_group(row: str) -> None:
    others, together, apart = GROUPED[row]
    wanted = replace(spec(placement()), workload_affinity_groups=WorkloadAffinityGroups("near", "far"))
    space = wanted.resource.namespace

    near = neighbours_of(
        wanted, {(space, "affinity", "near"): others, (space, "antiAffinity", "far"): others}, own="me"
    )

    assert (near.together, near.apart) == (None if together is None else set(map(frozenset, together)), apart)


def test_a_target_is_preferred_whatever_taint_discourages_new_copies_and_a_new_cluster_is_not() -> None:
    def discouraged(name: str, room: int) -> Cluster:
        return cluster(name, room=room, taints=[Taint("busy", "PreferNoSchedule")])

    members = [discouraged("a", 99), discouraged("b", 9), discouraged("c", 99), cluster("d", room=9)]
    one, two = (placement(spread=[SpreadConstraint("cluster", "", count, count)]) for count in (1, 2))

    assert shares(ask(members, spec(one, on={"b": 1}))) == {"b": 1}
    assert shares(ask(members, spec(two, on={"b": 1}))) == {"b": 1, "d": 1}
    assert shares(ask(members, spec(one))) == {"d": 1}


def test_a_full_cluster_has_capacity_for_the_replicas_that_it_holds() -> None:
    one = placement("a", "b", how=DYNAMIC, spread=[SpreadConstraint("cluster", "", 1, 1)])
    clusters = [cluster("a", room=1), cluster("b", room=9)]

    assert shares(ask(clusters, spec(one, replicas=4, on={"a": 3}))) == {"a": 4}
    assert shares(ask(clusters, spec(one, replicas=5, on={"a": 3}))) == {"b": 5}


@pytest.mark.parametrize("room", [{"a": 90, "b": 1}, {"a": 1, "b": 90}])
def test_which_replicas_are_removed_does_not_depend_on_free_capacity(room: dict[str, int]) -> None:
    clusters = [cluster(name, room=count) for name, count in room.items()]
    wanted = spec(placement(how=AGGREGATED), replicas=2, on={"b": 2, "a": 2})

    assert shares(ask(clusters, wanted)) == {"b": 2}


def test_the_reason_names_the_clusters_that_the_group_shares() -> None:
    settings = Settings(feature_gates={**GATES, "WorkloadAffinity": True})
    shared = Neighbours(together=frozenset({frozenset({"b", "a"})}))

    verdict = ask(three(), spec(placement()), settings=settings, neighbours=shared)

    assert refusals(verdict.explanation)["c"].value == "its workload affinity group is on a, b"


def test_a_target_stays_while_a_task_excludes_another_one() -> None:
    leaving = GracefulEvictionTask("a", reason="ApplicationFailure")
    wanted = spec(placement(), on={"a": 1, "b": 1}, tasks=[leaving])

    assert shares(ask(three(), wanted)) == {"b": 1, "c": 1}


def test_a_group_without_a_cluster_in_common_can_be_joined_nowhere() -> None:
    settings = Settings(feature_gates={**GATES, "WorkloadAffinity": True})
    apart = Neighbours(together=frozenset({frozenset({"a"}), frozenset({"b"})}))

    verdict = ask(three(), spec(placement()), settings=settings, neighbours=apart)

    assert refused(verdict).reason == "NoClusterFit"
    assert (
        refusals(verdict.explanation)["a"].value
        == "the bindings of its workload affinity group have no cluster in common"
    )


def test_clusters_that_are_being_left_are_counted_as_gone() -> None:
    verdict = ask(three(), spec(placement(), on={"a": 1}), unavailable=frozenset({"a"}))

    assert shares(verdict) == {"b": 1, "c": 1}
    assert refusals(verdict.explanation)["a"].filter == "Leaving"


def test_a_hint_is_taken_while_it_holds() -> None:
    wanted = spec(placement(how=DYNAMIC), replicas=4)
    good, bad = (TargetCluster("c", 4),), (TargetCluster("c", 3),)

    assert shares(ask(three(), wanted, hint=good)) == {"c": 4}
    assert shares(ask(three(), wanted, hint=bad)) == {"a": 2, "b": 1, "c": 1}
    assert shares(ask(three(c=3), wanted, hint=good)) != {"c": 4}


def test_reserved_capacity_is_not_given_out_again() -> None:
    clusters = three(a=2, b=2, c=2)
    settings = Settings()
    fleet = Fleet.of(clusters, settings=settings)
    wanted = spec(placement(how=DYNAMIC), replicas=3)

    first = ask(clusters, wanted, ledger=Ledger(fleet))
    ledger = Ledger.of(fleet, [("a", 2, _request(first)), ("b", 1, _request(first))])

    assert shares(ask(clusters, wanted, ledger=ledger)) == {"b": 1, "c": 2}


def _request(verdict: object) -> object:
    return verdict.explanation.question.asked  # type: ignore[attr-defined]


def sentences(members: list[Cluster], wanted: ResourceBindingSpec) -> dict[str, str]:
    """What the explanation of a dry run says of each cluster."""
    verdict = ask(members, wanted)
    part = NotedDecision(
        summary_of(verdict, trigger="", now=HOUR), detail_of(verdict), Fleet.of(members, settings=Settings()).names
    )
    return {account.name: account.sentence for account in clusters(part, {})}


def test_every_cluster_is_explained_in_one_sentence() -> None:
    members = [cluster("a", taints=[Taint("down", "NoSchedule", "yes")]), cluster("b", room=100), cluster("c", apis=())]

    assert sentences(members, spec(placement(how=DYNAMIC), replicas=3)) == {
        "a": "TaintToleration refuses it: taint down=yes:NoSchedule is not tolerated",
        "b": "chosen (room for 100 more), gets 3 of 3",
        "c": "APIEnablement refuses it: it does not serve Deployment of apps/v1",
    }


def test_a_copy_evicted_after_its_toleration_expired_is_explained_by_the_eviction() -> None:
    tolerating = placement(tolerations=[Toleration("down", "Exists", toleration_seconds=60)])
    members = [cluster("a", taints=[Taint("down", "NoExecute")]), cluster("b")]
    evicted = spec(tolerating, on={"b": 1}, tasks=[GracefulEvictionTask("a", reason=TAINT_UNTOLERATED)])

    assert sentences(members, evicted)["a"] == (
        "ClusterEviction refuses it: "
        "the binding was evicted from it because of a taint, and it still has a taint that evicts"
    )


def test_a_refusal_says_that_no_cluster_exists() -> None:
    assert refused(ask([], spec(Placement()))).message == "0/0 clusters are available: no cluster exists"


def test_a_refusal_counts_the_clusters_of_each_filter_and_reason() -> None:
    gpu = Taint("gpu", "NoSchedule")
    clusters = [cluster("a", taints=[gpu]), cluster("b", taints=[gpu]), cluster("c", apis=())]

    message = refused(ask(clusters, spec(Placement()))).message

    assert message == (
        "0/3 clusters are available: 1 APIEnablement: it does not serve Deployment of apps/v1, 2 TaintToleration: "
        "taint gpu:NoSchedule is not tolerated"
    )


def test_among_targets_with_equal_room_the_first_by_name_grows_and_not_the_first_listed() -> None:
    members = [cluster("a", room=9), cluster("b", room=9)]
    wanted = spec(placement(how=AGGREGATED), replicas=4, on={"b": 1, "a": 1})

    assert shares(ask(members, wanted)) == {"a": 3, "b": 1}


def test_a_reservation_adds_what_it_reserved_beyond_the_replicas_that_are_there() -> None:
    members = [cluster("a", room=10), cluster("b", room=10)]
    wanted = spec(placement(how=DYNAMIC), replicas=4, on={"a": 1, "b": 1})
    reserved = (TargetCluster("a", 1), TargetCluster("b", 3))

    assert shares(ask(members, wanted)) == {"a": 2, "b": 2}
    assert shares(ask(members, wanted, hint=reserved)) == {"a": 1, "b": 3}
