"""A Pull cluster that was away keeps a copy, or replicas, that were to go before, until the others are healthy
[returning-copies]."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, Ref
from controlplane.apimachinery.names import HELD_ANNOTATION, REPLICAS_HELD_ANNOTATION
from controlplane.clusters.questions import Discard
from controlplane.controllers.execution import Execution
from controlplane.engine import run
from controlplane.engine.state import Actor
from controlplane.kinds import CLUSTER
from controlplane.kinds.binding import TargetCluster
from controlplane.kinds.cluster import PULL, PUSH
from controlplane.kinds.policy import Placement, SuspendClusters, Suspension
from controlplane.kinds.template import Template
from controlplane.kinds.work import REPLICAS_KEPT
from controlplane.propagation import works
from tests.agent.site import Site
from tests.agent.test_member_faults import config_map, held
from tests.builders.objects import policy
from tests.builders.templates import deployment
from tests.core.propagation_story import DIVIDED_PLACEMENT, MEMBERS, Story


class OfAgent(Story):
    """A workload on member1, which is a Pull cluster, and on others."""

    def __init__(self, web: Template, **placement: Placement) -> None:
        super().__init__()
        self.controllers = (*self.controllers, Execution())  # type: ignore[assignment]
        self.store = type(self.store)(controllers=self.controllers, clock=lambda: self.now)
        run.mark_due_at_start(self.controllers, self.store)
        self.web = web
        self.add(MEMBERS[0].with_spec(sync_mode=PULL), *MEMBERS[1:], policy("all", **placement), web)

    def move(self, **replicas: int) -> None:
        """Place the workload, as the scheduler does."""
        self.place(self.web, **replicas)
        binding = self.binding(self.web)
        assert binding is not None
        self.edit(binding.with_status(scheduler_observed_generation=binding.metadata.generation))

    def suspend(self, *clusters: str) -> None:
        """Suspend dispatching to these clusters and to no other."""
        live = self.store.objects[policy("all").ref]
        asked = Suspension(dispatching_on_clusters=SuspendClusters(clusters)) if clusters else None
        self.edit(live.with_spec(suspension=asked))  # type: ignore[attr-defined]  # a policy

    def member1(self, ready: str) -> None:
        """Let member1 become Ready or not, some time later."""
        self.now += timedelta(seconds=60)
        member = self.store.objects[MEMBERS[0].ref]
        conditions = (Condition("Ready", ready, last_transition_time=self.now),)
        self.edit(member.with_status(conditions=conditions))  # type: ignore[attr-defined]  # a Cluster


class Returning(OfAgent):
    """A workload whose copy is leaving member1 for member2."""

    def __init__(self) -> None:
        super().__init__(deployment())
        self.place(self.web, member1=3)
        self.move(member2=3)

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

    assert story.is_held
    story.place(story.web, member1=3)
    assert story.works()["member1"].metadata.deletion_timestamp is None, "it does not wait until the cluster is back"
    story.member1("True")

    again = story.works()["member1"]
    assert again.metadata.deletion_timestamp is None, "the next Work takes the object over"
    assert HELD_ANNOTATION not in again.metadata.annotations


def test_a_copy_is_not_left_without_a_work_because_it_was_wanted_again_for_a_moment() -> None:
    """It is evicted again right then, so no next Work takes it over, and nothing would ever remove it."""
    story, execution = Returning(), Execution()
    before: Any = story.binding(story.web)
    again = before.with_spec(clusters=(TargetCluster("member1", 3),))
    assert not story.store.put(again, before).lost
    (snapshot,) = execution.load(story.store, [story.works()["member1"].ref])
    assert snapshot is not None
    decision = execution.decide(snapshot, story.settings, now=story.now)
    assert decision.reason == "WorkWantedAgain"

    evicted: Any = story.binding(story.web)
    assert not story.store.put(evicted.with_spec(clusters=before.spec.clusters), evicted).lost
    story.store.apply([(None, decision)], by=Actor(execution.name))
    story.settle()

    assert story.works()["member1"].metadata.deletion_timestamp is not None, "its agent still removes the object"


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


@pytest.mark.parametrize(
    ("ready", "passed", "wait"),
    [("True", 0, 5), ("True", 300, 30), ("True", 86_400, 60), ("Unknown", 0, None), ("Unknown", 86_400, None)],
)
def test_a_removal_that_an_agent_does_not_carry_out_is_looked_at_more_and_more_rarely_and_never_while_it_is_away(
    ready: str, passed: float, wait: float | None
) -> None:
    """There may be thousands of them on an edge cluster that is away for days."""
    story = OfAgent(deployment())
    story.place(story.web, member1=3)
    story.delete(story.web)
    asked_at = story.now
    story.member1(ready)
    story.now = asked_at + timedelta(seconds=passed)
    execution = Execution()
    (snapshot,) = execution.load(story.store, [story.works()["member1"].ref])
    assert snapshot is not None

    decision = execution.decide(snapshot, story.settings, now=story.now)

    assert decision.changes == ()
    assert decision.wake_at == (None if wait is None else story.now + timedelta(seconds=wait))


class Shrinking(OfAgent):
    """A divided workload of which two replicas move from member1 to member2."""

    def __init__(self, *, total: int = 4, reported: int = 3) -> None:
        super().__init__(deployment(replicas=4), placement=DIVIDED_PLACEMENT)
        self.place(self.web, member1=3, member2=1)
        self.report("member1", readyReplicas=reported)
        self.report("member2", readyReplicas=1)
        if total != 4:
            live = self.template(self.web)
            self.edit(live.with_content({**live.content, "spec": {**live.spec, "replicas": total}}))
        self.move(member1=1, member2=total - 1)

    @property
    def held(self) -> str | None:
        """How many replicas the agent of member1 is to keep there. None: as many as the Work asks for."""
        work = self.works()["member1"]
        assert works.requested_replicas(work) == 1
        return work.metadata.annotations.get(REPLICAS_HELD_ANNOTATION)


@pytest.mark.parametrize(("passed", "wait"), [(0, 5), (86_400, 60)])
def test_replicas_that_an_agent_does_not_take_are_looked_at_more_and_more_rarely(passed: float, wait: float) -> None:
    story = Shrinking()
    story.report("member2", readyReplicas=3)
    story.now += timedelta(seconds=passed)
    execution = Execution()
    (snapshot,) = execution.load(story.store, [story.works()["member1"].ref])
    assert snapshot is not None

    decision = execution.decide(snapshot, story.settings, now=story.now)

    assert (decision.changes, decision.wake_at) == ((), story.now + timedelta(seconds=wait))


@pytest.mark.parametrize("ready", ["Unknown", "True"])
def test_replicas_that_an_agent_keeps_are_looked_at_more_and_more_rarely(ready: str) -> None:
    """They were looked at every 2 s until the others were healthy, also while the cluster was away for days."""
    story = Shrinking()
    story.member1("Unknown")
    story.report("member2", "Unhealthy", readyReplicas=1)
    story.member1(ready)
    assert story.held == "3"
    story.now += timedelta(seconds=3600)
    execution = Execution()
    (snapshot,) = execution.load(story.store, [story.works()["member1"].ref])
    assert snapshot is not None

    decision = execution.decide(snapshot, story.settings, now=story.now)

    assert (decision.changes, decision.wake_at) == ((), story.now + timedelta(seconds=60))


def test_replicas_stay_while_their_cluster_is_away_and_until_the_others_are_healthy() -> None:
    story = Shrinking()
    assert story.held is None

    story.member1("Unknown")
    assert story.held == "3"
    story.report("member2", "Unhealthy", readyReplicas=1)
    story.member1("True")
    assert story.held == "3"
    story.report("member2", "Healthy", readyReplicas=3)
    story.later(seconds=60)

    assert story.held is None


@pytest.mark.parametrize("seconds", [0, 100])
def test_a_shrinking_that_is_decided_while_the_cluster_is_away_is_held_as_well(seconds: int) -> None:
    """At once: the agent may come back in the next second."""
    story = Shrinking()
    story.place(story.web, member1=3, member2=1)
    story.member1("Unknown")
    story.later(seconds=seconds)

    story.place(story.web, member1=1, member2=3)

    assert story.held == "3"


def test_a_shrinking_is_held_although_dispatching_is_suspended_while_the_cluster_is_away() -> None:
    """The agent may read the Work as soon as dispatching goes on, before anything could be written to it."""
    story = Shrinking()
    story.place(story.web, member1=3, member2=1)
    story.suspend("member1")
    story.member1("Unknown")

    story.place(story.web, member1=1, member2=3)
    assert story.held == "3"
    story.report("member2", "Unhealthy", readyReplicas=1)
    story.member1("True")
    assert story.held == "3"

    story.suspend()
    assert story.held == "3"
    story.move(member1=1, member2=3)
    story.report("member2", "Healthy", readyReplicas=3)
    story.later(seconds=60)
    assert story.held is None


@pytest.mark.parametrize("how", ["scaled-down", "already-done"])
def test_replicas_that_are_gone_or_not_requested_are_not_held(how: str) -> None:
    story = Shrinking(total=2) if how == "scaled-down" else Shrinking(reported=1)

    story.member1("Unknown")

    assert story.held == ("2" if how == "scaled-down" else None), "never more than the workload asks for"


def test_a_shrinking_that_the_agent_has_done_is_not_undone() -> None:
    story = Shrinking()
    work = story.works()["member1"]
    done = Condition("Applied", "True", "AppliedSuccessful", observed_generation=work.metadata.generation)
    story.edit(work.with_status(conditions=(done,)))

    story.member1("Unknown")

    assert story.held is None


def test_a_cluster_that_has_no_agent_any_more_keeps_no_replicas_because_of_it() -> None:
    story = Shrinking()
    story.member1("Unknown")
    assert story.held == "3"
    member = story.store.objects[MEMBERS[0].ref]
    story.edit(member.with_spec(sync_mode=PUSH, api_endpoint="https://member1"))  # type: ignore[attr-defined]  # a Cluster
    story.member1("True")

    def keeps() -> int:
        (snapshot,) = Execution().load(story.store, [story.works()["member1"].ref])
        assert snapshot is not None
        return snapshot.keeps

    assert keeps() == 3
    story.report("member2", "Healthy", readyReplicas=3)
    assert keeps() == 0
    story.report("member1", readyReplicas=1)
    assert keeps() == 0


def test_an_agent_keeps_replicas_until_they_are_not_held_any_more(tmp_path: Path) -> None:
    def web(replicas: int) -> dict[str, Any]:
        containers = [{"name": "web", "image": "web"}]
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": spec,
        }

    async def replicas(site: Site) -> Any:
        path = "/apis/apps/v1/namespaces/default/deployments/web"
        return (await site.ask(site.fleet["real"], "GET", path))["spec"]["replicas"]

    async def story() -> None:
        await site.join("member", mode="Pull")
        ref = await site.want("member", web(3))
        await site.until(lambda: site.said(ref).status == "True")

        held_back: dict[str, Any] = {REPLICAS_HELD_ANNOTATION: "3"}
        await site.want("member", web(1), generation=2, **held_back)
        await site.until(lambda: site.said(ref).reason == REPLICAS_KEPT)
        assert await replicas(site) == 3

        await site.want("member", web(1), generation=2)
        await site.until(lambda: site.said(ref).reason == "AppliedSuccessful")
        assert await replicas(site) == 1

    with Site(tmp_path) as site:
        site.run(story())


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


def test_an_agent_that_does_not_know_its_cluster_yet_frees_no_work_before_its_object_is_removed(tmp_path: Path) -> None:
    """An agent with an empty folder reads its Works and its Cluster at the same time."""

    async def story() -> None:
        await site.join("member", mode="Pull")
        ref, kept = [await site.want("member", config_map(name, "1")) for name in ("web", "kept")]
        await site.until(lambda: site.said(ref).status == site.said(kept).status == "True")
        cluster = site.get(Ref(CLUSTER, "", "member"))

        await site.core.in_thread(site.store.forget, cluster.ref)
        await site.remove(ref)
        await site.core.in_thread(site.store.mark, Execution.name, [ref, kept])
        await site.until(lambda: not site.store.due[Execution.name])
        assert await held(site, "web") == "1"
        assert site.get(ref) is not None, "only the agent removes its object"

        await site.core.in_thread(site.store.mirror, cluster)
        await site.until(lambda: site.get(ref) is None)
        assert await held(site, "web") is None
        assert await held(site, "kept") == "1"

    with Site(tmp_path) as site:
        site.run(story())
