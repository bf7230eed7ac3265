"""kubectl's commands about rights and tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.server import Client, Server
from tests.kubectl.test_kubectl import Kubectl
from tests.processes import until

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@pytest.fixture
def k(kubectl: Path, server: Server, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl, server, namespace, tmp_path)


def test_a_role_is_bound_asked_about_and_impersonated(k: Kubectl, api: Client) -> None:
    k("create", "rolebinding", "eva-edits", "--clusterrole=edit", "--user=eva")
    asked = {"verb": "create", "group": "apps", "resource": "deployments", "namespace": k.namespace}
    spec = {"user": "eva", "groups": ["system:authenticated"], "resourceAttributes": asked}

    def is_bound() -> bool:
        allowed: bool = api.post(REVIEWS, {"spec": spec}).document["status"]["allowed"]
        return allowed

    until(is_bound, within=10)
    assert k("auth", "can-i", "create", "deployments", "--as", "eva").strip() == "yes"
    assert k("auth", "can-i", "create", "deployments", "--as", "eva", "-n", "default", code=1).strip() == "no"
    assert k("auth", "can-i", "delete", "clusters", "--as", "eva", code=1).startswith("no")
    listed = k("auth", "can-i", "--list", "--as", "eva")
    assert "deployments.apps" in listed
    assert "[get list watch create delete deletecollection patch update]" in listed
    assert "eva" in k("auth", "whoami", "--as", "eva")
    assert "shop-team" in k("auth", "whoami", "--as", "eva", "--as-group", "shop-team")
    k("create", "configmap", "by-eva", "--from-literal=a=b", "--as", "eva")
    assert 'User "eva" cannot create resource "drains"' in k(
        "create", "-f", "docs/examples/drain.yaml", "--as", "eva", "--validate=false", code=1
    )


def test_roles_of_a_file_are_reconciled(k: Kubectl) -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
    role = {**head, "metadata": {"name": "reads", "namespace": k.namespace}, "rules": [rule]}
    more = {**role, "rules": [rule, {**rule, "resources": ["services"]}]}

    k("auth", "reconcile", "-f", k.file(role))
    k("auth", "reconcile", "-f", k.file(more))

    assert "services" in k("describe", "role", "reads")


def test_a_token_of_a_service_account_is_created(k: Kubectl, server: Server) -> None:
    k("create", "serviceaccount", "ci")

    secret = k("create", "token", "ci", "--duration", "20m").strip()

    assert server.client(secret).get("/api").status == 200
    assert f"system:serviceaccount:{k.namespace}:ci" in k("auth", "whoami", "--token", secret)
