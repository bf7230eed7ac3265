"""How many replicas fit on single nodes, by node selector, node affinity and tolerations [node-estimate]."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from controlplane.clusters.questions import Collect
from controlplane.controllers.collection import Collection, CollectionSnapshot
from controlplane.estimate.request import Bundle, NodeRequirement, NodeTerms, Request, decoded, encoded
from controlplane.estimate.summary import summarise
from controlplane.eviction.scheduler_dry_run import SchedulerDryRun
from controlplane.insight.readiness_row import relevant_change
from controlplane.interpret.requirements import of_pod
from controlplane.kinds.binding import Component, NodeClaim, ReplicaRequirements, ResourceBindingStatus
from controlplane.kinds.cluster import MAX_POOLS, MAX_ROOMS, Cluster, NodePool, NodeRoom, ResourceSummary
from controlplane.kinds.cluster.status_rules import MAX_RESOURCES, validate_status
from controlplane.kinds.policy import Toleration
from controlplane.scheduling.batch import Batch, Item
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.note import detail_of
from controlplane.scheduling.question import question_of
from controlplane.scheduling.schedule import Placed, Refused
from controlplane.settings import GATES, Settings
from tests.builders.objects import START, bound, cluster
from tests.builders.placements import by_room
from tests.builders.scheduling import spec

ON = Settings(enable_scheduler_estimator=True, feature_gates={**GATES, "MultiplePodTemplatesScheduling": True})
Document = dict[str, Any]
GPU = {"key": "gpu", "effect": "NoSchedule", "value": "a100"}


def node(name: str, *taints: Document, cpu: str = "4", pods: int = 10, **labels: str) -> Document:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": str(pods)}},
    }


def pod(on: str, cpu: str) -> Document:
    return {"spec": {"nodeName": on, "containers": [{"resources": {"requests": {"cpu": cpu}}}]}}


def member(name: str, *nodes: Document, pods: tuple[Document, ...] = ()) -> Cluster:
    return cluster(name, summary=summarise(nodes, pods, single_nodes=True))


def pod_spec(**fields: Any) -> Document:
    return {"containers": [{"resources": {"requests": {"cpu": fields.pop("cpu", "3")}}}], **fields}


def affinity(*terms: Document) -> Document:
    return {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
        }
    }


def term(key: str, operator: str, *values: str, of: str = "matchExpressions") -> Document:
    return {of: [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


def asked(template: Document, settings: Settings = ON) -> Request | Bundle:
    requirements = of_pod(template)
    wanted = spec(by_room("a"), replicas=1)
    wanted = wanted.__class__(
        wanted.resource, replicas=1, replica_requirements=requirements, placement=wanted.placement
    )
    return question_of(wanted, ResourceBindingStatus(), settings=settings).asked


def room(template: Document, *members: Cluster, settings: Settings = ON) -> list[int]:
    return Ledger(Fleet.of(members, settings=settings)).free(asked(template, settings)).tolist()


MIXED = (
    node("n1", zone="a", size="4"),
    node("n2", zone="b", size="8", cpu="8"),
    node("n3", GPU, zone="a", gpu="yes", cpu="16"),
)
"""For requests of 3 CPU: 1, 2 and 5 replicas."""
TOLERATING = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}

CASES: dict[str, tuple[Document, int]] = {
    "an untolerated taint": ({}, 3),
    "a tolerated taint": (TOLERATING, 8),
    "a toleration of another value": ({"tolerations": [{"key": "gpu", "value": "t4"}]}, 3),
    "a toleration of another effect": (
        {"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]},
        3,
    ),
    "a node selector": ({"nodeSelector": {"zone": "b"}}, 2),
    "a node selector of two labels": ({"nodeSelector": {"zone": "a", "size": "4"}}, 1),
    "a node selector that nothing has": ({"nodeSelector": {"zone": "c"}}, 0),
    "a node selector of tainted nodes": ({"nodeSelector": {"gpu": "yes"}}, 0),
    "a node selector and a toleration": ({"nodeSelector": {"gpu": "yes"}, **TOLERATING}, 5),
    "In": (affinity(term("zone", "In", "b", "c")), 2),
    "NotIn": (affinity(term("zone", "NotIn", "b")), 1),
    "NotIn, without the label": (affinity(term("gpu", "NotIn", "yes")), 3),
    "Exists": (affinity(term("size", "Exists")), 3),
    "DoesNotExist": ({**affinity(term("size", "DoesNotExist")), **TOLERATING}, 5),
    "Exists, of a label that some have": ({**affinity(term("gpu", "Exists")), **TOLERATING}, 5),
    "Gt": (affinity(term("size", "Gt", "4")), 2),
    "Lt": (affinity(term("size", "Lt", "8")), 1),
    "Gt, of the largest": (affinity(term("size", "Gt", "8")), 0),
    "Lt, of the smallest": (affinity(term("size", "Lt", "4")), 0),
    "Gt of a text": (affinity(term("zone", "Gt", "1")), 0),
    "an unknown operator": (affinity(term("zone", "Like", "a")), 0),
    "one of two terms": (affinity(term("zone", "In", "c"), term("size", "In", "8")), 2),
    "all requirements of a term": (
        affinity(
            {
                "matchExpressions": [
                    {"key": "zone", "operator": "In", "values": ["a", "b"]},
                    {"key": "size", "operator": "In", "values": ["4"]},
                ]
            }
        ),
        1,
    ),
    "a term without requirements": (affinity({}), 0),
    "an affinity and a selector": ({**affinity(term("zone", "In", "a", "b")), "nodeSelector": {"size": "8"}}, 2),
    "the name of a node, which no report has": (affinity(term("metadata.name", "In", "n1", of="matchFields")), 3),
    "the hostname, which no report has": ({"nodeSelector": {"kubernetes.io/hostname": "n9"}}, 3),
    "the hostname in an affinity": (affinity(term("kubernetes.io/hostname", "In", "n9")), 3),
}


@pytest.mark.parametrize("case", CASES)
def test_only_the_nodes_that_take_the_pods_have_room(case: str) -> None:
    fields, expected = CASES[case]

    assert room(pod_spec(**fields), member("a", *MIXED)) == [expected]


def test_capacity_that_is_spread_over_nodes_is_not_added_up() -> None:
    spread = member("a", *(node(f"n{number}", cpu="2") for number in range(9)))
    reports_no_nodes = cluster("b", room=900)

    assert room(pod_spec(cpu="3"), spread, reports_no_nodes) == [0, 300]
    assert room(pod_spec(cpu="3"), spread, settings=Settings()) == [6]


def test_pods_take_room_on_their_node_and_a_node_has_at_most_its_pod_slots() -> None:
    taken = member("a", node("n1"), node("n2", pods=2), pods=(pod("n1", "2"),))

    assert room(pod_spec(cpu="1"), taken) == [2 + 2]
    assert room({}, taken) == [9 + 2]
    assert room(TOLERATING, member("a", *MIXED)) == [30]


def test_reserved_replicas_take_room_only_on_the_nodes_that_they_may_use() -> None:
    fleet = Fleet.of([member("a", *MIXED)], settings=ON)
    ledger = Ledger(fleet)
    everywhere, on_gpu, plain, slots = (
        asked(pod_spec(**fields))
        for fields in (TOLERATING, {"nodeSelector": {"gpu": "yes"}, **TOLERATING}, {}, {"cpu": "0"})
    )
    place = fleet.places(["a"])

    ledger.reserve(place, fleet.replicas(on_gpu), on_gpu)

    assert [ledger.free(one)[0] for one in (on_gpu, plain, everywhere)] == [0, 3, 3]
    ledger.reserve(place, fleet.replicas(plain), plain)
    assert [ledger.free(one)[0] for one in (on_gpu, plain, everywhere)] == [0, 0, 0]
    ledger.reserve(place, -fleet.replicas(on_gpu), on_gpu)
    assert [ledger.free(one)[0] for one in (on_gpu, plain, everywhere)] == [5, 0, 5]
    assert ledger.free(slots)[0] == 20 - 3


def test_a_reserved_resource_takes_nothing_from_a_request_for_another_resource() -> None:
    fleet = Fleet.of([member("a", *MIXED)], settings=ON)
    ledger, on_gpu = Ledger(fleet), asked({"nodeSelector": {"gpu": "yes"}, **TOLERATING, **pod_spec(cpu="3")})
    in_memory = asked({"containers": [{"resources": {"requests": {"memory": "4Gi"}}}]})

    for request in (on_gpu, in_memory):
        ledger.reserve(fleet.places(["a"]), np.array([1]), request)

    assert ledger.free(in_memory).tolist() == [2 + 2 - 1]


def test_all_pod_slots_of_the_selected_nodes_are_given_away_once() -> None:
    fleet = Fleet.of([member("a", *MIXED)], settings=ON)
    ledger, on_gpu = Ledger(fleet), asked({"nodeSelector": {"gpu": "yes"}, **TOLERATING})

    ledger.reserve(fleet.places(["a"]), ledger.free(on_gpu), on_gpu)

    assert ledger.free(on_gpu).tolist() == [0]
    assert ledger.free(asked({})).tolist() == [20]


def test_a_cluster_without_a_node_for_the_pods_gets_none_and_the_message_says_so() -> None:
    fleet = Fleet.of([member("a", node("n1", zone="a")), member("b", *MIXED)], settings=ON)
    batch = Batch(fleet, Ledger(fleet), ON)

    def place(count: int, *where: str) -> Any:
        wanted = spec(by_room(*where), replicas=count)
        claim = NodeClaim(node_selector={"gpu": "yes"}, tolerations=(TOLERATING["tolerations"][0],))
        requirements = ReplicaRequirements(claim, {"cpu": "3"})
        fields = {name: getattr(wanted, name) for name in ("resource", "replicas", "placement")}
        return batch.place(Item(type(wanted)(**fields, replica_requirements=requirements), ResourceBindingStatus()))[1]

    refused, placed = place(1, "a"), place(4, "a", "b")

    assert isinstance(refused.outcome, Refused)
    assert refused.outcome.message == (
        "the selected clusters have room for 0 of 1 replicas; node selector, node affinity and tolerations select no "
        "node of a"
    )
    assert isinstance(placed.outcome, Placed)
    assert [(one.name, one.replicas) for one in placed.outcome.clusters] == [("b", 4)]
    assert detail_of(placed).terms[-1].nodeless == (0,)


def test_each_component_of_a_set_needs_nodes_of_its_own_kind() -> None:
    parts = (
        Component("master", 1, ReplicaRequirements(None, {"cpu": "1"})),
        Component(
            "worker",
            2,
            ReplicaRequirements(
                NodeClaim(node_selector={"gpu": "yes"}, tolerations=(TOLERATING["tolerations"][0],)), {"cpu": "3"}
            ),
        ),
    )
    question = question_of(spec(by_room("a"), components=parts), ResourceBindingStatus(), settings=ON)

    assert isinstance(question.asked, Bundle)
    assert Ledger(Fleet.of([member("a", *MIXED)], settings=ON)).free(question.asked).tolist() == [2]
    assert decoded(encoded(question.asked)) == question.asked


def test_a_stored_request_keeps_its_nodes() -> None:
    wanted = asked(
        pod_spec(**affinity(term("zone", "In", "a"), term("metadata.name", "In", "n1", of="matchFields")), **TOLERATING)
    )

    assert wanted == Request(
        (("cpu", 3000),),
        nodes=NodeTerms(
            affinity=(
                (NodeRequirement("zone", "In", ("a",)),),
                (NodeRequirement("metadata.name", "In", ("n1",), of_field=True),),
            ),
            tolerations=(Toleration("gpu", "Exists"),),
        ),
    )
    assert decoded(encoded(wanted)) == wanted


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (
            NodeClaim(hard_node_affinity={"nodeSelectorTerms": [term("a", "In")["matchExpressions"][0]["key"]]}),
            "hardNode",
        ),
        (NodeClaim(tolerations=({"key": 1},)), "nodeClaim.tolerations"),
    ],
    ids=["affinity", "toleration"],
)
def test_a_malformed_claim_is_an_error_that_names_it(claim: NodeClaim, message: str) -> None:
    wanted = spec(by_room("a"))
    fields = {"resource": wanted.resource, "placement": wanted.placement}
    malformed = type(wanted)(**fields, replica_requirements=ReplicaRequirements(claim))

    with pytest.raises(ValueError, match=message):
        question_of(malformed, ResourceBindingStatus(), settings=ON)


def test_a_report_of_many_nodes_is_limited_and_never_says_more_than_is_free() -> None:
    nodes = [
        node(f"n{number}", cpu=f"{4000 + number}m", zone="ab"[number % 2], instance=f"i-{number}")
        for number in range(1000)
    ]
    summary = summarise(nodes, (), single_nodes=True)

    assert summary.unlisted_node_labels == ("instance",)
    assert len(summary.node_pools) == 2 <= MAX_POOLS
    assert sum(len(pool.nodes) for pool in summary.node_pools) <= MAX_ROOMS
    assert sum(one.count for pool in summary.node_pools for one in pool.nodes) == 1000
    assert not validate_status(cluster("a", summary=summary))
    large = cluster("a", summary=summary)
    assert room(pod_spec(cpu="4", nodeSelector={"zone": "b"}), large) == [500]
    assert room(pod_spec(cpu="4", nodeSelector={"instance": "i-1"}), large) == [1000]
    assert 400 <= room(pod_spec(cpu="4100m"), large)[0] <= 900


@pytest.mark.parametrize(
    ("summary", "field"),
    [
        (ResourceSummary(node_pools=(NodePool(nodes=(NodeRoom(1),) * (MAX_ROOMS + 1)),)), "nodePools"),
        (ResourceSummary(node_pools=(NodePool(nodes=(NodeRoom(1),)),) * (MAX_POOLS + 1)), "nodePools"),
        (
            ResourceSummary(
                allocatable={"cpu": "1"},
                node_pools=(NodePool(nodes=(NodeRoom(1, {f"r{n}": "1" for n in range(MAX_RESOURCES)}),)),),
            ),
            "",
        ),
    ],
)
def test_a_report_that_is_larger_than_those_of_agents_is_refused(summary: ResourceSummary, field: str) -> None:
    causes = validate_status(cluster("a", summary=summary))

    assert [cause.field for cause in causes] == [".".join(filter(None, ("status.resourceSummary", field)))]
    assert "must have at most" in causes[0].message


def test_resources_that_no_workload_asks_for_cost_nothing_for_each_node() -> None:
    """A member that names many of them would otherwise take memory for the nodes of all members."""
    names = {f"r{n}": "1" for n in range(MAX_RESOURCES - 2)}
    odd = NodePool(nodes=(NodeRoom(1, {**names, "cpu": "4", "pods": "9"}),))
    others = NodePool(nodes=tuple(NodeRoom(1, {"cpu": f"{n}", "pods": "9"}) for n in range(MAX_ROOMS)))
    summaries = [ResourceSummary({"cpu": "1k", "pods": "1k"}, node_pools=(pool,)) for pool in (odd, *[others] * 20)]
    fleet = [cluster(f"c{n}", summary=summary) for n, summary in enumerate(summaries)]

    tracemalloc.start()
    try:
        assert room(pod_spec(cpu="2"), *fleet)[0] == 2
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 40 * 2**20


def test_a_report_has_a_limit_also_if_every_node_has_a_taint_and_free_amounts_of_its_own() -> None:
    nodes = [
        node(f"n{number}", {"key": f"t{number % 100}", "effect": "NoSchedule"}, cpu=str(2 ** (number % 40)))
        for number in range(4000)
    ]
    for number, one in enumerate(nodes):
        one["status"]["allocatable"] |= {"memory": str(2 ** (number % 37)), "pods": str(2 ** (number % 11))}

    pools = summarise(nodes, (), single_nodes=True).node_pools

    assert len(pools) == MAX_POOLS
    assert sum(len(pool.nodes) for pool in pools) == MAX_ROOMS


@pytest.mark.parametrize("amounts", [1, 2, 3, MAX_ROOMS])
def test_absurd_numbers_of_a_report_do_not_stop_the_scheduler(amounts: int) -> None:
    most = str(2**63 - 1)
    pool = NodePool(nodes=(NodeRoom(2**31 - 1, {"cpu": most, "pods": most}),) * amounts)
    absurd = cluster("a", summary=ResourceSummary(allocatable={"cpu": "9", "pods": "9"}, node_pools=(pool,)))

    assert room(pod_spec(cpu="1"), absurd) == [9]


def test_a_malformed_claim_of_one_binding_holds_that_binding_and_evicts_the_others() -> None:
    malformed = NodeClaim(hard_node_affinity={"nodeSelectorTerms": [term("zone", "In", "a") | {"matchFields": 1}]})
    wanted = spec(by_room("a", "b"), on={"a": 1})
    fields = {name: getattr(wanted, name) for name in ("resource", "replicas", "placement", "clusters")}
    good, bad = (
        bound(type(wanted)(**fields, replica_requirements=ReplicaRequirements(claim, {"cpu": "1"})))
        for claim in (None, malformed)
    )
    fleet = Fleet.of([member("a", *MIXED), member("b", *MIXED)], settings=ON)
    dry_run = SchedulerDryRun(lambda: fleet, ON, applications={}, groups={})

    held, placed = (dry_run.place_or_refuse(one, ["a"]) for one in (bad, good))

    assert "nodeClaim.hardNodeAffinity" in held.refused
    assert [target.name for target in placed.clusters] == ["b"]


@given(
    st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 12), st.sampled_from("ab"), st.booleans()), max_size=12),
    st.integers(1, 4000),
    st.sampled_from(["", "a", "b"]),
    st.booleans(),
)
def test_room_is_the_sum_over_the_nodes(
    nodes: list[tuple[int, int, str, bool]], cpu: int, zone: str, tolerant: bool
) -> None:
    """The same number as when each node is looked at by itself."""
    documents = [
        node(f"n{index}", *([GPU] if tainted else []), cpu=f"{milli}m", pods=slots, zone=where)
        for index, (milli, slots, where, tainted) in enumerate(nodes)
    ]
    template = pod_spec(
        cpu=f"{cpu}m", **(TOLERATING if tolerant else {}), **({"nodeSelector": {"zone": zone}} if zone else {})
    )
    expected = sum(
        min(slots, milli // cpu)
        for milli, slots, where, tainted in nodes
        if zone in ("", where) and (tolerant or not tainted)
    )

    assert room(template, member("a", *documents)) == [expected]


@pytest.mark.parametrize("settings", [ON, Settings()], ids=["on", "off"])
def test_labels_and_taints_of_nodes_are_read_only_if_the_estimator_is_on(settings: Settings) -> None:
    question = Collection().question(
        CollectionSnapshot(cluster("a").with_spec(api_endpoint="https://member1.example:6443"), None),
        settings,
        now=START,
    )

    assert isinstance(question, Collect)
    assert question.single_nodes == settings.enable_scheduler_estimator
    request = Request((("cpu", 3000),))
    assert asked(pod_spec(), settings) == (replace(request, nodes=NodeTerms()) if settings is ON else request)


def test_without_the_estimator_no_cluster_is_said_to_have_no_node_for_the_pods() -> None:
    of_another_zone = pod_spec(nodeSelector={"zone": "c"})
    found = [
        Fleet.of([member("a", *MIXED)], settings=settings).without_matching_node(asked(of_another_zone, settings))
        for settings in (ON, Settings())
    ]

    assert found == [{0}, set()]


def test_readiness_is_computed_again_when_the_room_of_a_pool_changes_by_a_step() -> None:
    before, same, less = (
        member("a", node("n1", cpu=first), node("n2", GPU, cpu=second))
        for first, second in (("8", "8"), ("8", "8"), ("14", "2"))
    )

    assert not relevant_change(before, same)
    assert relevant_change(before, less)
