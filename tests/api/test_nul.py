"""A NUL is a character to JSON and none to PostgreSQL: one user's object with it harms no object of another user."""

from typing import Any

import pytest

from tests.api.controllers import work
from tests.api.server import Client, Server
from tests.builders.documents import config_map, config_maps, deployment, deployments, policy

WORK = "/apis/work.karmada.io/v1alpha2"
OURS = "/apis/failover.lifeboat.io/v1alpha1"
REBALANCERS = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers"


def _object(api_version: str, kind: str, name: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content}


def _policies(namespace: str) -> str:
    return f"/apis/policy.karmada.io/v1alpha1/namespaces/{namespace}/propagationpolicies"


def _binding(name: str, **spec: Any) -> dict[str, Any]:
    resource = {"apiVersion": "apps/v1", "kind": "Deploy\0ment", "name": "w\0", "namespace": "n\0", "uid": "u\0"}
    return _object("work.karmada.io/v1alpha2", "ResourceBinding", name, spec={"resource": resource, **spec})


def test_what_holds_a_nul_is_taken_or_refused_and_the_work_of_others_goes_on(
    server: Server, api: Client, namespace: str
) -> None:
    place = {"placement": {"clusterAffinity": {"clusterNames": ["a\0"]}}, "clusters": [{"name": "a\0", "replicas": 1}]}
    owned = config_map("owned")
    owned["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "a\0", "uid": "u\0"}]
    selecting = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "we\0b"}, {"apiVersion": "v1", "kind": "\0"}]
    strange = [
        (_policies(namespace), policy("strange", resourceSelectors=selecting)),
        (f"{WORK}/namespaces/{namespace}/resourcebindings", _binding("strange", **place)),
        (
            f"{WORK}/namespaces/{namespace}/resourcebindings",
            _binding("leaving", gracefulEvictionTasks=[{"fromCluster": "\0", "producer": "p", "reason": "r\0"}]),
        ),
        (
            REBALANCERS,
            _object(
                "apps.karmada.io/v1alpha1",
                "WorkloadRebalancer",
                f"strange-{namespace}",
                spec={
                    "workloads": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "a\0", "namespace": "b\0"}]
                },
            ),
        ),
        (
            f"{OURS}/drains",
            _object("failover.lifeboat.io/v1alpha1", "Drain", f"strange-{namespace}", spec={"cluster": "a\0"}),
        ),
        (
            f"/api/v1/namespaces/{namespace}/events",
            _object(
                "v1",
                "Event",
                "strange",
                reason="r\0",
                message="m\0",
                involvedObject={"namespace": namespace, "uid": "\0"},
            ),
        ),
        (config_maps(namespace), owned),
    ]

    answers = [api.post(path, document) for path, document in strange]
    for path, document in [(_policies(namespace), policy("plain")), (deployments(namespace), deployment("web"))]:
        assert api.post(path, document).status == 201
    work(server, "policies", "scheduler", "dependencies", "drains", "rebalancer", "graceful_eviction", "garbage")

    assert [(one.status, one.body) for one in answers if one.status not in (201, 422)] == []
    assert api.get(f"{WORK}/namespaces/{namespace}/resourcebindings/web-deployment").status == 200


@pytest.mark.parametrize(
    ("path", "document"),
    [
        (f"{OURS}/failbacks", {"metadata": {"name": "strange"}, "spec": {"cluster": "a\0"}}),
        (f"{OURS}/placementreviews", {"spec": {"binding": "a\0/b\0"}}),
    ],
)
def test_a_question_about_a_name_with_a_nul_finds_nothing(api: Client, path: str, document: dict[str, Any]) -> None:
    answer = api.post(path, document)

    assert answer.status == 422, answer.body
