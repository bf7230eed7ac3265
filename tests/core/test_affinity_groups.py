"""Affinity terms that are tried one after the other, and again from the first one [affinity-groups]."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controlplane.kinds.binding import ResourceBindingStatus
from controlplane.kinds.policy import ClusterAffinityTerm, ReplicaSchedulingStrategy, Toleration
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.schedule import Placed, Refused, schedule
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import AGGREGATED, DYNAMIC, EVENLY, placement
from tests.builders.scheduling import spec
from tests.core.fleet_story import Story


def term(name: str, *clusters: str) -> ClusterAffinityTerm:
    return ClusterAffinityTerm(affinity_name=name, cluster_names=clusters)


TERMS = (term("primary", "member1"), term("backup", "member2"), term("last", "member3"))
SECONDS = Toleration(operator="Exists", toleration_seconds=10)


@pytest.mark.parametrize("how", [None, DYNAMIC, AGGREGATED, EVENLY], ids=["copies", "dynamic", "aggregated", "static"])
def test_a_workload_whose_fallback_group_is_lost_too_returns_to_the_first_group(
    how: ReplicaSchedulingStrategy | None,
) -> None:
    web = binding("web", placement(how=how, groups=TERMS[:2]), on={"member1": 3}, replicas=3)
    story = Story(cluster("member1"), cluster("member2"), cluster("member4"), web)
    story.pass_seconds(5)
    story.taint("member1", no_execute(at=story.now))
    story.pass_seconds(10)
    assert story.placed("web") == {"member2": 3}
    story.untaint("member1")
    story.pass_seconds(60)
    assert story.placed("web") == {"member2": 3}  # it does not return by itself

    story.taint("member2", no_execute(at=story.now))
    story.pass_seconds(10)

    assert story.placed("web") == {"member1": 3}
    assert story.binding("web").status.scheduler_observed_affinity_name == "primary"
    assert story.queue() == {}


def test_no_group_takes_a_workload_back_to_a_cluster_that_is_still_lost() -> None:
    where = placement(groups=TERMS[:2], tolerations=(SECONDS,))
    web = binding("web", where, on={"member1": 3}, replicas=3)
    story = Story(*(cluster(f"member{number}") for number in range(1, 8)), web)
    story.pass_seconds(5)
    for name in ("member1", "member2"):
        story.taint(name, no_execute(at=story.now))
        for _ in range(20):
            story.pass_seconds(1)

    assert story.placed("web") == {"member2": 3}
    assert story.queue() == {"web|member2": "Held"}


@pytest.mark.parametrize(
    ("observed", "there", "chosen"),
    [
        ("backup", ("member1", "member2", "member3"), "backup"),
        ("backup", ("member1", "member3"), "last"),  # later terms come before earlier ones
        ("backup", ("member1",), "primary"),
        ("last", ("member1", "member2"), "primary"),
        ("last", ("member2",), "backup"),
        ("", ("member3",), "last"),
    ],
)
def test_terms_are_tried_from_the_last_one_used_on_and_then_from_the_first(
    observed: str, there: tuple[str, ...], chosen: str
) -> None:
    outcome = _outcome(observed, there)

    assert isinstance(outcome, Placed)
    assert outcome.affinity_name == chosen


def test_the_failure_of_the_term_in_use_is_reported_if_no_term_has_a_cluster() -> None:
    outcome = _outcome("backup", ("member2",), replicas=9)

    assert isinstance(outcome, Refused)
    assert outcome.reason == "Unschedulable"


def _outcome(observed: str, there: tuple[str, ...], *, replicas: int = 1) -> Placed | Refused:
    members = [cluster(name, room=5) for name in there]
    fleet = Fleet.of(members, settings=Settings())
    status = replace(ResourceBindingStatus(), scheduler_observed_affinity_name=observed, last_scheduled_time=START)
    wanted = spec(placement(how=DYNAMIC, groups=TERMS), replicas=replicas)
    return schedule(wanted, status, fleet, settings=Settings()).outcome
