"""What-if over HTTP: small questions are answered at once, large ones by a process of their own, for their user."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis

from tests.api.roles import RBAC, bind, user, wait_until_allowed
from tests.api.server import Answer, Client, Server
from tests.builders.documents import CLUSTERS, cluster
from tests.processes import until

OURS = "failover.lifeboat.io"
WHATIFS = "/apis/failover.lifeboat.io/v1alpha1/whatifs"
BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings"
Document = dict[str, Any]


def ask(api: Client, *changes: Document, **query: str) -> Answer:
    return api.post(WHATIFS, {"spec": {"changes": list(changes)}}, **query)


@pytest.fixture
def placed(api: Client, namespace: str) -> str:
    """A cluster with a binding on it; its name."""
    name = f"{namespace}-a"
    assert api.post(CLUSTERS, cluster(name)).status == 201
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": namespace}
    affinity = {"clusterAffinity": {"clusterNames": [name]}}
    spec = {"resource": resource, "clusters": [{"name": name}], "placement": affinity}
    assert api.post(BINDINGS.format(namespace), {"metadata": {"name": "web-deployment"}, "spec": spec}).status == 201
    return name


def test_a_small_question_is_answered_at_once_and_nothing_is_stored(api: Client, placed: str, namespace: str) -> None:
    answer = ask(api, {"type": "ClustersDrained", "names": [placed]})

    assert answer.status == 201, answer.body
    status = answer.document["status"]
    assert status["phase"] == "Finished"
    assert status["sentence"].startswith("moves nothing, 1 ")
    (stuck,) = [*status["effects"].get("withoutPlace", []), *status["effects"].get("held", [])]
    assert (stuck["workload"], stuck["from"]) == (f"Deployment {namespace}/web", {placed: 0})
    assert "namespaces" in status["effects"]
    assert api.get(WHATIFS).status == 405


def test_a_question_about_an_override_policy_does_not_show_the_values_of_a_secret(
    api: Client, server: Server, placed: str, namespace: str
) -> None:
    """The viewer of the fleet may ask, and may not read Secrets."""
    viewer = user(server, f"{namespace}-viewer")
    bind(api, f"{namespace}-viewer", to={"kind": "User", "name": f"{namespace}-viewer"}, roles=["lifeboat:viewer"])
    wait_until_allowed(viewer, "create", "whatifs", group=OURS)
    secret = {"metadata": {"name": "keys"}, "data": {"password": "aHVudGVyMg=="}}
    assert api.post(f"/api/v1/namespaces/{namespace}/secrets", secret).status == 201
    resource = {"apiVersion": "v1", "kind": "Secret", "name": "keys", "namespace": namespace}
    spec = {"resource": resource, "clusters": [{"name": placed}]}
    assert api.post(BINDINGS.format(namespace), {"metadata": {"name": "keys-secret"}, "spec": spec}).status == 201
    image = {"component": "Tag", "operator": "replace", "value": "2", "predicate": {"path": "/data/password"}}
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterOverridePolicy",
        "metadata": {"name": f"{namespace}-p"},
        "spec": {
            "resourceSelectors": [resource],
            "overrideRules": [{"overriders": {"imageOverrider": [image]}}],
        },
    }

    answer = ask(viewer, {"type": "PolicyEdited", "policy": policy})

    assert answer.status == 201, answer.body
    (changed,) = answer.document["status"]["effects"]["overridden"]
    assert "the text at /data/password is not an image such as registry.example/team/app:v1" in changed["message"]
    assert b"aHVudGVyMg" not in answer.body


def test_a_question_shows_what_changes_in_a_workload_to_those_who_may_read_the_workload(
    api: Client, server: Server, placed: str, namespace: str
) -> None:
    """Otherwise the viewer of the fleet would read any field, by asking what another value would change."""
    name = f"{namespace}-viewer"
    viewer, subject = user(server, name), {"kind": "User", "name": name}
    bind(api, name, to=subject, roles=["lifeboat:viewer"])
    wait_until_allowed(viewer, "create", "whatifs", group=OURS)
    pod = {"containers": [{"name": "web", "image": "web:1", "args": ["--password=hunter2"]}]}
    labels = {"app": "web"}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    assert api.post(deployments, {"metadata": {"name": "web"}, "spec": spec}).status == 201
    path = "/spec/template/spec/containers/0/args/0"
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterOverridePolicy",
        "metadata": {"name": f"{namespace}-p"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace}],
            "overrideRules": [{"overriders": {"plaintext": [{"path": path, "operator": "replace", "value": "x"}]}}],
        },
    }
    question = {"type": "PolicyEdited", "policy": policy}

    blind = ask(viewer, question)
    bind(api, f"{name}-view", to=subject, roles=["view"], namespace=namespace)
    wait_until_allowed(viewer, "get", "deployments", group="apps", namespace=namespace)
    seeing = ask(viewer, question)

    assert b"hunter2" not in blind.body
    (changed,) = blind.document["status"]["effects"]["overridden"]
    assert changed["message"] == f"{placed}: it gets another content, which users see who may get the workload"
    assert b"instead of --password=hunter2" in seeing.body


def test_a_user_who_reads_another_namespace_sees_numbers_and_no_names(
    api: Client, server: Server, placed: str, namespace: str
) -> None:
    name = f"{namespace}-asker"
    asker, subject = user(server, name), {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    body = {"metadata": {"name": name}, "rules": [{"apiGroups": [OURS], "resources": ["whatifs"], "verbs": ["*"]}]}
    assert api.post(f"{RBAC}/clusterroles", body).status == 201
    bind(api, name, to=subject, roles=[name])
    wait_until_allowed(asker, "create", "whatifs", group=OURS)
    question = {"type": "ClustersDrained", "names": [placed]}

    blind = ask(asker, question)
    bind(api, f"{name}-view", to=subject, roles=["lifeboat:viewer"], namespace=namespace)
    wait_until_allowed(asker, "list", "resourcebindings", group="work.karmada.io", namespace=namespace)
    seeing = ask(asker, question)

    assert blind.status == 201, blind.body
    assert namespace not in blind.body.decode().replace(placed, "")
    assert sum(blind.document["status"]["effects"]["hidden"].values()) == 1
    assert blind.document["status"]["sentence"] == seeing.document["status"]["sentence"]
    assert f"Deployment {namespace}/web" in seeing.body.decode()


WRONG: dict[str, tuple[list[Any], str]] = {
    "no change": ([], "spec.changes"),
    "no type": ([{"names": ["member1"]}], "spec.changes[0].type"),
    "another type": ([{"type": "Fire"}], "spec.changes[0].type"),
    "an unknown field": ([{"type": "Cordoned", "names": ["a"], "until": 1}], "spec.changes[0]"),
    "a text that is no reference": ([{"type": "ObjectsDeleted", "refs": ["web"]}], "spec.changes[0]"),
    "a wrong type of a field": ([{"type": "ClustersLost", "names": "member1"}], "spec.changes[0].names"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_question_names_the_field(api: Client, case: str) -> None:
    changes, field = WRONG[case]

    answer = ask(api, *changes)

    assert answer.status == 422, answer.body
    assert [cause["field"] for cause in answer.document["details"]["causes"]] == [field]


def test_a_large_question_is_answered_in_the_background_for_its_user_only(
    server: Server, api: Client, namespace: str, placed: str
) -> None:
    spec = {"changes": [{"type": "ClustersDrained", "names": [placed]}], "background": True}

    asked = api.post(WHATIFS, {"spec": spec})

    assert (asked.status, asked.document["status"]["phase"]) == (202, "Running")
    where = f"{WHATIFS}/{asked.document['metadata']['name']}"
    until(lambda: api.get(where).document["status"]["phase"] != "Running", within=60)
    status = api.get(where).document["status"]
    assert (status["phase"], status["progress"]) == ("Finished", 1), status
    assert len([*status["effects"].get("withoutPlace", []), *status["effects"].get("held", [])]) == 1
    table = api.ask("GET", where, accept="application/json;as=Table;v=v1;g=meta.k8s.io").document
    assert table["rows"][0]["cells"][1:3] == ["Finished", status["sentence"]]

    with redis.Redis.from_url(server.environment["REDIS_URL"]) as client:
        kept = json.loads(client.get(f"lifeboat:what-if:{where.rpartition('/')[2]}"))
        client.set("lifeboat:what-if:of-another", json.dumps({**kept, "user": "another"}), ex=60)
    assert api.get(f"{WHATIFS}/of-another").status == 404
