"""Directly: the old copy is gone first, and what happens while it is not known whether it is [directly-unreachable]."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apimachinery.meta import Condition, condition, with_condition
from controlplane.apimachinery.names import RECEIVED_ANNOTATION
from controlplane.clusters.fence import FenceRequest, fence_of, fenced
from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor
from controlplane.eviction.directly import DIRECTLY_WAITING
from controlplane.kinds.binding import GracefulEvictionTask
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.policy.unreachable_wait import parse_wait
from controlplane.kinds.rows import Observation
from controlplane.kinds.template import Template
from tests.builders.objects import START, cluster, policy
from tests.builders.templates import deployment
from tests.core.propagation_story import DIVIDED_PLACEMENT, Story
from tests.core.test_overrides import policy as override

MEMBERS = tuple(cluster(f"member{number}") for number in (1, 2, 3))
LEAVING = (GracefulEvictionTask("member1", DIRECTLY, creation_timestamp=START),)


def unreachable(*, also_on: str = "", **spec: Any) -> tuple[Story, Template]:
    """A workload whose cluster member1 does not answer any more. `spec`: of its policy."""
    web = deployment()
    story = Story(*MEMBERS, policy("all", **spec), web)
    on = {"member1": 1, also_on: 1} if also_on else {"member1": 3}
    story.place(web, (), **on)
    lost = member1(story)
    story.edit(lost.with_status(conditions=cluster("member1", ready="False").status.conditions))
    return story, web


def member1(story: Story) -> Cluster:
    found = story.store.objects[MEMBERS[0].ref]
    assert isinstance(found, Cluster)
    return found


def confirm_down(story: Story, seconds: int) -> None:
    story.edit(fenced(member1(story), FenceRequest("racks 3 and 4 have no power", seconds), by="ana", now=story.now))


def waiting(story: Story, web: Template) -> tuple[str, str]:
    binding = story.binding(web)
    assert binding is not None
    said = condition(binding.status.conditions, DIRECTLY_WAITING)
    assert said is not None
    return said.status, said.reason


def test_the_binding_says_what_it_waits_for_until_the_source_is_fenced() -> None:
    story, web = unreachable()
    story.place(web, LEAVING, member2=3)
    assert waiting(story, web) == ("True", "SourceUnreachable")

    confirm_down(story, 600)

    assert "member2" in story.works()
    assert waiting(story, web) == ("False", "Proceeded")
    assert "fenced by ana" in story.events("DirectlyProceeded")[0]


def test_a_source_that_refuses_all_logins_is_waited_for_like_one_that_does_not_answer() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, (), member1=3)
    shut = member1(story)
    lost = Condition("AccessLost", "True", "AccessRefused")
    story.edit(shut.with_status(conditions=with_condition(shut.status.conditions, lost, now=START)))

    story.place(web, LEAVING, member2=3)
    assert waiting(story, web) == ("True", "SourceUnreachable")
    confirm_down(story, 600)

    assert "member2" in story.works()


def test_a_fence_that_has_expired_lets_nothing_go_on() -> None:
    story, web = unreachable()
    confirm_down(story, 60)
    story.later(seconds=61)

    story.place(web, LEAVING, member2=3)

    assert "member2" not in story.works()


def test_a_source_that_answered_after_it_was_fenced_is_waited_for_although_the_fence_is_still_there() -> None:
    story, web = unreachable()
    confirm_down(story, 600)
    story.later(seconds=30)
    answered = Observation("member1", answered_at=story.now)
    story.store.apply([(None, Decision(changes=(Save(answered),)))], by=Actor("probes"))

    story.place(web, LEAVING, member2=3)

    assert fence_of(member1(story)) is not None
    assert "member2" not in story.works()
    assert waiting(story, web) == ("True", "SourceUnreachable")


def test_a_heartbeat_after_the_fence_counts_as_soon_as_it_is_received() -> None:
    story, web = unreachable()
    found = member1(story)
    story.edit(found.with_spec(sync_mode="Pull"))
    confirm_down(story, 600)
    story.later(seconds=30)
    beat = {RECEIVED_ANNOTATION: story.now.isoformat(timespec="microseconds")}
    metadata = {"name": "member1", "namespace": "karmada-cluster", "uid": "beat", "annotations": beat}
    story.add(Template.fold({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}))

    story.place(web, LEAVING, member2=3)

    assert "member2" not in story.works()


def test_the_source_answering_again_ends_the_wait_once_its_copy_is_gone() -> None:
    story, web = unreachable()
    story.place(web, LEAVING, member2=3)

    lost = member1(story)
    story.edit(lost.with_status(conditions=cluster("member1").status.conditions))
    assert "member2" not in story.works()
    story.remove_from_member("member1")

    assert "member2" in story.works()
    assert waiting(story, web) == ("False", "SourceGone")


def test_no_other_cluster_of_the_binding_is_frozen() -> None:
    story, web = unreachable(also_on="member3")
    story.place(web, LEAVING, member2=1, member3=1)

    spec = {**web.spec, "paused": True}
    story.edit(story.template(web).with_content({**web.content, "spec": spec}))

    assert story.works()["member3"].manifest["spec"]["paused"] is True
    assert "member2" not in story.works()


def test_a_copy_whose_replicas_cannot_be_read_does_not_change_meanwhile() -> None:
    """It might grow."""
    spoiling = {"operator": "replace", "path": "/spec/replicas", "value": "three"}
    spoils = override("broken", target={"clusterNames": ["member3"]}, plaintext=[spoiling])
    story, web = unreachable(also_on="member3", placement=DIVIDED_PLACEMENT)
    story.add(spoils)
    story.place(web, LEAVING, member2=1, member3=5)

    story.delete(spoils)
    assert story.works()["member3"].manifest["spec"]["replicas"] == "three"
    confirm_down(story, 600)

    assert story.works()["member3"].manifest["spec"]["replicas"] == 5


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("After=300", 300),
        ("After=0", 0),
        ("After=", None),
        ("After=5m", None),
        ("300", None),
        ("", None),
        ("After=9999999999", None),
    ],
)
def test_only_after_and_seconds_let_a_policy_go_on(said: str, seconds: int | None) -> None:
    found = parse_wait(said)

    assert (None if found is None else found.total_seconds()) == seconds
