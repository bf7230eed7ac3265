"""A PUT of an object that does not exist creates it, if Kubernetes does that for its kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.api.server import SECONDS, Answer, Client
from tests.builders.documents import config_map, config_maps
from tests.processes import until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles"


def put(client: Client, path: str, body: Any, headers: Mapping[str, str]) -> Answer:
    sent = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json", **headers}
    return client.send("PUT", path, json.dumps(body).encode(), sent)


@pytest.mark.parametrize("headers", [{}, {"Cookie": "theme=dark"}], ids=["lean", "full"])
def test_a_lease_that_does_not_exist_is_created_and_then_changed(
    api: Client, namespace: str, headers: dict[str, str]
) -> None:
    path = f"{LEASES.format(namespace)}/node-1"
    trial = put(api, f"{path}?dryRun=All", {"metadata": {"name": "node-1"}, "spec": {"holderIdentity": "a"}}, headers)
    made = put(api, path, {"metadata": {"name": "node-1"}, "spec": {"holderIdentity": "a"}}, headers)
    changed = put(api, path, {"metadata": {"name": "node-1"}, "spec": {"holderIdentity": "b"}}, headers)

    assert (trial.status, made.status, changed.status) == (201, 201, 200), made.body
    assert changed.document["metadata"]["uid"] == made.document["metadata"]["uid"]
    assert api.get(path).document["spec"]["holderIdentity"] == "b"


def test_a_put_based_on_a_version_creates_as_in_kubernetes_and_one_based_on_an_object_does_not(
    api: Client, namespace: str
) -> None:
    path = f"{LEASES.format(namespace)}/node-1"

    other = api.put(path, {"metadata": {"name": "node-1", "uid": "gone"}})
    made = api.put(path, {"metadata": {"name": "node-1", "resourceVersion": "7"}})

    assert (other.status, other.document["reason"]) == (409, "Conflict")
    assert made.status == 201, made.body


def test_other_kinds_are_not_created(api: Client, namespace: str) -> None:
    answer = api.put(config_maps(namespace, "one"), config_map("one"))

    assert (answer.status, answer.document["reason"]) == (404, "NotFound")
    assert api.put(f"{LEASES.format('nowhere')}/one", {"metadata": {"name": "one"}}).status == 404


def test_who_may_only_update_creates_nothing(api: Client, namespace: str) -> None:
    role = {"metadata": {"name": "beats"}, "rules": [_leases("update")]}
    binding = {
        "metadata": {"name": "beats"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "beats"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"beats-{namespace}"}],
    }
    assert api.put(f"{ROLES.format(namespace)}/beats", role).status == 201
    assert api.put(f"{ROLES.format(namespace).replace('roles', 'rolebindings')}/beats", binding).status == 201
    path, sent = f"{LEASES.format(namespace)}/one", {"Impersonate-User": f"beats-{namespace}"}

    def asked() -> Answer:
        return put(api, path, {"metadata": {"name": "one"}}, sent)

    until(
        lambda: "cannot create resource" in asked().document["message"], within=SECONDS
    )  # roles are known in a second
    assert asked().status == 403
    assert api.put(f"{ROLES.format(namespace)}/beats", {**role, "rules": [_leases("update", "create")]}).status == 200
    until(lambda: asked().status == 201, within=SECONDS)


def _leases(*verbs: str) -> dict[str, Any]:
    return {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": [*verbs]}
