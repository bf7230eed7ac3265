"""Which writes have a preview: what is dangerous asks a question, everything else asks none."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import ObjectMeta
from controlplane.apimachinery.names import FENCE_ANNOTATION
from controlplane.engine.decision import Delete, Put
from controlplane.eviction.operator_orders import EXPEDITE, RELEASE
from controlplane.eviction.refuge import Refuge
from controlplane.insight.changes import Change
from controlplane.insight.effects import Effects
from controlplane.insight.preview_texts import order_text, steering_text
from controlplane.insight.previews import fenced_cluster, named_clusters, preview_text, questions
from controlplane.kinds import rows
from controlplane.kinds.cluster import Taint
from controlplane.kinds.configuration import FailoverConfiguration
from controlplane.kinds.drain import Drain, DrainSpec
from controlplane.kinds.drill import Drill, DrillSpec
from controlplane.kinds.failback import Failback, FailbackSpec
from controlplane.kinds.override_policy import OverridePolicy
from controlplane.kinds.workload_rebalancer import RebalancedWorkload, WorkloadRebalancer, WorkloadRebalancerSpec
from tests.builders.objects import START, cluster, eviction, policy
from tests.builders.steering import hold, window
from tests.builders.templates import deployment

OURS = "failover.lifeboat.io/v1alpha1"
DRAIN = Drain(OURS, "Drain", ObjectMeta(name="d"), DrainSpec(cluster="member1"))
DRILL = Drill(OURS, "Drill", ObjectMeta(name="g"), DrillSpec("Drain", ("member1",)))
FAILBACK = Failback(OURS, "Failback", ObjectMeta(name="f"), FailbackSpec(cluster="member1"))
CONFIGURATION = FailoverConfiguration(
    OURS, "FailoverConfiguration", ObjectMeta(name="default"), {"resourceEvictionRate": 1}
)
MEMBER = cluster("member1")
HELD = hold("h", reason="change freeze", clusters=("member1",))
UNTIL = START + timedelta(hours=1)
WINDOW = window("member1", until=3600, reason="new kernels")
OVERRIDE = OverridePolicy("policy.karmada.io/v1alpha1", "OverridePolicy", ObjectMeta(name="o", namespace="default"))
CORDON = Taint("cluster.karmada.io/unschedulable", "NoSchedule")
STOPPED = DRAIN.with_spec(stop=True)
WEB = RebalancedWorkload("apps/v1", "Deployment", "web", "default")
REBALANCER = WorkloadRebalancer(
    "apps.karmada.io/v1alpha1", "WorkloadRebalancer", ObjectMeta(name="r"), WorkloadRebalancerSpec((WEB,))
)

ASKS: dict[str, tuple[Any, list[str]]] = {
    "a new drain": (Put(DRAIN, None), ["ClustersDrained"]),
    "a drain that goes on": (Put(DRAIN, STOPPED), ["ClustersDrained"]),
    "a drain that stops": (Put(STOPPED, DRAIN), []),
    "a drain with another rate": (Put(DRAIN.with_spec(rate=2.0), DRAIN), []),
    "a drill that drains": (Put(DRILL, None), ["ClustersDrained"]),
    "a drill that drains, stopped": (Put(DRILL.with_spec(stop=True), DRILL), []),
    "a simulated drill": (Put(DRILL.with_spec(mode="Simulated"), None), []),
    "a failback": (Put(FAILBACK, None), ["Failback"]),
    "a planned failback": (Put(FAILBACK.with_spec(dry_run=True), None), []),
    "a failback that is no plan any more": (Put(FAILBACK, FAILBACK.with_spec(dry_run=True)), ["Failback"]),
    "a new policy": (Put(policy(), None), ["PolicyEdited"]),
    "labels of a policy": (Put(policy().with_meta(labels={"a": "b"}), policy()), []),
    "a deleted policy": (Delete(policy()), ["ObjectsDeleted"]),
    "a new override policy": (Put(OVERRIDE, None), ["PolicyEdited"]),
    "labels of an override policy": (Put(OVERRIDE.with_meta(labels={"a": "b"}), OVERRIDE), []),
    "a deleted override policy": (Delete(OVERRIDE), ["ObjectsDeleted"]),
    "the configuration": (Put(CONFIGURATION, None), ["GateOrRateChanged"]),
    "the configuration deleted": (Delete(CONFIGURATION), ["GateOrRateChanged"]),
    "a taint": (Put(MEMBER.with_spec(taints=(Taint("gone", "NoExecute"),)), MEMBER), ["TaintAdded"]),
    "a cordon": (Put(MEMBER.with_spec(taints=(CORDON,)), MEMBER), ["Cordoned"]),
    "a taint taken away": (Put(MEMBER, MEMBER.with_spec(taints=(Taint("gone", "NoExecute"),))), ["TaintRemoved"]),
    "an uncordon": (Put(MEMBER, MEMBER.with_spec(taints=(CORDON,))), []),
    "a new cluster": (Put(MEMBER, None), []),
    "a deleted cluster": (Put(MEMBER.with_meta(deletion_timestamp=START), MEMBER), ["ClusterRemoved"]),
    "a new hold": (Put(HELD, None), ["HoldEdited"]),
    "an edited hold": (Put(HELD.with_spec(reason="later"), HELD), ["HoldEdited"]),
    "labels of a hold": (Put(HELD.with_meta(labels={"a": "b"}), HELD), []),
    "a deleted hold": (Delete(HELD), ["ObjectsDeleted"]),
    "a new window": (Put(WINDOW, None), ["HoldEdited"]),
    "a deleted window": (Delete(WINDOW), ["ObjectsDeleted"]),
    "a workload": (Put(deployment(), None), []),
    "a deleted workload": (Delete(deployment()), ["ObjectsDeleted"]),
    "a deleted drain": (Delete(DRAIN), []),
    "a rebalancer": (Put(REBALANCER, None), ["Rescheduled"]),
    "a rebalancer with another workload": (Put(REBALANCER, REBALANCER.with_spec(workloads=())), ["Rescheduled"]),
    "another time to live": (Put(REBALANCER.with_spec(ttl_seconds_after_finished=1), REBALANCER), []),
}


@pytest.mark.parametrize("case", ASKS)
def test_a_write_asks_what_it_does_to_workloads(case: str) -> None:
    write, asks = ASKS[case]

    assert [type(change).__name__ for change in questions([write])] == asks


def test_all_deletions_of_a_batch_are_one_question() -> None:
    (change,) = questions([Delete(deployment("a")), Delete(deployment("b"))])

    assert change.refs == ("apps/Deployment:default/a", "apps/Deployment:default/b")  # type: ignore[union-attr]


def test_the_clusters_that_changes_name_are_known() -> None:
    taint = Put(MEMBER.with_spec(taints=(Taint("gone", "NoExecute"),)), MEMBER)

    assert named_clusters(questions([Put(DRAIN, None), taint, Delete(cluster("member2"))])) == ["member1", "member2"]
    assert named_clusters(questions([Delete(deployment())])) == []


def test_a_fence_is_recognised_when_it_is_made() -> None:
    text = '{"by": "me", "reason": "fire", "madeAt": "2026-01-01T00:00:00Z", "expiresAt": "2026-01-02T00:00:00Z"}'
    fenced = MEMBER.with_meta(annotations={FENCE_ANNOTATION: text})

    assert (fenced_cluster(Put(fenced, MEMBER)), fenced_cluster(Put(fenced, fenced))) == ("member1", "")


def test_the_text_has_the_time_that_the_evictions_take() -> None:
    effects = Effects("moves 43, 5 namespaces", eta_seconds=86.0)

    assert preview_text(effects) == "effects: moves 43, 5 namespaces; the last eviction takes place in about 86 s"
    assert preview_text(replace(effects, eta_seconds=600.0)).endswith("about 10 min")
    assert preview_text(replace(effects, eta_seconds=None)) == "effects: moves 43, 5 namespaces"


def test_every_change_that_a_write_can_make_has_a_preview() -> None:
    asked = {name for _, names in ASKS.values() for name in names}

    assert asked == {one.__name__ for one in get_args(Change)} - {
        "ClustersLost"  # no write does it
    }


def configured(**spec: Any) -> FailoverConfiguration:
    return FailoverConfiguration(OURS, "FailoverConfiguration", ObjectMeta(name="default"), spec)


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (Put(configured(featureGates={"Failover": True}), None), "featureGates.Failover from default to true"),
        (Put(configured(), configured(featureGates={"Failover": True})), "featureGates.Failover from true to default"),
        (
            Put(configured(resourceEvictionRate=2, secondaryResourceEvictionRate=1), configured()),
            "resourceEvictionRate from default to 2, secondaryResourceEvictionRate from default to 1",
        ),
        (Delete(configured(resourceEvictionRate=2)), "resourceEvictionRate from 2 to default"),
        (Put(configured(resourceEvictionRate=2, largeClusterNumThreshold=5), configured(resourceEvictionRate=2)), ""),
        (Put(replace(configured(resourceEvictionRate=2), metadata=ObjectMeta(name="other")), None), ""),
        (Put(HELD, None), ""),
    ],
)
def test_a_gate_or_rate_that_changes_nothing_now_says_what_changes_later(write: Any, text: str) -> None:
    said = steering_text(write)

    assert said == (f"effects: no eviction that waits changes; later ones: {text}" if text else "")


@pytest.mark.parametrize(
    ("verb", "reason", "text"),
    [
        (RELEASE, rows.HELD_BY_HAND, "the eviction of shop/web from cluster member1 goes on in the order of the queue"),
        (RELEASE, rows.NO_REFUGE, "the eviction of shop/web from cluster member1 stays held: the reason"),
        (RELEASE, rows.ON_HOLD, "the eviction of shop/web from cluster member1 stays held: the reason"),
        (EXPEDITE, rows.NO_REFUGE, "shop/web leaves cluster member1 before all others; a place: member2"),
        *(
            (EXPEDITE, reason, "shop/web goes first, but stays on cluster member1 for now: the reason")
            for reason in (rows.HELD_BY_HAND, rows.ON_HOLD, rows.MAINTENANCE, rows.UNSTEADY, rows.STATE_MISSING)
        ),
    ],
)
def test_an_order_that_leaves_an_eviction_held_names_what_holds_it(verb: str, reason: str, text: str) -> None:
    held = eviction("web", state=rows.HELD, reason=reason, message="the reason")

    assert order_text(verb, held, Refuge(True, "a place: member2"), now=START) == f"effects: {text}"
