"""What-if about policies and failbacks: edits, deletions, and what returns to a cluster that has recovered."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.clusters.taint_policies import rule_of
from controlplane.clusters.taints import Ownership, with_owned
from controlplane.insight.changes import (
    Failback,
    GateOrRateChanged,
    ObjectsDeleted,
    PolicyEdited,
    Rescheduled,
    TaintRemoved,
)
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.binding.origin import with_departures
from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import ClusterAffinity, Policy, ResourceSelector
from controlplane.kinds.rows import Judgement
from controlplane.kinds.taint_policy import TaintToAdd
from controlplane.kinds.template import Template
from controlplane.kinds.workload_rebalancer import RebalancedWorkload, WorkloadSelector
from controlplane.propagation import bindings, matching
from controlplane.scheduling.trigger import APPLIED_PLACEMENT, applied_text
from controlplane.settings import GATES
from tests.builders.objects import START, cluster, eviction, leaving, not_ready_policy, policy
from tests.builders.placements import by_weight, duplicated
from tests.builders.templates import deployment
from tests.core.fleet_story import FAILOVER
from tests.core.test_what_if import NOW, asked, web


def of_web(name: str, *placed_on: str) -> Policy:
    selector = ResourceSelector("apps/v1", "Deployment", name="web")
    return policy(name, selector, placement=duplicated(*placed_on, least=1, most=1))


def claimed(on: str) -> tuple[Policy, Template, Binding]:
    """Return a policy, the Deployment that it claims, and its binding on the cluster that it names."""
    made = of_web("web", on)
    labels, annotations = matching.claim(made)
    template = deployment("web", replicas=2, labels={"app": "web", **labels}, annotations=annotations)
    bound = bindings.create(template, made, gates=dict(GATES), now=START)
    assert bound.spec.placement is not None
    applied = {**bound.metadata.annotations, APPLIED_PLACEMENT: applied_text(bound.spec.placement)}
    return made, template, bound.with_spec(clusters=(TargetCluster(on, 2),)).with_meta(annotations=applied)


def edited(made: Any) -> PolicyEdited:
    document = msgspec.to_builtins(made)
    names = {key: document["metadata"][key] for key in ("name", "namespace") if key in document["metadata"]}
    return PolicyEdited({**document, "metadata": names})


def test_an_edited_policy_moves_the_workloads_that_it_has_claimed() -> None:
    found = asked(*claimed("member1"), change=edited(of_web("web", "member3")))

    assert found.refused == ()
    (move,) = found.moves
    assert (move.workload, move.from_, move.to) == ("Deployment default/web", {"member1": 2}, {"member3": 2})


def test_an_edit_that_changes_no_placement_moves_nothing_and_an_invalid_one_is_refused() -> None:
    same = asked(*claimed("member1"), change=edited(of_web("web", "member1")))
    wrong = asked(change=PolicyEdited({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}}))

    assert same.sentence == "moves nothing"
    assert "name a policy" in wrong.refused[0]


def test_a_policy_that_leaves_no_place_is_reported_and_the_copies_stay() -> None:
    found = asked(*claimed("member1"), change=edited(of_web("web", "member9")))

    assert [one.from_ for one in found.without_place] == [{"member1": 2}]


def test_a_deleted_policy_leaves_the_copies_and_another_one_takes_over() -> None:
    made, template, bound = claimed("member1")
    gone = ObjectsDeleted((str(made.ref),))

    alone = asked(made, template, bound, change=gone)
    taken_over = asked(made, of_web("web2", "member3"), template, bound, change=gone)

    assert alone.sentence == "moves nothing"
    assert [one.to for one in taken_over.moves] == [{"member3": 2}]


def test_a_new_policy_places_a_workload_for_the_first_time() -> None:
    found = asked(deployment("web", replicas=2), change=edited(of_web("web", "member3")))

    assert [(one.from_, one.to) for one in found.placed] == [({}, {"member3": 2})]
    assert (found.moves, found.sentence) == ((), "places 1, 1 namespace")


def test_an_edited_taint_policy_evicts_from_the_clusters_that_match_it_now() -> None:
    down = cluster("member1", ready="Unknown")

    found = asked(down, web(), change=edited(not_ready_policy(status="Unknown")))

    assert [one.workload for one in found.moves] == ["Deployment default/web"]


@pytest.mark.parametrize("matched", [("Ready", "True"), ("DiskFailing", "True")], ids=["Ready", "another condition"])
def test_a_taint_policy_about_a_condition_of_a_ready_cluster_evicts_from_it(matched: tuple[str, str]) -> None:
    """A cluster is not lost only because its Ready is False: a policy may name any condition."""
    failing = cluster("member1")
    failing = failing.with_status(conditions=(*failing.status.conditions, Condition("DiskFailing", "True")))
    kind, status = matched
    only_member1 = ClusterAffinity(cluster_names=("member1",))
    made = not_ready_policy(name="disks", condition=kind, status=status).with_spec(target_cluster=only_member1)

    found = asked(failing, web(), change=edited(made))

    assert [(one.workload, one.from_) for one in found.moves] == [("Deployment default/web", {"member1": 2})]
    assert asked(cluster("member1"), web(), change=edited(made)).moves == (found.moves if kind == "Ready" else ())


def test_a_gate_that_is_switched_on_lets_every_stored_taint_policy_evict() -> None:
    off = replace(FAILOVER, feature_gates={**FAILOVER.feature_gates, "Failover": False})
    failing = cluster("member1")
    failing = failing.with_status(conditions=(*failing.status.conditions, Condition("DiskFailing", "True")))
    stored = not_ready_policy(name="disks", condition="DiskFailing", status="True")
    gate_on = GateOrRateChanged({"featureGates": {"Failover": True}})

    found = asked(failing, web(), stored, change=gate_on, settings=off)

    assert [one.workload for one in found.moves] == ["Deployment default/web"]


def test_a_deleted_taint_policy_and_a_removed_taint_cancel_evictions() -> None:
    made = not_ready_policy()
    rule = rule_of(made.spec, TaintToAdd("down", "NoExecute"))
    taint = Taint("down", "NoExecute", time_added=START)
    down = with_owned(
        cluster("member1", ready="False"), (taint,), {("down", "NoExecute"): Ownership({"policy/down": rule})}
    )
    judged = (Judgement("down", "NoExecute", START, START, 0.0),)
    row = eviction(web(), judged=judged)

    changes = (ObjectsDeleted((str(made.ref),)), TaintRemoved("member1", "down", "NoExecute"))
    answers = [asked(down, web(), row, change=change) for change in changes]

    assert [(one.moves, one.cancelled, one.sentence) for one in answers] == [((), 1, "cancels 1 eviction")] * 2


def test_a_failback_returns_what_left_a_cluster_that_is_ready_for_long_enough() -> None:
    before = web(placement=by_weight(member1=1, member2=1), on={"member1": 1, "member2": 1})
    left = before.with_spec(clusters=(TargetCluster("member2", 2),), graceful_eviction_tasks=(leaving("member1"),))
    away = with_departures(left, before, now=START).with_spec(graceful_eviction_tasks=())

    found = asked(away, change=Failback("member1"))
    early = asked(cluster("member1", at=NOW), away, change=Failback("member1"))

    assert [(one.from_, one.to) for one in found.moves] == [({"member2": 1}, {"member1": 1})]
    assert "has been Ready for less than 10 minutes" in early.refused[0]


def test_a_rebalancer_divides_again_and_moves_only_what_the_scheduler_moves() -> None:
    uneven = web(placement=by_weight(member1=1, member2=1), on={"member1": 2})
    listed = Rescheduled((RebalancedWorkload("apps/v1", "Deployment", "web", "default"),))
    selected = Rescheduled((), WorkloadSelector("apps/v1", "Deployment", label_selector=LabelSelector({"app": "web"})))
    other = Rescheduled((RebalancedWorkload("apps/v1", "Deployment", "other", "default"),))

    answers = [asked(uneven, deployment("web", labels={"app": "web"}), change=change) for change in (listed, selected)]
    nothing = asked(uneven, change=other)

    assert [(one.moves[0].from_, one.moves[0].to) for one in answers] == [({"member1": 1}, {"member2": 1})] * 2
    assert nothing.sentence == "moves nothing"


def test_a_rebalancer_moves_nothing_to_a_cluster_that_is_down() -> None:
    uneven = web(placement=by_weight(member1=1, member2=1), on={"member1": 1, "member2": 3}, replicas=4)
    uneven = uneven.with_status(last_scheduled_time=START)
    listed = Rescheduled((RebalancedWorkload("apps/v1", "Deployment", "web", "default"),))
    down = cluster("member1", ready="False")

    assert asked(uneven, change=listed).moves[0].to == {"member1": 1}
    assert asked(uneven, down, change=listed).moves == ()
