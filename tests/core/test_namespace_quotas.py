"""Quotas of namespaces on members limit how many replicas fit there [replica-estimation]."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.clusters.questions import Answer, Collect
from controlplane.controllers.collection import Collection, CollectionSnapshot
from controlplane.estimate.namespace_quotas import read_quotas, room
from controlplane.estimate.request import Asked, Bundle, QuotaScope, Request, decoded, encoded
from controlplane.kinds.binding import Component, ReplicaRequirements, ResourceBindingStatus
from controlplane.kinds.cluster import Cluster, NamespaceQuota, ResourceSummary
from controlplane.scheduling.batch import Batch, Item
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.note import detail_of
from controlplane.scheduling.question import question_of
from controlplane.scheduling.schedule import Placed, Refused
from controlplane.settings import GATES, Settings
from tests.builders.objects import START, cluster
from tests.builders.placements import by_room, placement
from tests.builders.scheduling import spec

ON = Settings(feature_gates={**GATES, "ResourceQuotaEstimate": True, "MultiplePodTemplatesScheduling": True})
CPU = {"cpu": 1000}  # thousandths


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **scopes: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "default", "name": "team"},
        "spec": scopes,
        "status": {"hard": hard, "used": dict.fromkeys(hard, "0") if used is None else used},
    }


def classes(operator: str, *values: str) -> dict[str, Any]:
    term: dict[str, Any] = {"scopeName": "PriorityClass", "operator": operator}
    return {"scopeSelector": {"matchExpressions": [{**term, "values": list(values)} if values else term]}}


def asking(amounts: dict[str, int], priority_class: str = "") -> Request:
    return Request(tuple(sorted(amounts.items())), False, QuotaScope("default", priority_class))


BOTH = {**classes("In", "gold"), "scopes": ["NotTerminating"]}
ROOM: dict[str, tuple[dict[str, Any], Asked, int | None]] = {
    "cpu": (quota({"cpu": "4"}, {"cpu": "1500m"}), asking(CPU), 2),
    "requests.cpu": (quota({"requests.cpu": "4"}, {"requests.cpu": "1"}), asking(CPU), 3),
    "the smaller of cpu and requests.cpu": (quota({"cpu": "4", "requests.cpu": "2"}), asking(CPU), 2),
    "the scarcest resource": (quota({"cpu": "4", "memory": "1Gi"}), asking({**CPU, "memory": 2**29}), 2),
    "an extended resource": (quota({"requests.example.com/gpu": "3"}), asking({**CPU, "example.com/gpu": 2}), 1),
    "more used than allowed": (quota({"cpu": "4"}, {"cpu": "5"}), asking(CPU), 0),
    "limits": (quota({"limits.cpu": "1"}), asking(CPU), None),
    "numbers of objects and storage": (
        quota({"pods": "0", "count/deployments.apps": "0", "requests.storage": "0", "ephemeral-storage": "0"}),
        asking(CPU),
        None,
    ),
    "what is not requested": (quota({"memory": "0"}), asking(CPU), None),
    "a status without use": (quota({"cpu": "1"}, {}), asking(CPU), None),
    "another scope": (quota({"cpu": "0"}, scopes=["Terminating"]), asking(CPU), None),
    "one of two scopes is another": (quota({"cpu": "0"}, **BOTH), asking(CPU, "gold"), None),
    "any class, of a pod with one": (quota({"cpu": "1"}, scopes=["PriorityClass"]), asking(CPU, "gold"), 1),
    "any class, of a pod without": (quota({"cpu": "1"}, scopes=["PriorityClass"]), asking(CPU), None),
    "in a list": (quota({"cpu": "1"}, **classes("In", "gold", "iron")), asking(CPU, "gold"), 1),
    "not in a list": (quota({"cpu": "1"}, **classes("In", "iron")), asking(CPU, "gold"), None),
    "outside a list": (quota({"cpu": "1"}, **classes("NotIn", "iron")), asking(CPU, "gold"), 1),
    "not outside a list": (quota({"cpu": "1"}, **classes("NotIn", "gold")), asking(CPU, "gold"), None),
    "no class": (quota({"cpu": "1"}, **classes("DoesNotExist")), asking(CPU), 1),
    "no class, of a pod with one": (quota({"cpu": "1"}, **classes("DoesNotExist")), asking(CPU, "gold"), None),
    "sets of components": (quota({"cpu": "7"}), Bundle(((1, asking(CPU)), (2, asking(CPU)))), 2),
    "the components of a class": (
        quota({"cpu": "7"}, **classes("In", "gold")),
        Bundle(((1, asking(CPU)), (2, asking(CPU, "gold")))),
        3,
    ),
    "no gate": (quota({"cpu": "0"}), Request((("cpu", 1000),)), None),
}


@pytest.mark.parametrize("case", ROOM)
def test_a_quota_has_room_for_so_many_replicas(case: str) -> None:
    document, asked, expected = ROOM[case]

    rooms = [room(found, asked, {}) for found in read_quotas([document])]

    assert next(iter(rooms), None) == expected


def limited(name: str, cpu: str, namespace: str = "default") -> Cluster:
    quotas = (NamespaceQuota(namespace, "team", {"cpu": cpu}),)
    return cluster(name, summary=ResourceSummary(allocatable={"pods": "9", "cpu": "9"}, namespace_quotas=quotas))


@pytest.mark.parametrize(
    ("namespace", "settings", "room_left"),
    [("default", ON, [2, 9]), ("other", ON, [9, 9]), ("default", Settings(), [9, 9])],
    ids=["its namespace", "another namespace", "the gate is closed"],
)
def test_room_is_what_nodes_and_quotas_leave(namespace: str, settings: Settings, room_left: list[int]) -> None:
    fleet = Fleet.of([limited("a", "2", namespace), cluster("b", room=9)], settings=settings)
    question = question_of(spec(by_room("a", "b")), ResourceBindingStatus(), settings=settings)

    assert Ledger(fleet).free(question.asked).tolist() == room_left


def test_no_room_in_a_quota_is_given_away_twice_and_the_message_names_the_quota() -> None:
    fleet = Fleet.of([limited("a", "3"), limited("b", "9", "other")], settings=ON)
    batch = Batch(fleet, Ledger(fleet), ON)
    only_a, both = (Item(spec(by_room(*names), replicas=2), ResourceBindingStatus()) for names in ("a", "ab"))

    question, first = batch.place(only_a)
    _, second = batch.place(only_a)
    batch.give_back(question, first.outcome.clusters if isinstance(first.outcome, Placed) else (), {})
    _, third = batch.place(both)

    assert isinstance(first.outcome, Placed)
    assert isinstance(second.outcome, Refused)
    message = "the selected clusters have room for 1 of 2 replicas; ResourceQuotas limit a (default/team)"
    assert second.outcome.message == message
    assert isinstance(third.outcome, Placed)
    assert detail_of(second).terms[-1].quotas == ((0, "default/team"),)


def test_stored_requests_keep_what_quotas_select_by() -> None:
    parts = (Component("job", 2, ReplicaRequirements(resource_request={"cpu": "1"}, priority_class_name="gold")),)
    one, several = (
        question_of(wanted, ResourceBindingStatus(), settings=ON).asked
        for wanted in (spec(placement()), spec(placement(), components=parts))
    )

    assert decoded(encoded(one)) == one == asking(CPU)
    assert decoded(encoded(several)) == several == Bundle(((2, asking(CPU, "gold")),))


@pytest.mark.parametrize("settings", [ON, Settings()], ids=["open", "closed"])
def test_quotas_are_collected_only_while_the_gate_is_open(settings: Settings) -> None:
    member = cluster("a").with_spec(api_endpoint="https://member1.example:6443")
    snapshot = CollectionSnapshot(member, None)
    question = Collection().question(snapshot, settings, now=START)

    assert isinstance(question, Collect)
    assert question.quotas == settings.gate("ResourceQuotaEstimate")


def test_what_quotas_leave_is_stored_with_the_use_of_nodes_once_a_minute() -> None:
    kept = None
    for seconds, cpu, stored in ((0, "1", True), (10, "2", False), (60, "3", True)):
        body = {"apis": [], "nodes": [], "pods": [], "resourcequotas": [quota({"cpu": "4"}, {"cpu": cpu})]}
        now = START.replace(minute=seconds // 60, second=seconds % 60)
        decided = Collection().decide(
            CollectionSnapshot(cluster("a"), None, kept), ON, now=now, answer=Answer(200, body)
        )
        assert bool(decided.changes) == stored
        kept = decided.changes[0].row if stored else kept  # type: ignore[union-attr]
    assert kept is not None
    assert kept.resource_summary.namespace_quotas == (NamespaceQuota("default", "team", {"cpu": "1"}),)


@pytest.mark.parametrize(("clusters", "more"), [("abc", ""), ("abcdef", " and 3 more")])
def test_a_message_names_three_limiting_quotas_and_counts_the_others(clusters: str, more: str) -> None:
    fleet = Fleet.of([limited(name, "1") for name in clusters], settings=ON)

    _, verdict = Batch(fleet, Ledger(fleet), ON).place(
        Item(spec(by_room(*clusters), replicas=99), ResourceBindingStatus())
    )

    assert isinstance(verdict.outcome, Refused)
    named = "ResourceQuotas limit a (default/team), b (default/team), c (default/team)"
    assert verdict.outcome.message.endswith(f"{named}{more}")
