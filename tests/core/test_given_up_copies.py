"""Copies whose clusters are given up: which of them wait until all others are healthy [no-healthy-copy-lost]."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.eviction.purge import with_task
from controlplane.kinds.binding import TAINT_UNTOLERATED, Binding, TargetCluster, origin
from controlplane.kinds.policy import GRACEFULLY, Placement, Toleration
from controlplane.scheduling import binding_outcome
from controlplane.scheduling.schedule import QUOTA_EXCEEDED, Placed, Refused
from tests.builders.objects import policy
from tests.builders.templates import deployment
from tests.core.propagation_story import MEMBERS, Story

POLICY = policy("all", placement=Placement())


class Moving(Story):
    """A workload that runs on member1, and whose copy on member2 does not become healthy."""

    def __init__(self) -> None:
        self.web = deployment(replicas=3)
        super().__init__(*MEMBERS, POLICY, self.web)
        self.schedule("member1")
        self.report("member1", readyReplicas=3)

    @property
    def found(self) -> Binding:
        found = self.binding(self.web)
        assert found is not None
        return found

    def schedule(self, name: str) -> None:
        """Let the scheduler place the workload on one cluster."""
        outcome = Placed((TargetCluster(name, 3),))
        self.edit(binding_outcome.placed(self.found, outcome, asked_again=False, now=self.now))

    def evict(self, name: str) -> None:
        """Let the workload leave a cluster gracefully, because of a taint."""
        old = self.found
        words = {"reason": TAINT_UNTOLERATED, "producer": "", "message": ""}
        left = with_task(old, name, mode=GRACEFULLY, now=self.now, **words)
        self.edit(origin.with_departures(left, old, now=self.now))

    def end_task(self) -> None:
        """Let the time of the eviction be over, with on_graceful_timeout Purge."""
        self.edit(self.found.with_spec(graceful_eviction_tasks=()))

    @property
    def stays(self) -> bool:
        """Whether the copy on member1 stays."""
        return self.works()["member1"].metadata.deletion_timestamp is None


def test_a_copy_that_the_scheduler_gives_up_stays_until_the_others_are_healthy() -> None:
    story = Moving()

    story.schedule("member2")
    story.later(seconds=60)
    assert story.stays

    story.report("member2", readyReplicas=3)
    story.later(seconds=60)
    assert not story.stays


@pytest.mark.parametrize("edited", [False, True])
def test_a_copy_whose_eviction_has_ended_goes_also_if_its_policy_was_edited_meanwhile(*, edited: bool) -> None:
    """The policy still allows member1."""
    story = Moving()
    story.evict("member1")
    story.schedule("member2")
    if edited:
        live: Any = story.store.objects[POLICY.ref]
        story.edit(live.with_spec(placement=Placement(cluster_tolerations=(Toleration(key="disk"),))))
        story.schedule("member2")
    assert story.stays

    story.end_task()
    assert not story.stays


def test_a_copy_that_was_evicted_once_and_came_back_stays_when_the_scheduler_gives_it_up_later() -> None:
    story = Moving()
    story.evict("member1")
    story.schedule("member1")
    story.end_task()

    story.schedule("member2")
    story.later(seconds=60)

    assert story.stays


def test_a_copy_that_the_scheduler_gives_up_goes_although_a_later_change_is_refused() -> None:
    """It would run on until the quota has room again."""
    story = Moving()
    story.schedule("member2")
    live = story.template(story.web)
    story.edit(live.with_content({**live.content, "spec": {**live.spec, "replicas": 5}}))
    refusal = Refused(QUOTA_EXCEEDED, "no room", retry=True)
    story.edit(binding_outcome.refused(story.found, refusal, part=None, now=story.now))
    assert story.stays

    story.report("member2", readyReplicas=3)
    story.later(seconds=60)
    assert not story.stays
