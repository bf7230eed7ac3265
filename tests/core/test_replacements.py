"""A copy that leaves Directly stays while those that replace it cannot start [purge-modes].

What is decided here is whether its Work is deleted, and whether it is still right to remove the copy of a deleted Work.
`tests/simulation/test_last_copy.py` tries what comes of both on the members.
"""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apimachinery.meta import Condition
from controlplane.eviction.purge import with_task
from controlplane.eviction.replacements import are_still_prevented
from controlplane.kinds.binding import (
    OVERRIDES_APPLIED,
    TAINT_UNTOLERATED,
    AggregatedStatusItem,
    Binding,
    GracefulEvictionTask,
    TargetCluster,
    origin,
)
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY, ClusterAffinity, Placement, SuspendClusters, Suspension
from tests.builders.objects import START, binding, cluster, leaving, policy
from tests.builders.templates import deployment
from tests.core.propagation_story import DIVIDED_PLACEMENT, MEMBERS, Story
from tests.core.test_overridden_works import FAILING
from tests.core.test_overrides import policy as override

LEAVES = (leaving("member1", DIRECTLY),)
DUPLICATED = Placement()


class Leaving(Story):
    """A workload on these clusters, which leaves member1 Directly. `heard`: they have reported their copies."""

    def __init__(self, placement: Placement, *objects: Any, heard: bool = True, **on: int) -> None:
        self.web = deployment(replicas=3)
        super().__init__(*MEMBERS, policy("all", placement=placement), *objects, self.web)
        self.place(self.web, **on)
        for name, count in on.items() if heard else ():
            self.report(name, readyReplicas=count)

    def suspend(self, *clusters: str) -> None:
        live: Any = self.store.objects[policy("all").ref]
        self.edit(live.with_spec(suspension=Suspension(dispatching_on_clusters=SuspendClusters(clusters))))

    def evict(self, **other: Any) -> None:
        """Evict member1, as the controllers of evictions do. The scheduler has not placed the workload since."""
        old = self.found
        left = with_task(old, "member1", mode=DIRECTLY, reason=TAINT_UNTOLERATED, producer="", message="", now=self.now)
        self.edit(origin.with_departures(left, old, now=self.now).with_spec(**other))
        self.later(seconds=60)

    @property
    def found(self) -> Binding:
        found = self.binding(self.web)
        assert found is not None
        return found

    @property
    def stays(self) -> bool:
        """Whether the copy on member1 stays."""
        return self.works()["member1"].metadata.deletion_timestamp is None


@pytest.mark.parametrize(
    ("placement", "on", "then", "stays"),
    [
        (DUPLICATED, {"member1": 3}, {"member2": 3}, True),
        (DUPLICATED, {"member1": 3}, {"member3": 3}, False),
        (DUPLICATED, {"member1": 3, "member2": 3}, {"member2": 3}, False),  # the copy runs, and does not change
        (DIVIDED_PLACEMENT, {"member1": 2, "member2": 1}, {"member2": 3}, True),
        (DIVIDED_PLACEMENT, {"member1": 2, "member2": 1}, {"member2": 1, "member3": 2}, False),
    ],
    ids=["new", "elsewhere", "runs", "grows", "grows-elsewhere"],
)
def test_a_copy_stays_while_dispatching_to_one_that_has_to_start_or_grow_is_suspended(
    placement: Placement, on: dict[str, int], then: dict[str, int], *, stays: bool
) -> None:
    story = Leaving(placement, **on)
    story.suspend("member2")

    story.place(story.web, LEAVES, **then)

    assert story.stays is stays


def test_a_copy_stays_while_one_that_replaces_it_is_still_being_removed_and_will_not_be_sent_again() -> None:
    story = Leaving(Placement(cluster_affinity=ClusterAffinity(cluster_names=("member1",))), member1=3, member2=3)
    story.place(story.web, member1=3)
    assert story.works()["member2"].metadata.deletion_timestamp is not None
    story.suspend("member2")

    story.place(story.web, LEAVES, member2=3)

    assert story.stays


@pytest.mark.parametrize("where", ["member2", "member3"])
def test_a_copy_stays_while_an_override_policy_prevents_the_new_one(where: str) -> None:
    """The policy is for clusters on which the workload never was."""
    story = Leaving(DUPLICATED, override("broken", target={"clusterNames": ["member2"]}, **FAILING), member1=3)

    story.place(story.web, LEAVES, **{where: 3})

    assert story.stays is (where == "member2")


def test_a_copy_stays_while_the_cluster_of_the_one_that_replaces_it_has_left_the_fleet() -> None:
    """Override policies are not asked about it."""
    story = Leaving(DUPLICATED, override("broken", target={"clusterNames": ["gone"]}, **FAILING), member1=3)

    story.place(story.web, LEAVES, gone=3)

    assert story.stays


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_copy_stays_while_the_cluster_of_the_one_that_replaces_it_cannot_be_reached(ready: str) -> None:
    story = Leaving(DUPLICATED, member1=3)

    def becomes(ready: str) -> None:
        live: Any = story.store.objects[cluster("member2").ref]
        story.edit(live.with_status(conditions=cluster("member2", ready=ready).status.conditions))

    becomes(ready)
    story.place(story.web, LEAVES, member2=3)
    assert story.stays

    becomes("True")
    story.later(seconds=60)
    assert not story.stays


@pytest.mark.parametrize("heard", [True, False])
def test_a_copy_stays_until_the_scheduler_has_placed_the_workload_and_goes_at_once_then(*, heard: bool) -> None:
    """It may find that the copy on member2 is enough, so that no target changes."""
    story = Leaving(DUPLICATED, heard=heard, member1=3, member2=3)
    story.evict()
    assert story.stays

    story.edit(story.found.with_status(scheduler_observed_generation=story.found.metadata.generation))

    assert not story.stays


def test_a_copy_does_not_wait_for_another_scheduler_which_may_not_say_what_it_has_seen() -> None:
    story = Leaving(DUPLICATED, member1=3, member2=3)
    live: Any = story.store.objects[policy("all").ref]
    story.edit(live.with_spec(scheduler_name="their-scheduler"))

    story.evict()

    assert not story.stays


def left(placement: Placement, *, replicas: int, had: dict[str, int], known: bool = True) -> Binding:
    """Return a workload that has left member1 Directly, and whose override policies fail. `had`: its replicas before.

    `known`: they are noted.
    """
    old = binding("web", placement, on=had, replicas=sum(had.values()))
    gone = with_task(old, "member1", mode=DIRECTLY, reason="", producer="", message="", now=START)
    noted = origin.with_departures(gone, old, now=START) if known else gone
    scaled = noted.with_spec(replicas=replicas)
    failed = Condition(OVERRIDES_APPLIED, "False", "ApplyFailed")
    return scaled.with_status(scheduler_observed_generation=scaled.metadata.generation, conditions=(failed,))


def on_member2(one: Binding, target: int, *, applied: bool = True, **status: int) -> Binding:
    """Return it placed on member2, with an unhealthy copy there that has this status."""
    item = AggregatedStatusItem("member2", status=dict(status), applied=applied, health="Unhealthy")
    placed = one.with_spec(clusters=(TargetCluster("member2", target),))
    return placed.with_status(aggregated_status=(item,), scheduler_observed_generation=placed.metadata.generation)


ALL_LEFT = left(DIVIDED_PLACEMENT, replicas=4, had={"member1": 4})
HALF = {"member1": 2, "member2": 2}
GRACEFUL_TOO = (leaving("member1", DIRECTLY, replicas=2), leaving("member3", GRACEFULLY, replicas=2))


@pytest.mark.parametrize(
    ("one", "stays"),
    [
        (on_member2(ALL_LEFT, 2, replicas=2), False),  # six run, and four are wanted
        (on_member2(ALL_LEFT, 2, replicas=0), True),
        (on_member2(ALL_LEFT, 2), False),  # a copy that counts no replicas may run all of them
        (on_member2(ALL_LEFT, 2, applied=False, replicas=2), True),
        # those of member2 ran there before
        (on_member2(left(DIVIDED_PLACEMENT, replicas=4, had=HALF), 4, replicas=2), True),
        (on_member2(left(DIVIDED_PLACEMENT, replicas=4, had=HALF, known=False), 4, replicas=2), True),
        (on_member2(left(DIVIDED_PLACEMENT, replicas=3, had=HALF), 3, replicas=2), True),  # scaled down since
        (on_member2(left(DUPLICATED, replicas=9, had={"member1": 3}), 9, replicas=3), False),  # scaled up since
        (on_member2(left(DUPLICATED, replicas=3, had={"member1": 3}, known=False), 3, replicas=0), True),
        (
            on_member2(left(DIVIDED_PLACEMENT, replicas=4, had=HALF, known=False), 4, replicas=2).with_spec(
                graceful_eviction_tasks=GRACEFUL_TOO
            ),
            True,
        ),
    ],
)
def test_a_copy_that_is_removed_late_stays_unless_a_part_of_its_replicas_has_started_elsewhere(
    one: Binding, *, stays: bool
) -> None:
    one = one.with_status(scheduler_observed_generation=one.metadata.generation)

    assert are_still_prevented(one, GracefulEvictionTask("member1", DIRECTLY), {}) is stays
