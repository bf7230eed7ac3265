"""Where something goes back to, what gives for it, and what stands against it [recovered-clusters] [edits-by-hand]."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, ObjectMeta, Ref
from controlplane.apimachinery.names import UNSCHEDULABLE_TAINT
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.engine.state import ReservedCapacity
from controlplane.eviction import failback
from controlplane.eviction.failback import FailbackBlocked, FailbackPlan, FailbackPlanner, FailbackRequest
from controlplane.eviction.purge import with_task
from controlplane.kinds import CLUSTER_RESOURCE_BINDING, RESOURCE_BINDING
from controlplane.kinds.binding import (
    AggregatedStatusItem,
    Binding,
    BindingSuspension,
    Component,
    GracefulEvictionTask,
    TargetCluster,
    origin,
)
from controlplane.kinds.cluster import ACCESS_LOST, Cluster, Taint
from controlplane.kinds.failback import Failback, FailbackSpec, validate
from controlplane.kinds.policy import (
    ClusterAffinityTerm,
    ClusterFailoverBehavior,
    Placement,
    StatePreservation,
    StatePreservationRule,
    Toleration,
)
from controlplane.settings import GATES, Settings
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import by_room, by_weight, duplicated

NOW = START + timedelta(hours=1)
SETTINGS = Settings()
ERRAND = FailbackRequest("Failback/home", "home")
MEMBERS = [cluster(f"member{number}") for number in range(1, 5)]


def away(
    placement: Placement,
    *,
    was: dict[str, int],
    now: dict[str, int],
    replicas: int = 6,
    failover: ClusterFailoverBehavior | None = None,
) -> Binding:
    """A binding that was placed one way, left what it is not on any more, and has settled."""
    old = binding("web", placement, on=was, replicas=replicas, failover=failover)
    new = old
    for name in was.keys() - now.keys():
        new = with_task(new, name, mode="Gracefully", reason="", producer="", message="", now=START)
    new = origin.with_departures(new, old, now=START)
    return new.with_spec(clusters=tuple(TargetCluster(*pair) for pair in now.items()), graceful_eviction_tasks=())


def way(
    one: Binding, to: str = "member1", *, members: list[Cluster] = MEMBERS, settings: Settings = SETTINGS
) -> FailbackPlan | FailbackBlocked:
    known = origin.origin_of(one)
    assert known is not None
    return FailbackPlanner(members, ReservedCapacity(), settings, now=NOW).plan(one, known, to, ERRAND)


def targets(one: Binding) -> dict[str, int]:
    return {target.name: target.replicas for target in one.spec.clusters}


def tasks(one: Binding) -> dict[str, tuple[str, int | None]]:
    return {task.from_cluster: (task.reason, task.replicas) for task in one.spec.graceful_eviction_tasks}


EVEN = by_weight(member1=1, member2=1, member3=1)
ONE = duplicated(least=1, most=1)
TWO = duplicated(least=2, most=2)


@pytest.mark.parametrize(
    ("placement", "was", "now", "replicas", "then", "leave"),
    [
        # A cluster that took over a part gives that part, and keeps running it.
        (EVEN, {"member1": 3, "member2": 3}, {"member2": 6}, 6, {"member1": 3, "member2": 3}, {"member2": 3}),
        # One that is not of the home gives first, and altogether where it can.
        (EVEN, {"member1": 3, "member2": 3}, {"member2": 3, "member3": 3}, 6,
         {"member1": 3, "member2": 3}, {"member3": 3}),
        (EVEN, {"member1": 2, "member2": 4}, {"member3": 6}, 6, {"member1": 2, "member3": 4}, {"member3": 2}),
        # What is placed nowhere is placed first.
        (by_room(), {"member1": 3, "member2": 3}, {"member2": 3, "member3": 2}, 6,
         {"member1": 3, "member2": 3}, {"member3": 2}),
        (by_room(), {"member1": 3, "member2": 3}, {"member2": 3}, 6, {"member1": 3, "member2": 3}, {}),
        # It has grown meanwhile, or shrunk: the share is what it was in proportion.
        (EVEN, {"member1": 1, "member2": 2}, {"member2": 6}, 6, {"member1": 2, "member2": 4}, {"member2": 2}),
        (EVEN, {"member1": 4, "member2": 4}, {"member2": 2}, 2, {"member1": 1, "member2": 1}, {"member2": 1}),
        # Copies: one stands in for the other.
        (ONE, {"member1": 6}, {"member3": 6}, 6, {"member1": 6}, {"member3": 6}),
        (TWO, {"member1": 6, "member2": 6}, {"member2": 6, "member4": 6}, 6,
         {"member1": 6, "member2": 6}, {"member4": 6}),
        (duplicated(least=1, most=2), {"member1": 6, "member2": 6}, {"member2": 6}, 6,
         {"member1": 6, "member2": 6}, {}),
    ],
)  # fmt: skip
def test_replicas_are_given_back_by_who_took_them_over(
    placement: Placement,
    was: dict[str, int],
    now: dict[str, int],
    replicas: int,
    then: dict[str, int],
    leave: dict[str, int],
) -> None:
    one = away(placement, was=was, now=now, replicas=replicas)

    found = way(one)

    assert isinstance(found, FailbackPlan), found
    assert targets(found.binding) == then
    assert {name: count for name, (_, count) in tasks(found.binding).items()} == leave
    assert all(
        reason == ("FailbackInPart" if name in then else "Failback")
        for name, (reason, _) in tasks(found.binding).items()
    )
    assert found.binding.metadata.generation == one.metadata.generation + 1
    assert "member1" not in origin.left_clusters(found.binding)


@pytest.mark.parametrize(("not_ready", "gives"), [("member3", "member3"), ("member4", "member4"), ("", "member3")])
def test_a_cluster_that_is_not_ready_gives_first(not_ready: str, gives: str) -> None:
    one = away(by_room(), was={"member1": 3, "member2": 3}, now={"member3": 3, "member4": 3})
    members = [cluster("member1"), cluster("member2")]
    members += [cluster(name, ready="False" if name == not_ready else "True") for name in ("member3", "member4")]

    found = way(one, members=members)

    assert isinstance(found, FailbackPlan), found
    assert found.leaves == (gives,)


def test_a_cluster_that_is_gone_gives_before_one_that_is_ready() -> None:
    one = away(by_room(), was={"member1": 3, "member2": 3}, now={"member3": 3, "member4": 3})

    found = way(one, members=[one for one in MEMBERS if one.metadata.name != "member4"])

    assert isinstance(found, FailbackPlan), found
    assert found.leaves == ("member4",)


def test_a_cluster_may_be_named_after_those_that_give() -> None:
    found = way(away(ONE, was={"member3": 6}, now={"member1": 6}), "member3")

    assert isinstance(found, FailbackPlan), found
    assert tasks(found.binding) == {"member1": ("Failback", 6)}


def test_room_for_exactly_what_goes_back_is_enough() -> None:
    found = way(
        away(by_room(), was={"member1": 3, "member2": 3}, now={"member2": 6}),
        members=[cluster("member1", room=3), *MEMBERS[1:]],
    )

    assert isinstance(found, FailbackPlan), found
    assert targets(found.binding) == {"member1": 3, "member2": 3}


def test_a_cluster_that_joined_meanwhile_keeps_no_copy_from_going_back() -> None:
    """The scheduler would use the new cluster as well. It is not asked to, so the copy only returns."""
    everywhere = duplicated("member1", "member2", "member3")

    found = way(away(everywhere, was={"member1": 6, "member2": 6}, now={"member2": 6}))

    assert isinstance(found, FailbackPlan), found
    assert targets(found.binding) == {"member1": 6, "member2": 6}
    assert found.leaves == ()


def test_a_workload_of_several_templates_has_no_replicas_on_its_cluster_and_reserves_room_once() -> None:
    on = Settings(feature_gates={**GATES, "MultiplePodTemplatesScheduling": True})
    one = away(ONE, was={"member1": 0}, now={"member3": 0}, replicas=5)
    one = one.with_spec(components=(Component("job", 1), Component("task", 2)))

    found = way(one, settings=on)

    assert isinstance(found, FailbackPlan), found
    assert targets(found.binding) == {"member1": 0}
    assert sum(reservation.replicas for reservation in found.reservations) == 1


def test_a_workload_without_replicas_reserves_nothing() -> None:
    settings = Settings(enable_empty_workload_propagation=True)

    found = way(away(ONE, was={"member1": 0}, now={"member3": 0}, replicas=0), settings=settings)

    assert isinstance(found, FailbackPlan), found
    assert (found.reservations, found.capacity_guards) == ((), ())


def test_state_goes_back_with_the_whole_copy() -> None:
    state = StatePreservation((StatePreservationRule("job", "{.jobID}"),))
    carries = ClusterFailoverBehavior(purge_mode="Directly", state_preservation=state)
    item = AggregatedStatusItem("member3", status={"jobID": "a1"}, applied=True, health="Healthy")
    one = away(ONE, was={"member1": 6}, now={"member3": 6}, failover=carries).with_status(aggregated_status=(item,))
    settings = Settings(feature_gates={**GATES, "StatefulFailoverInjection": True})

    found = way(one, settings=settings)

    assert isinstance(found, FailbackPlan), found
    assert [task.preserved_label_state for task in found.binding.spec.graceful_eviction_tasks] == [{"job": "a1"}]


@pytest.mark.parametrize(
    ("text", "ref"),
    [("shop/web", Ref(RESOURCE_BINDING, "shop", "web")), ("web", Ref(CLUSTER_RESOURCE_BINDING, "", "web"))],
)
def test_a_failback_names_a_binding_with_or_without_namespace(text: str, ref: Ref) -> None:
    assert failback.binding_ref(text) == ref


def test_with_directly_a_whole_copy_goes_before_the_new_one_starts_and_a_part_stays_until_it_runs() -> None:
    directly = ClusterFailoverBehavior(purge_mode="Directly")
    part = way(away(EVEN, was={"member1": 3, "member2": 3}, now={"member2": 6}, failover=directly))
    whole = way(away(ONE, was={"member1": 6}, now={"member3": 6}, failover=directly))

    assert isinstance(part, FailbackPlan)
    assert isinstance(whole, FailbackPlan)
    assert (targets(part.binding), tasks(part.binding)) == (
        {"member1": 3, "member2": 3},
        {"member2": ("FailbackInPart", 3)},
    )
    assert [task.purge_mode for task in part.binding.spec.graceful_eviction_tasks] == ["Gracefully"]
    assert [task.purge_mode for task in whole.binding.spec.graceful_eviction_tasks] == ["Directly"]


@pytest.mark.parametrize("tolerations", [(), (Toleration(operator="Exists"),)])
def test_a_cluster_that_a_drain_has_left_cordoned_is_named_with_the_command_that_ends_it(
    tolerations: tuple[Toleration, ...],
) -> None:
    cordoned = cluster("member1", taints=(Taint(UNSCHEDULABLE_TAINT, "NoSchedule"),))
    one = away(duplicated(least=1, most=1, tolerations=tolerations), was={"member1": 6}, now={"member3": 6})

    found = way(one, members=[cordoned, *MEMBERS[1:]])

    assert found == FailbackBlocked(
        "cluster member1 is cordoned, as a Drain leaves it; let it be used again: kubectl lifeboat uncordon member1"
    )


def test_what_still_runs_at_home_is_wanted_there_again() -> None:
    one = away(ONE, was={"member1": 6}, now={"member3": 6})
    stuck = one.with_spec(graceful_eviction_tasks=(GracefulEvictionTask("member1", reason="Drain", replicas=6),))

    found = way(stuck)

    assert isinstance(found, FailbackPlan)
    assert set(tasks(found.binding)) == {"member3"}


FULL = [cluster("member1", room=1), *MEMBERS[1:]]
CORDONED = [cluster("member1", taints=[Taint("cordon", "NoSchedule")]), *MEMBERS[1:]]
LEAVING = GracefulEvictionTask("member4", reason="TaintUntolerated")


@pytest.mark.parametrize(
    ("one", "members", "why"),
    [
        (away(by_room(), was={"member1": 3, "member2": 3}, now={"member2": 6}), FULL, "room for 1 of 3"),
        (away(EVEN, was={"member1": 3, "member2": 3}, now={"member2": 6}), CORDONED, "taint cordon:NoSchedule"),
        (away(TWO, was={"member1": 6, "member2": 6}, now={"member2": 6, "member3": 6}), CORDONED, "cordon"),
        (
            away(ONE, was={"member1": 6}, now={"member3": 6}).with_spec(suspension=BindingSuspension(scheduling=True)),
            MEMBERS,
            "suspended",
        ),
        (
            away(ONE, was={"member1": 6}, now={"member3": 6}).with_spec(graceful_eviction_tasks=(LEAVING,)),
            MEMBERS,
            "still leaving cluster member4",
        ),
        (away(EVEN, was={"member1": 1, "member2": 5}, now={"member2": 1}, replicas=1), MEMBERS, "nothing to bring"),
    ],
)
def test_what_stands_against_it_is_named(one: Binding, members: list[Cluster], why: str) -> None:
    found = way(one, members=members)

    assert isinstance(found, FailbackBlocked)
    assert why in found.why


def test_a_hold_counts_on_the_clusters_that_give_and_on_no_other() -> None:
    one = away(EVEN, was={"member1": 3, "member2": 3}, now={"member2": 3, "member3": 3})
    known = origin.origin_of(one)
    assert known is not None

    def way_with(held: str) -> FailbackPlan | FailbackBlocked:
        errand = FailbackRequest("", "", lambda giver: f"{giver} is held" if giver == held else "")
        return FailbackPlanner(MEMBERS, ReservedCapacity(), Settings(), now=NOW).plan(one, known, "member1", errand)

    assert way_with("member3") == FailbackBlocked("member3 is held")
    assert isinstance(way_with("member2"), FailbackPlan)


def test_ways_of_one_look_do_not_use_the_same_room() -> None:
    members = [cluster("member1", room=4), *MEMBERS[1:]]
    one = away(by_room(), was={"member1": 3, "member2": 3}, now={"member2": 6})
    other = replace(one, metadata=replace(one.metadata, name="other", uid="other"))
    trial = FailbackPlanner(members, ReservedCapacity(), Settings(), now=NOW)
    known = origin.origin_of(one)
    assert known is not None

    first, second = (trial.plan(each, known, "member1", ERRAND) for each in (one, other))

    assert isinstance(first, FailbackPlan)
    assert sum(reservation.replicas for reservation in first.reservations) == 3
    assert second == FailbackBlocked("cluster member1 has room for 1 of 3 replicas")


# Refusals


def ready_since(moment: datetime) -> Cluster:
    one = cluster("member1")
    return one.with_status(conditions=(Condition("Ready", "True", last_transition_time=moment),))


def access(status: str) -> Cluster:
    one = cluster("member1")
    reported = Condition(ACCESS_LOST, status, "Unauthorized", "the token has expired")
    return one.with_status(conditions=(*one.status.conditions, reported))


ORIGINS = [
    (cluster("member1"), ""),
    (access("False"), ""),
    (access("True"), "access to cluster member1 is lost: the token has expired"),
    (ready_since(NOW - timedelta(minutes=10)), ""),
    (ready_since(NOW - timedelta(minutes=9, seconds=59)), "less than 10 minutes"),
    (cluster("member1", ready="False"), "is not Ready"),
    (cluster("member1", ready="Unknown"), "is not Ready"),
    (cluster("member1", taints=[no_execute()]), "taint gone:NoExecute"),
    (cluster("member1", taints=[Taint("soft", "PreferNoExecute")]), "taint soft:PreferNoExecute"),
    (None, "is gone"),
]


@pytest.mark.parametrize(("origin", "why"), ORIGINS)
def test_nothing_goes_back_to_a_cluster_that_is_not_well(origin: Cluster | None, why: str) -> None:
    said = failback.unfit_reason(origin, "member1", now=NOW)

    assert why in said
    assert bool(said) == bool(why)


@pytest.mark.parametrize(("origin", "why"), ORIGINS)
def test_a_failback_to_it_is_refused_when_it_is_written(origin: Cluster | None, why: str) -> None:
    clusters = {} if origin is None else {"member1": origin}
    one = away(ONE, was={"member1": 6}, now={"member3": 6})

    by_cluster = list(failback.refusal_causes(FailbackSpec("member1"), None, clusters, now=NOW))
    by_binding = list(failback.refusal_causes(FailbackSpec(binding="default/web"), one, clusters, now=NOW))

    assert [cause.field for cause in by_cluster] == (["spec.cluster"] if why else [])
    assert [cause.field for cause in by_binding] == (["spec.binding"] if why else [])
    assert all(why in cause.message for cause in (*by_cluster, *by_binding))


def test_a_failback_of_what_has_nowhere_to_go_back_to_is_refused() -> None:
    at_home = binding("web", ONE, on={"member1": 6})
    elsewhere = away(ONE, was={"member2": 6}, now={"member3": 6})
    clusters = {"member1": MEMBERS[0], "member2": MEMBERS[1]}

    for spec, one, why in (
        (FailbackSpec(binding="default/web"), at_home, "nothing moves back"),
        (FailbackSpec(binding="default/web"), None, "no such binding"),
        (FailbackSpec("member1", binding="default/web"), elsewhere, "has not left cluster member1"),
    ):
        (cause,) = failback.refusal_causes(spec, one, clusters, now=NOW)
        assert why in cause.message


@pytest.mark.parametrize(
    ("spec", "old", "fields"),
    [
        (FailbackSpec(), None, ["spec"]),
        (FailbackSpec("member1", rate=0, at_once=0), None, ["spec.rate", "spec.atOnce"]),
        (FailbackSpec("member1", at_once=101), None, ["spec.atOnce"]),
        (FailbackSpec(selector=LabelSelector({"a b": "c"})), None, ["spec.selector.matchLabels"]),
        (FailbackSpec("member2", stop=True), FailbackSpec("member1"), ["spec.cluster"]),
        (FailbackSpec("member1", rate=5, stop=True, at_once=1), FailbackSpec("member1"), []),
    ],
)
def test_a_failback_says_what_goes_back_and_how_fast(
    spec: FailbackSpec, old: FailbackSpec | None, fields: list[str]
) -> None:
    def of(one: FailbackSpec) -> Failback:
        return Failback("failover.lifeboat.io/v1alpha1", "Failback", ObjectMeta(name="home"), one)

    causes = validate(of(spec), None if old is None else of(old), Settings())

    assert [cause.field for cause in causes] == fields


def test_going_back_returns_to_the_affinity_term_the_cluster_is_of() -> None:
    terms = (
        ClusterAffinityTerm(affinity_name="near", cluster_names=("member1",)),
        ClusterAffinityTerm(affinity_name="far", cluster_names=("member3",)),
    )
    one = away(replace(ONE, cluster_affinities=terms), was={"member1": 6}, now={"member3": 6})
    one = one.with_status(scheduler_observed_affinity_name="far")

    found = way(one)

    assert isinstance(found, FailbackPlan)
    assert targets(found.binding) == {"member1": 6}
    assert found.binding.status.scheduler_observed_affinity_name == "near"
