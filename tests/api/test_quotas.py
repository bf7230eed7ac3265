"""Quotas over all clusters at the API: what is refused, with which words, and what is warned of [federated-quotas]."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from tests.api.server import Answer, Client
from tests.api.test_actions import join
from tests.api.test_settings import CONFIGURATIONS, OPEN, seen_within_a_second

QUOTAS = "/apis/policy.karmada.io/v1alpha1/namespaces/{}/federatedresourcequotas"
BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def quota(spec: dict[str, object]) -> dict[str, object]:
    metadata = {"name": "team"}
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "FederatedResourceQuota",
        "metadata": metadata,
        "spec": spec,
    }


def placed(namespace: str, replicas: int) -> dict[str, object]:
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "name": "web"}
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment"},
        "spec": {
            "resource": resource,
            "replicas": replicas,
            "replicaRequirements": {"resourceRequest": {"cpu": "500m"}},
            "clusters": [{"name": "member1", "replicas": replicas}],
        },
    }


@pytest.fixture
def enforced(api: Client) -> Iterator[None]:
    """Quotas are enforced while the test runs."""
    gates = {"featureGates": {"FederatedQuotaEnforcement": True}}
    assert api.post(CONFIGURATIONS, {**OPEN, "spec": gates}).status == 201
    try:
        yield
    finally:
        assert api.delete(f"{CONFIGURATIONS}/default").status == 200


@pytest.mark.usefixtures("enforced")
def test_a_binding_that_exceeds_a_quota_is_refused_as_kubernetes_refuses_a_pod(api: Client, namespace: str) -> None:
    assert api.post(QUOTAS.format(namespace), quota({"overall": {"cpu": "1"}})).status == 201
    seen_within_a_second(lambda: api.post(BINDINGS.format(namespace), placed(namespace, 9), dryRun="All").status == 403)
    assert api.post(BINDINGS.format(namespace), placed(namespace, 2)).status == 201

    url = f"{BINDINGS.format(namespace)}/web-deployment"
    more = {"spec": {"clusters": [{"name": "member1", "replicas": 2}, {"name": "member2", "replicas": 1}]}}
    refused = api.patch(url, more)

    assert (refused.status, refused.document["reason"]) == (403, "Forbidden")
    assert refused.document["message"] == (
        'resourcebindings.work.karmada.io "web-deployment" is forbidden: exceeded quota: team, requested: cpu=500m, '
        "used: cpu=1, limited: cpu=1"
    )
    assert api.patch(url, {"spec": {"clusters": [{"name": "member2", "replicas": 1}]}}).status == 200
    lower = api.patch(f"{QUOTAS.format(namespace)}/team", {"spec": {"overall": {"cpu": "100m"}}})
    assert lower.status == 200
    assert "already uses more than spec.overall allows, used: cpu=500m, limited: cpu=100m" in lower.headers["warning"]
    assert api.delete(url).status in (200, 202)


@pytest.mark.usefixtures("enforced")
def test_of_writers_that_ask_for_the_last_room_at_one_moment_only_those_that_fit_get_it(
    api: Client, namespace: str
) -> None:
    """Each of them finds the room free when it is admitted; the last word is said under the write lock."""
    bindings, writers = BINDINGS.format(namespace), 12
    assert api.post(QUOTAS.format(namespace), quota({"overall": {"cpu": "1500m"}})).status == 201
    seen_within_a_second(lambda: api.post(bindings, placed(namespace, 9), dryRun="All").status == 403)
    start = Barrier(writers)

    def create(number: int) -> Answer:
        document = placed(namespace, 1)
        document["metadata"] = {"name": f"web{number}-deployment"}
        writer = Client(api.address, api.token)
        start.wait(30)
        return writer.post(bindings, document)

    with ThreadPoolExecutor(writers) as pool:
        answers = list(pool.map(create, range(writers)))

    assert sorted(answer.status for answer in answers) == [201] * 3 + [403] * 9
    refused = {answer.document["message"].partition(": ")[2] for answer in answers if answer.status == 403}
    assert refused == {"exceeded quota: team, requested: cpu=500m, used: cpu=1500m, limited: cpu=1500m"}
    for number in range(writers):
        assert api.delete(f"{bindings}/web{number}-deployment").status in (200, 202, 404)


@pytest.mark.usefixtures("enforced")
def test_neither_a_revert_nor_an_apply_nor_a_replacement_by_hand_exceeds_a_quota(api: Client, namespace: str) -> None:
    bindings, url = BINDINGS.format(namespace), f"{BINDINGS.format(namespace)}/web-deployment"
    for name in ("a", "b"):
        join(api, f"{namespace}-{name}", "True")
    assert api.post(QUOTAS.format(namespace), quota({"overall": {"cpu": "1"}})).status == 201
    seen_within_a_second(lambda: api.post(bindings, placed(namespace, 9), dryRun="All").status == 403)
    document = placed(namespace, 2)
    document["spec"]["clusters"] = [{"name": f"{namespace}-a", "replicas": 2}]  # type: ignore[index]
    assert api.post(bindings, document).status == 201
    tasks = [{"fromCluster": f"{namespace}-a", "purgeMode": "Gracefully", "reason": "ByHand", "producer": "me"}]
    left = {"clusters": [{"name": f"{namespace}-b", "replicas": 1}], "gracefulEvictionTasks": tasks}
    assert api.patch(url, {"spec": left}).status == 200
    other = placed(namespace, 1)
    other["metadata"] = {"name": "other-deployment"}
    assert api.post(bindings, other).status == 201  # it takes the room that the failover left

    live = api.get(url).document
    live["spec"]["clusters"] = [{"name": f"{namespace}-b", "replicas": 2}]
    applied = {key: document[key] for key in ("apiVersion", "kind", "metadata", "spec")}
    applied["spec"] = {"clusters": live["spec"]["clusters"]}
    answers = [
        api.post(f"{url}/revert", {}),
        api.put(url, live),
        api.patch(url, applied, type="application/apply-patch+yaml", fieldManager="me", force="true"),
    ]

    assert [answer.status for answer in answers] == [403] * 3
    assert {answer.document["message"].partition(": ")[2] for answer in answers} == {
        "exceeded quota: team, requested: cpu=500m, used: cpu=1, limited: cpu=1"
    }
    assert api.get(url).document["spec"]["clusters"] == [{"name": f"{namespace}-b", "replicas": 1}]
    for name in ("web", "other"):
        assert api.delete(f"{bindings}/{name}-deployment").status in (200, 202)


def test_a_quota_with_errors_names_every_field(api: Client, namespace: str) -> None:
    wrong = quota(
        {
            "overall": {"cpu": "1", "memory": "-1", "foo": "1"},
            "staticAssignments": [{"clusterName": "Bad_Name", "hard": {"cpu": "2", "pods": "1.5"}}],
        }
    )

    refused = api.post(QUOTAS.format(namespace), wrong)

    assert refused.status == 422
    assert {cause["field"] for cause in refused.document["details"]["causes"]} == {
        "spec.overall[cpu]",
        "spec.overall[memory]",
        "spec.overall[foo]",
        "spec.staticAssignments[0].clusterName",
        "spec.staticAssignments[0].hard[pods]",
    }
    assert api.post(QUOTAS.format(namespace), quota({"overall": {"cpu": "x"}})).status == 422


def test_a_quota_that_limits_less_than_it_seems_is_accepted_with_warnings(api: Client, namespace: str) -> None:
    parts = [{"clusterName": "nowhere", "hard": {"cpu": "1"}}]

    asked = quota({"overall": {"cpu": "1", "pods": "3"}, "staticAssignments": parts})
    url, off = QUOTAS.format(namespace), "the feature gate FederatedQuotaEnforcement is off"
    seen_within_a_second(lambda: off in api.post(url, asked, dryRun="All").headers["warning"])
    made = api.post(url, asked)

    assert made.status == 201, made.body
    for words in (off, "pods: only what workloads request is counted", 'there is no cluster \\"nowhere\\" (yet)'):
        assert words in made.headers["warning"]
    listed = api.ask("GET", QUOTAS.format(namespace), accept=TABLE).document
    assert [column["name"] for column in listed["columnDefinitions"]][:3] == ["Name", "Overall", "Overall_Used"]
    gone = api.delete(f"{QUOTAS.format(namespace)}/team")
    assert gone.status == http.client.OK
    assert "removes the ResourceQuota team from nowhere" in gone.headers["warning"]
