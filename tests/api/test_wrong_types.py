"""Whatever type a value has, the answer is a Status of 4xx or the object: never a 5xx.

Every field of every kind, with values of every other type, as JSON, YAML, merge patch, JSON patch and applied. CI asks
for a part that fits into its time. LIFEBOAT_WRONG_TYPES=N asks for every Nth of our own kinds and of all others.
"""

from __future__ import annotations

import json
import os

import pytest

from controlplane.kind import KINDS
from controlplane.wire import protobuf
from tests.api.server import Client
from tests.api.wrong_types import attempts, bent, created
from tests.builders.documents import (
    CLUSTERS,
    cluster,
    config_map,
    config_maps,
    deployment,
    deployments,
    policies,
    policy,
)
from tests.core.test_wire_protobuf import body as enveloped

OURS = sorted(kind.key for kind in KINDS if kind.resource.group.endswith(("karmada.io", "lifeboat.io")))
OTHERS = sorted(kind.key for kind in KINDS if kind.key not in OURS)
EACH = {"ours": 13, "others": 97}
CHOSEN = int(os.environ.get("LIFEBOAT_WRONG_TYPES", "0"))


@pytest.mark.parametrize("which", ["ours", "others"])
def test_a_value_of_the_wrong_type_is_never_an_error_of_the_server(api: Client, namespace: str, which: str) -> None:
    asked, failed = 0, list[str]()
    for number, key in enumerate(OURS if which == "ours" else OTHERS):
        each = CHOSEN or EACH[which]
        url, document = created(key, namespace)
        api.post(url, document)
        for one in attempts(key, namespace, each=each, first=number % each):
            asked += 1
            query = "?dryRun=All&fieldManager=t&fieldValidation=Ignore"
            answer = api.ask(one.method, one.url + query, one.body, type=one.type)
            if answer.status >= 500:
                failed.append(f"{answer.status} {one.method} {one.url} {one.type} {one.body[:300]!r}")
        if KINDS[key].resource.group == "config.karmada.io":  # rules that would change what other kinds mean
            api.delete(f"{url}/wrong")

    assert asked > 500
    assert not failed, "\n".join(failed[:20])


def test_a_question_or_an_action_with_a_wrong_body_is_never_an_error_of_the_server(api: Client, namespace: str) -> None:
    api.post(deployments(namespace), deployment("wrong"))
    api.post(CLUSTERS, cluster("wrong"))
    ours, access = "/apis/failover.lifeboat.io/v1alpha1", "/apis/authorization.k8s.io/v1"
    why, scale = {"reason": "a", "expiresInSeconds": 60}, {"spec": {"replicas": 1}}
    reviewed = {"manifest": deployment("a"), "policy": policy("a")}
    lost = {"lost": ["wrong"], "added": [cluster("b")], "changed": [cluster("wrong")]}
    placed = {"manifest": deployment("a"), "placement": {"clusterAffinity": {"clusterNames": ["b"]}}, "clusters": lost}
    attributes = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": namespace, "group": ""}}
    options = {"preconditions": {"uid": "a"}, "propagationPolicy": "Background", "dryRun": ["All"]}
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 2, "from": "/spec"}]
    asked = (
        ("POST", f"{ours}/placementreviews", "application/json", {"spec": reviewed}),
        ("POST", f"{ours}/placementreviews", "application/json", {"spec": placed}),
        ("POST", f"{access}/selfsubjectaccessreviews", "application/json", {"spec": attributes}),
        ("POST", f"{access}/selfsubjectrulesreviews", "application/json", {"spec": {"namespace": namespace}}),
        ("POST", f"{CLUSTERS}/wrong/fence?dryRun=All", "application/json", why),
        ("POST", f"{ours}/namespaces/{namespace}/evictions/a.b/hold", "application/json", why),
        ("DELETE", f"{deployments(namespace, 'wrong')}?dryRun=All", "application/json", options),
        ("PUT", f"{deployments(namespace, 'wrong')}/scale?dryRun=All", "application/json", scale),
        ("PATCH", f"{deployments(namespace, 'wrong')}/scale?dryRun=All", "application/merge-patch+json", scale),
        ("PATCH", f"{deployments(namespace, 'wrong')}?dryRun=All", "application/json-patch+json", operations),
    )
    step = 1 if CHOSEN else 7
    requests = [one for method, url, type_, body in asked for one in bent(method, url, type_, body)][::step]

    failed = [
        f"{answer.status} {one.method} {one.url} {one.body[:300]!r}"
        for one in requests
        if (answer := api.ask(one.method, one.url, one.body, type=one.type)).status >= 500
    ]

    assert not failed, "\n".join(failed[:20])


@pytest.mark.parametrize(
    ("failover", "field"),
    [
        ({"cluster": {"purgeMode": []}}, "spec.failover.cluster.purgeMode"),
        ({"application": {"purgeMode": {}}}, "spec.failover.application.purgeMode"),
        ({"cluster": {"pureMode": {}}}, "spec.failover.cluster.pureMode"),
    ],
)
def test_a_purge_mode_that_is_no_text_is_refused_by_its_field(
    api: Client, namespace: str, failover: object, field: str
) -> None:
    answer = api.post(policies(namespace), policy("wrong", failover=failover))

    assert answer.status == 422, answer.body
    assert field in [one["field"] for one in answer.document["details"]["causes"]]


@pytest.mark.parametrize("tagged", ["!!timestamp x", "!!bool x", "!!int x", "!!float x", "!!binary x", "!!set x"])
def test_a_tag_that_does_not_fit_its_value_is_a_bad_request(api: Client, namespace: str, tagged: str) -> None:
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{a: {tagged}}}\n"

    answer = api.ask("POST", config_maps(namespace), text.encode(), type="application/yaml")

    assert answer.status == 400, answer.body
    assert "YAML" in answer.document["message"]


def test_json_in_protobuf_has_the_same_limit_of_depth(api: Client, namespace: str) -> None:
    deep = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"x":' + b"[" * 900 + b"]" * 900 + b"}"
    raw = enveloped("v1", "ConfigMap", deep, "application/json")

    answer = api.ask("POST", config_maps(namespace), raw, type=protobuf.MEDIA_TYPE)

    assert answer.status == 400, answer.body
    assert "nested deeper" in answer.document["message"]


def test_the_warnings_of_an_answer_are_bounded_as_kubernetes_bounds_them(api: Client, namespace: str) -> None:
    unknown = {f"unknown{number}{'x' * 300}": 1 for number in range(200)}
    document = {**config_map("many"), **unknown}

    answer = api.post(config_maps(namespace), document, fieldValidation="Warn")

    warnings = answer.headers["warning"].split(', 299 - "')
    assert answer.status == 201, answer.body
    assert 10 < len(warnings) <= 16
    assert max(map(len, warnings)) <= 256 + len('299 - ""') + len("\\\\")  # escapes are not counted
    assert json.loads(answer.body)["metadata"]["name"] == "many"
