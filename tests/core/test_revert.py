"""What people place by hand is honoured; a failover can be taken back [edits-by-hand]."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from controlplane.admission.admit import admit_update
from controlplane.apimachinery.meta import Condition
from controlplane.engine.state import Change
from controlplane.eviction import revert
from controlplane.insight import record
from controlplane.kind import KINDS, to_wire
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.binding import AggregatedStatusItem, Binding, TargetCluster
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.policy import ClusterFailoverBehavior, Placement, StatePreservation, StatePreservationRule
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import by_weight, duplicated
from tests.core.fleet_story import FAILOVER, Story

STATEFUL = msgspec.structs.replace(
    FAILOVER, feature_gates={**FAILOVER.feature_gates, "StatefulFailoverInjection": True}
)
MEMBERS = tuple(cluster(f"member{number}") for number in range(1, 6))


def place_by_hand(story: Story, name: str, **replicas: int) -> None:
    """Edit a binding as kubectl does: through admission."""
    old = story.binding(name)
    doc = msgspec.to_builtins(to_wire(old))
    doc["spec"]["clusters"] = [{"name": one, "replicas": count} for one, count in replicas.items()]
    new = admit_update(KINDS[RESOURCE_BINDING], doc, old, settings=story.settings, now=story.now).object
    story.store.put(new, old)
    story.work()


@pytest.mark.parametrize(
    ("placement", "on", "by_hand"),
    [
        (by_weight(member1=1, member2=1), {"member1": 1, "member2": 1}, {"member1": 2}),
        (duplicated("member1", "member2", "member3"), {"member1": 2, "member2": 2, "member3": 2}, {"member2": 2}),
    ],
)
def test_a_placement_written_by_hand_stays(placement: Placement, on: dict[str, int], by_hand: dict[str, int]) -> None:
    story = Story(*MEMBERS, binding("web", placement, on=on))
    story.pass_seconds(5)

    place_by_hand(story, "web", **by_hand)
    story.pass_seconds(60)
    story.ready("member5", "False")
    story.pass_seconds(60)

    assert story.placed("web") == by_hand


def test_it_stays_until_replicas_change() -> None:
    story = Story(*MEMBERS, binding("web", duplicated("member1", "member2"), on={"member1": 2, "member2": 2}))
    place_by_hand(story, "web", member2=2)
    old = story.binding("web")

    story.store.put(old.with_spec(replicas=3), old)
    story.work()

    assert story.placed("web") == {"member1": 3, "member2": 3}


def test_a_copy_placed_by_hand_still_leaves_a_cluster_that_fails() -> None:
    spread = duplicated("member1", "member2", "member3", least=1, most=1)
    story = Story(*MEMBERS, binding("web", spread, on={"member1": 2}))
    place_by_hand(story, "web", member3=2)

    story.taint("member3", no_execute())
    story.pass_seconds(10)

    assert set(story.placed("web")) <= {"member1", "member2"}
    assert story.placed("web")


def failed_over() -> tuple[Story, Binding]:
    """A workload that has left member1; return what it was before as well."""
    story = Story(*MEMBERS, binding("web", by_weight(member1=1, member2=1), on={"member1": 1, "member2": 1}))
    story.taint("member1", no_execute())
    story.pass_seconds(30)
    assert story.placed("web") == {"member2": 2}
    before = record.binding_before_failover([one for one in story.store.log if one.ref == story.binding("web").ref])
    assert before is not None
    return story, before


def test_a_failover_is_taken_back_once_its_cause_is_gone() -> None:
    story, before = failed_over()
    clusters = {one.metadata.name: story.cluster(one.metadata.name) for one in MEMBERS}
    assert list(revert.revert_obstacles(story.binding("web"), before, clusters, story.settings)) == [
        "cluster member1 has the taint gone:NoExecute, which would evict it again"
    ]

    story.untaint("member1")
    clusters["member1"] = story.cluster("member1")
    assert list(revert.revert_obstacles(story.binding("web"), before, clusters, story.settings)) == []
    old = story.binding("web")
    story.store.put(revert.reverted_binding(old, before, story.settings, by="ana", now=story.now), old)
    story.work()
    story.pass_seconds(60)

    assert story.placed("web") == {"member1": 1, "member2": 1}


def test_the_new_copies_leave_gracefully_when_a_failover_is_taken_back() -> None:
    old = binding("web", duplicated("member1", "member2", least=1, most=1), on={"member2": 2})
    before = old.with_spec(clusters=(TargetCluster("member1", 2),))

    new = revert.reverted_binding(old, before, Story().settings, by="ana", now=START + timedelta(hours=1))

    (task,) = new.spec.graceful_eviction_tasks
    assert (task.from_cluster, task.purge_mode, task.reason) == ("member2", "Gracefully", "Reverted")
    assert [target.name for target in new.spec.clusters] == ["member1"]


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (cluster("member1", ready="False"), "not Ready"),
        (cluster("member1", taints=[Taint("a", "NoExecute", time_added=START)]), "taint a:NoExecute"),
        (None, "is gone"),
    ],
)
def test_nothing_goes_back_to_where_it_would_be_driven_away_again(now: object, why: str) -> None:
    before = binding("web", duplicated("member1"), on={"member1": 2})
    clusters = {} if now is None else {"member1": now}

    (said,) = revert.revert_obstacles(before, before, clusters, FAILOVER)  # type: ignore[arg-type]

    assert why in said


def log_of(story: Story, name: str) -> list[Change]:
    return [one for one in story.store.log if one.ref == story.binding(name).ref]


def revert_now(story: Story, name: str) -> None:
    before = record.binding_before_failover(log_of(story, name))
    assert before is not None
    old = story.binding(name)
    story.store.put(revert.reverted_binding(old, before, story.settings, by="ana", now=story.now), old)
    story.work()
    story.pass_seconds(60)


def test_a_second_revert_stays_where_it_was_before_the_failover() -> None:
    story, _before = failed_over()
    story.untaint("member1")

    revert_now(story, "web")
    lines = len(log_of(story, "web"))
    revert_now(story, "web")

    assert story.placed("web") == {"member1": 1, "member2": 1}
    assert len(log_of(story, "web")) == lines


def test_a_workload_scaled_since_is_not_taken_back_to_fewer_replicas() -> None:
    story, before = failed_over()
    story.untaint("member1")
    old = story.binding("web")
    story.store.put(old.with_spec(replicas=5), old)
    story.work()
    clusters = {one.metadata.name: story.cluster(one.metadata.name) for one in MEMBERS}

    (said,) = revert.revert_obstacles(story.binding("web"), before, clusters, story.settings)

    assert "requests 5 replicas, not those it had before (member1:1, member2:1); use a Failback" in said


def test_a_whole_copy_is_taken_back_with_the_replicas_of_today() -> None:
    old = binding("web", duplicated("member1", "member2", least=1, most=1), on={"member2": 4})
    before = old.with_spec(clusters=(TargetCluster("member1", 2),))
    now = old.with_spec(replicas=4)

    assert list(revert.revert_obstacles(now, before, {"member1": cluster("member1")}, FAILOVER)) == []
    new = revert.reverted_binding(now, before, Story().settings, by="ana", now=START)

    assert [(one.name, one.replicas) for one in new.spec.clusters] == [("member1", 4)]


def test_nothing_goes_back_to_a_cluster_that_does_not_let_us_in() -> None:
    shut = cluster("member1")
    shut = shut.with_status(conditions=(*shut.status.conditions, Condition("AccessLost", "True", "AccessRefused")))
    before = binding("web", duplicated("member1"), on={"member1": 2})

    (said,) = revert.revert_obstacles(before, before, {"member1": shut}, FAILOVER)

    assert "access to cluster member1 is lost" in said


def carrying(status: dict[str, object]) -> tuple[Binding, Binding]:
    """A binding that went to member2, where it reports a status, and takes its job along; and as it was before."""
    rule = StatePreservationRule("job", "{ .job }")
    behaviour = ClusterFailoverBehavior(purge_mode="Directly", state_preservation=StatePreservation((rule,)))
    old = binding("web", duplicated("member1", "member2", least=1, most=1), on={"member2": 2}, failover=behaviour)
    reported = AggregatedStatusItem("member2", status=status, applied=True, health="Healthy")
    before = old.with_spec(clusters=(TargetCluster("member1", 2),))
    return old.with_status(aggregated_status=(reported,)), before


def test_state_goes_back_with_what_is_taken_back() -> None:
    old, before = carrying({"job": "42"})

    new = revert.reverted_binding(old, before, STATEFUL, by="ana", now=START)

    (task,) = new.spec.graceful_eviction_tasks
    assert (task.from_cluster, task.purge_mode, task.preserved_label_state) == ("member2", "Directly", {"job": "42"})


def test_what_cannot_take_its_state_along_is_not_taken_back_unless_it_may_go_without() -> None:
    old, before = carrying({})
    clusters = {"member1": cluster("member1")}

    (said,) = revert.revert_obstacles(old, before, clusters, STATEFUL)

    assert "the state to carry over cannot be read from cluster member2: job: " in said
    proceeding = msgspec.structs.replace(STATEFUL, state_preservation_on_missing="Proceed")
    assert list(revert.revert_obstacles(old, before, clusters, proceeding)) == []


@pytest.mark.parametrize(("replicas", "obstacles"), [(1, 1), (2, 0), (3, 1)], ids=["fewer", "as many", "more"])
def test_a_divided_workload_is_taken_back_only_with_the_replicas_it_had(replicas: int, obstacles: int) -> None:
    before = binding("web", by_weight(member1=1, member2=1), on={"member1": 1, "member2": 1})
    moved = before.with_spec(replicas=replicas, clusters=(TargetCluster("member2", replicas),))
    clusters = {one.metadata.name: one for one in MEMBERS}

    assert len(list(revert.revert_obstacles(moved, before, clusters, FAILOVER))) == obstacles


@pytest.mark.parametrize(
    ("member1", "obstacles"),
    [
        (cluster("member1", ready="Unknown"), ["cluster member1 is not Ready"]),
        (cluster("member1", taints=(Taint("busy", "PreferNoSchedule"),)), []),
    ],
    ids=["Ready is Unknown", "a taint that evicts nothing"],
)
def test_a_cluster_takes_a_workload_back_if_it_is_ready_and_would_keep_it(
    member1: Cluster, obstacles: list[str]
) -> None:
    before = binding("web", duplicated(), on={"member1": 2}, failover=ClusterFailoverBehavior())

    assert list(revert.revert_obstacles(before, before, {"member1": member1}, FAILOVER)) == obstacles
