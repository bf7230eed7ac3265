"""A Pull cluster that was away keeps a copy that was to go before, until the others are healthy [returning-copies]."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition
from controlplane.apimachinery.names import HELD_ANNOTATION
from controlplane.clusters.questions import Discard
from controlplane.controllers.execution import Execution
from controlplane.engine import run
from controlplane.kinds.cluster import PULL, PUSH
from tests.agent.site import Site
from tests.agent.test_member_faults import config_map, held
from tests.builders.objects import policy
from tests.builders.templates import deployment
from tests.core.propagation_story import MEMBERS, Story


class Returning(Story):
    """A workload whose copy is leaving member1, a Pull cluster, for member2."""

    def __init__(self) -> None:
        super().__init__()
        self.controllers = (*self.controllers, Execution())  # type: ignore[assignment]
        self.store = type(self.store)(controllers=self.controllers, clock=lambda: self.now)
        run.mark_due_at_start(self.controllers, self.store)
        self.web = deployment()
        self.add(MEMBERS[0].with_spec(sync_mode=PULL), *MEMBERS[1:], policy("all"), self.web)
        self.place(self.web, member1=3)
        self.place(self.web, member2=3)
        binding = self.binding(self.web)
        assert binding is not None
        self.edit(binding.with_status(scheduler_observed_generation=binding.metadata.generation))

    def member1(self, ready: str) -> None:
        """Let member1 become Ready or not, some time later."""
        self.now += timedelta(seconds=60)
        member = self.store.objects[MEMBERS[0].ref]
        conditions = (Condition("Ready", ready, last_transition_time=self.now),)
        self.edit(member.with_status(conditions=conditions))  # type: ignore[attr-defined]  # a Cluster

    @property
    def is_held(self) -> bool:
        """Whether the agent of member1 is to wait with the removal."""
        going = self.works()["member1"]
        assert going.metadata.deletion_timestamp is not None
        return HELD_ANNOTATION in going.metadata.annotations


def test_a_removal_is_held_while_the_cluster_is_away_and_until_the_other_copy_is_healthy() -> None:
    story = Returning()
    assert not story.is_held

    story.member1("Unknown")
    assert story.is_held
    story.report("member2", "Unhealthy")
    story.member1("True")
    assert story.is_held
    story.report("member2", "Healthy", readyReplicas=3)
    story.later(seconds=60)

    assert not story.is_held


def test_a_copy_that_is_wanted_again_when_its_cluster_is_back_is_not_removed() -> None:
    story = Returning()
    story.member1("Unknown")

    story.place(story.web, member1=3)
    assert story.is_held
    story.member1("True")

    again = story.works()["member1"]
    assert again.metadata.deletion_timestamp is None, "the next Work takes the object over"
    assert HELD_ANNOTATION not in again.metadata.annotations


def test_a_held_removal_keeps_no_cluster_from_being_unjoined() -> None:
    story = Returning()
    story.member1("Unknown")
    member = story.store.objects[MEMBERS[0].ref]

    story.edit(member.with_meta(deletion_timestamp=story.now, finalizers=("karmada.io/cluster-controller",)))

    assert "member1" not in story.works()


def test_a_held_removal_is_carried_out_when_its_cluster_is_called_directly() -> None:
    """No agent waits there any more. It may be the reason why the cluster is joined in another way."""
    story = Returning()
    story.member1("Unknown")
    assert story.is_held
    member = story.store.objects[MEMBERS[0].ref]
    story.edit(member.with_spec(sync_mode=PUSH, api_endpoint="https://member1"))  # type: ignore[attr-defined]
    story.report("member2", "Healthy", readyReplicas=3)
    story.member1("True")

    execution = Execution()
    (snapshot,) = execution.load(story.store, [story.works()["member1"].ref])

    assert snapshot is not None
    assert isinstance(execution.question(snapshot, story.settings, now=story.now), Discard)


def test_an_agent_carries_out_a_removal_as_soon_as_it_is_not_held_any_more(tmp_path: Path) -> None:
    async def story() -> None:
        await site.join("member", mode="Pull")
        ref = await site.want("member", config_map("web", "1"), **{HELD_ANNOTATION: "true"})
        other = await site.want("member", config_map("other", "1"))
        await site.until(lambda: site.said(ref).status == site.said(other).status == "True")

        for going in (ref, other):
            await site.remove(going)
        await site.until(lambda: site.get(other) is None)
        assert await held(site, "web") == "1"

        work = site.get(ref)
        await site.core.in_thread(site.store.mirror, replace(work, metadata=replace(work.metadata, annotations={})))
        await site.until(lambda: site.get(ref) is None)
        assert await held(site, "web") is None

    with Site(tmp_path) as site:
        site.run(story())
