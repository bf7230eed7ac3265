"""Pull members: what their agents send, when it counts as received, and what silence leads to [heartbeat-leases]."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controlplane.admission.admit import admit_create, admit_update
from controlplane.apimachinery.meta import Condition, Ref, condition
from controlplane.clusters.fence import FenceRequest, fence_of, fenced
from controlplane.clusters.heartbeats import LISTENING, received
from controlplane.controllers.collection import Collection, CollectionSnapshot
from controlplane.controllers.execution import Execution, ExecutionSnapshot
from controlplane.controllers.probes import Probes, ProbeSnapshot
from controlplane.engine.decision import Decision, Delete
from controlplane.engine.state import Actor
from controlplane.kind import KINDS, to_wire
from controlplane.kinds import CLUSTER, LEASE
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.taint_policy import MatchCondition, TaintToAdd
from controlplane.kinds.template import Template
from controlplane.settings import Settings
from tests.builders import objects
from tests.builders.objects import START, cluster, taint_policy
from tests.core.fleet_story import FAILOVER, Story

AHEAD = datetime(2099, 1, 1, tzinfo=UTC)


class Agent:
    """An agent whose clock is `skew` seconds off, and the control plane it reports to."""

    def __init__(self, *, skew: float = 0, ready: str = "", created: datetime = START, rest: Any = ()) -> None:
        joined = pull(cluster("member1", ready=ready, established=False)).with_meta(creation_timestamp=created)
        self.story = Story(joined, cluster("other"), *rest, settings=FAILOVER)
        self.skew = timedelta(seconds=skew)

    @property
    def lease(self) -> Template | None:
        ref = Ref(LEASE, "karmada-cluster", "member1")
        found: Template | None = self.story.store.get([ref]).get(ref)
        return found

    def renew(self, **annotations: str) -> None:
        """Renew the Lease, as the API writes it."""
        at = (self.story.now + self.skew).isoformat(timespec="microseconds")
        self.write({"renewTime": at, "holderIdentity": "member1"}, **annotations)

    def write(self, spec: dict[str, Any], **annotations: str) -> None:
        story, kind, held = self.story, KINDS[LEASE], self.lease
        named = {"failover.lifeboat.io/" + key.replace("_", "-"): text for key, text in annotations.items()}
        doc = {"metadata": {"name": "member1", "namespace": "karmada-cluster", "annotations": named}, "spec": spec}
        if held is None:
            made = admit_create(kind, doc, namespace="karmada-cluster", settings=FAILOVER, now=story.now, uid="lease")
            story.store.create(made.object)
        else:
            story.store.put(admit_update(kind, doc, held, settings=FAILOVER, now=story.now).object, held)
        story.work()

    def say(self, status: str, reason: str = "ClusterReady") -> None:
        """Write Ready into the Cluster's status, as the API does, with a time of the agent's own."""
        story, live = self.story, self.story.cluster("member1")
        reported = Condition("Ready", status, reason, "the agent reports it", story.now + self.skew)
        rest = tuple(one for one in live.status.conditions if one.type != "Ready")
        doc = msgspec.to_builtins(to_wire(live.with_status(conditions=(*rest, reported))))
        changed = admit_update(KINDS[CLUSTER], doc, live, subresource="status", settings=FAILOVER, now=story.now)
        story.store.put(changed.object, live)
        story.work()

    def pass_seconds(self, seconds: int, *, renewing: bool) -> None:
        for _ in range(0, seconds, 10):
            self.story.pass_seconds(10)
            if renewing:
                self.renew()

    def listen(self, seconds: int, *, renewing: bool) -> None:
        """Let time pass with an API process that agents can report to."""
        for second in range(0, seconds, 2):
            self.story.store.take_lease(LISTENING, 0, holder="api", seconds=5)
            self.story.pass_seconds(2)
            if renewing and second % 10 == 8:
                self.renew()

    @property
    def ready(self) -> Condition:
        found = condition(self.story.cluster("member1").status.conditions, "Ready")
        return found or Condition("Ready", "")


def pull(member: Cluster) -> Cluster:
    return replace(member, spec=replace(member.spec, sync_mode="Pull", api_endpoint="https://member1.example"))


def test_an_agent_that_renews_its_lease_makes_its_cluster_ready() -> None:
    agent = Agent()

    agent.renew()

    assert (agent.ready.status, agent.ready.reason) == ("True", "ClusterHeartbeat")


@pytest.mark.parametrize("renewals", [0, 2])
def test_a_silent_agent_is_noticed_also_after_the_clock_of_the_database_was_put_back(renewals: int) -> None:
    """Heartbeats from before are in the future then. One bug: they hid the silence until that hour was over."""
    agent = Agent()
    agent.listen(60, renewing=True)
    assert agent.ready.status == "True"

    agent.story.now -= timedelta(hours=1)

    for number in range(renewals + 2 * 40 // 10):
        agent.story.store.mark("cluster_status", [Ref(CLUSTER, "", "member1")])
        agent.listen(10, renewing=number < renewals)
        assert number > renewals + 2 or agent.ready.status == "True"
    assert (agent.ready.status, agent.ready.reason) == ("Unknown", "ClusterStatusUnknown")


@pytest.mark.parametrize("skew", [0, 90, -90, 3600, -3600])
def test_only_the_moment_of_receipt_counts(skew: float) -> None:
    agent = Agent(skew=skew)
    agent.renew()
    agent.pass_seconds(50, renewing=True)

    agent.story.pass_seconds(39.999)
    assert agent.ready.status == "True"

    agent.story.pass_seconds(0.001)
    assert (agent.ready.status, agent.ready.reason) == ("Unknown", "ClusterStatusUnknown")


@pytest.mark.parametrize("skew", [90, -3600])
def test_a_condition_changed_when_its_report_arrived(skew: float) -> None:
    agent = Agent(skew=skew)
    agent.story.pass_seconds(7)

    agent.say("False", "ClusterNotReady")

    assert agent.ready.last_transition_time == START + timedelta(seconds=7)


def test_no_agent_sets_the_arrival_of_its_heartbeat() -> None:
    agent = Agent()
    agent.renew(received_at=AHEAD.isoformat())
    assert received(agent.lease) == START

    agent.story.pass_seconds(5)
    held = agent.lease
    assert held is not None
    agent.write(held.spec, received_at=AHEAD.isoformat())

    assert received(agent.lease) == START  # it renewed nothing


def test_a_lease_elsewhere_is_no_heartbeat() -> None:
    doc = {"metadata": {"name": "member1", "namespace": "default"}, "spec": {"renewTime": AHEAD.isoformat()}}

    made = admit_create(KINDS[LEASE], doc, namespace="default", settings=Settings(), now=START, uid="lease")

    assert received(made.object) is None


def test_an_agent_that_never_reports_is_unknown_after_the_startup_grace_period() -> None:
    agent = Agent()

    agent.story.pass_seconds(59)
    assert agent.ready.status == ""

    agent.story.pass_seconds(1)
    assert (agent.ready.status, agent.ready.reason) == ("Unknown", "ClusterStatusNeverUpdated")


@pytest.mark.parametrize("away", [30, 60, 3600])
def test_silence_while_no_api_ran_makes_no_cluster_unready(away: int) -> None:
    agent = Agent()
    agent.say("True")
    agent.listen(58, renewing=True)

    agent.story.pass_seconds(away)
    agent.listen(8, renewing=False)  # agents are not back at once either
    assert (agent.ready.status, agent.story.cluster("member1").spec.taints) == ("True", ())

    agent.listen(60, renewing=True)
    assert agent.ready.status == "True"
    agent.listen(50, renewing=False)
    assert (agent.ready.status, agent.ready.reason) == ("Unknown", "ClusterStatusUnknown")


def test_the_agents_own_word_stands_while_its_heartbeats_arrive() -> None:
    agent = Agent()
    agent.renew()

    agent.say("False", "ClusterNotReady")
    agent.pass_seconds(120, renewing=True)

    assert (agent.ready.status, agent.ready.reason) == ("False", "ClusterNotReady")

    agent.say("True")
    agent.pass_seconds(30, renewing=True)

    assert (agent.ready.status, agent.ready.reason) == ("True", "ClusterReady")


def test_an_agent_whose_cluster_was_never_ready_is_heard_by_its_status_alone() -> None:
    agent = Agent(created=START - timedelta(hours=1))
    assert agent.ready.status == "Unknown"

    agent.say("False", "ClusterNotReady")
    agent.story.pass_seconds(39)
    assert (agent.ready.status, agent.ready.reason) == ("False", "ClusterNotReady")

    agent.story.pass_seconds(1)
    assert agent.ready.status == "Unknown"


def test_heartbeats_after_a_silence_stand_the_success_threshold_before_the_last_word_counts_again() -> None:
    agent = Agent()
    agent.say("True")
    agent.renew()
    agent.story.pass_seconds(100)
    assert agent.ready.status == "Unknown"

    agent.renew()
    agent.pass_seconds(20, renewing=True)
    assert agent.ready.status == "Unknown"

    agent.pass_seconds(10, renewing=True)
    assert (agent.ready.status, agent.ready.reason) == ("True", "ClusterHeartbeat")
    assert "ClusterReady" in agent.ready.message


def test_a_cluster_that_was_not_ready_before_a_silence_is_not_ready_after_it() -> None:
    agent = Agent()
    agent.renew()
    agent.say("False", "ClusterNotReady")
    agent.renew()
    agent.story.pass_seconds(60)
    assert agent.ready.status == "Unknown"

    agent.renew()
    agent.pass_seconds(60, renewing=True)

    assert agent.ready.status == "False"


def test_time_in_which_the_control_plane_was_away_is_no_silence() -> None:
    agent = Agent()
    agent.renew()
    agent.pass_seconds(30, renewing=True)

    agent.story.now += timedelta(minutes=10)  # nothing runs here, the API included
    agent.story.work()
    assert agent.ready.status == "True"

    agent.story.pass_seconds(10)
    agent.renew()
    agent.pass_seconds(60, renewing=True)
    assert agent.ready.status == "True"


def test_silence_that_began_unobserved_is_counted_from_when_it_is_observed() -> None:
    agent = Agent()
    agent.renew()
    agent.pass_seconds(30, renewing=True)
    agent.story.now += timedelta(minutes=10)
    agent.story.work()

    agent.story.pass_seconds(40)

    assert agent.ready.status == "Unknown"


def test_policies_decide_what_becomes_of_a_cluster_whose_agent_is_silent() -> None:
    away = taint_policy(
        match_conditions=(MatchCondition("Ready", "In", ("Unknown",)),),
        taints_to_add=(TaintToAdd("silent", "NoExecute", add_on_match_seconds=120),),
    )
    agent = Agent(rest=[away])
    agent.renew()
    agent.story.pass_seconds(40 + 119)

    def taints() -> set[tuple[str, str]]:
        return {(one.key, one.effect) for one in agent.story.cluster("member1").spec.taints}

    assert taints() == {("cluster.karmada.io/unreachable", "NoSchedule")}

    agent.story.pass_seconds(1)
    assert ("silent", "NoExecute") in taints()


def test_the_control_plane_asks_a_pull_member_nothing() -> None:
    member = pull(cluster("member1"))
    work = objects.work(finalizers=("karmada.io/x",))

    assert Probes().question(ProbeSnapshot(member, None, None), FAILOVER, now=START) is None
    assert Collection().question(CollectionSnapshot(member, None), FAILOVER, now=START) is None
    assert Execution().question(ExecutionSnapshot(work, member), FAILOVER, now=START) is None
    going = work.with_meta(deletion_timestamp=START)
    assert Execution().question(ExecutionSnapshot(going, member), FAILOVER, now=START) is None


def test_the_next_heartbeat_ends_a_fence() -> None:
    agent = Agent()
    agent.renew()
    agent.pass_seconds(60, renewing=False)
    assert agent.ready.status == "Unknown"
    lost = agent.story.cluster("member1")
    agent.story.store.put(fenced(lost, FenceRequest("no power", 600), by="ana", now=agent.story.now), lost)
    agent.story.pass_seconds(10)
    assert fence_of(agent.story.cluster("member1")) is not None

    agent.renew()

    reported = condition(agent.story.cluster("member1").status.conditions, "Fenced")
    assert reported is not None
    assert (reported.status, reported.reason) == ("False", "ClusterAnswered")
    assert fence_of(agent.story.cluster("member1")) is None


@pytest.mark.parametrize("later", [1, 60])
def test_heartbeats_for_an_earlier_cluster_of_the_name_are_none_of_the_present_one(later: int) -> None:
    """What is known of a deleted cluster may be removed only after the next one has joined, and its agent may have
    renewed the Lease at the last moment."""
    agent = Agent()
    agent.renew()
    agent.story.pass_seconds(later)
    old = agent.story.cluster("member1")
    agent.story.store.apply([(None, Decision(changes=(Delete(old),)))], by=Actor("test"))
    fresh = pull(cluster("member1", ready="", established=False)).with_meta(creation_timestamp=agent.story.now, uid="2")
    agent.story.store.create(fresh)
    agent.story.work()

    assert agent.ready.status == ""
    assert condition(agent.story.cluster("member1").status.conditions, "Established") is None
    agent.story.pass_seconds(59)
    assert agent.ready.status == ""
    agent.story.pass_seconds(1)
    assert (agent.ready.status, agent.ready.reason) == ("Unknown", "ClusterStatusNeverUpdated")
    agent.pass_seconds(50, renewing=True)
    assert agent.ready.status == "True"
