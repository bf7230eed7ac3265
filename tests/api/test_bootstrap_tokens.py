"""Logins with bootstrap tokens, and what callers without a login may read."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.api.controllers import work
from tests.api.server import Client, Server
from tests.api.test_logins import ends
from tests.builders.certificates import request_for
from tests.builders.documents import config_maps
from tests.processes import until

SECRETS = "/api/v1/namespaces/kube-system/secrets"
INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
GROUP = "system:bootstrappers:karmada:default-cluster-token"
ALIKE = "0123456789abcdef"


@pytest.fixture
def token(api: Client) -> Iterator[str]:
    """A bootstrap token that is valid for ten minutes."""
    token_id = secrets.token_hex(3)
    made = api.post(SECRETS, document(token_id, expiration=(datetime.now(UTC) + timedelta(minutes=10)).isoformat()))
    assert made.status == 201, made.body
    yield f"{token_id}.{ALIKE}"
    api.delete(f"{SECRETS}/bootstrap-token-{token_id}")


def document(token_id: str, **values: str) -> dict[str, Any]:
    data = {
        **{"token-id": token_id, "token-secret": ALIKE, "auth-extra-groups": GROUP},
        **{"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true"},
        **values,
    }
    return {
        "metadata": {"name": f"bootstrap-token-{token_id}"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": data,
    }


def test_a_bootstrap_token_is_a_login_with_its_groups(server: Server, token: str) -> None:
    client = server.client(token)

    answer = client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})

    user = answer.document["status"]["userInfo"]
    assert user["username"] == f"system:bootstrap:{token[:6]}"
    assert user["groups"] == ["system:bootstrappers", GROUP, "system:authenticated"]
    assert client.get(config_maps("default")).status == 403
    assert server.client(f"{token[:6]}.{'f' * 16}").get("/api").status == 401


def test_a_review_knows_bootstrap_tokens(api: Client, token: str) -> None:
    answer = api.post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})

    assert answer.document["status"]["user"]["username"] == f"system:bootstrap:{token[:6]}"
    assert ALIKE.encode() not in answer.body


def test_a_watch_ends_with_its_bootstrap_token(server: Server, api: Client, token: str) -> None:
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    with server.client(token).watch(path, fieldSelector="metadata.name=none") as stream:
        assert stream.status == 200
        api.delete(f"{SECRETS}/bootstrap-token-{token[:6]}")

        assert ends(stream)


def test_an_expired_token_is_no_login_and_is_removed(server: Server, api: Client) -> None:
    token_id = secrets.token_hex(3)
    api.post(SECRETS, document(token_id, expiration="2020-01-01T00:00:00Z"))
    assert server.client(f"{token_id}.{ALIKE}").get("/api").status == 401

    work(server, "bootstrap_tokens")

    assert api.get(f"{SECRETS}/bootstrap-token-{token_id}").status == 404


def test_without_a_login_only_cluster_info_is_read(server: Server, api: Client, token: str) -> None:
    work(server, "bootstrap_tokens")
    nobody = server.client("")

    data = nobody.get(INFO).document["data"]

    assert f"https://127.0.0.1:{server.tls_port}" in data["kubeconfig"]
    assert "certificate-authority-data" in data["kubeconfig"]
    assert f"jws-kubeconfig-{token[:6]}" in data
    assert nobody.get("/api/v1/namespaces/kube-public/configmaps").status == 401
    assert nobody.patch(INFO, {"data": {"a": "b"}}).status == 401
    assert nobody.get(f"{INFO}?watch=true").status in (400, 403)
    assert nobody.get("/api/v1/namespaces/default/configmaps/cluster-info").status == 401


def test_a_role_decides_whether_cluster_info_is_read_without_a_login(server: Server, api: Client) -> None:
    bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-public/rolebindings"
    name = "karmada:bootstrap-signer-clusterinfo"
    kept = api.get(f"{bindings}/{name}").document

    api.delete(f"{bindings}/{name}")

    try:
        until(lambda: server.client("").get(INFO).status == 403, within=10)
    finally:
        again = {key: kept[key] for key in ("apiVersion", "kind", "roleRef", "subjects")}
        api.post(bindings, {**again, "metadata": {"name": name, "labels": kept["metadata"]["labels"]}})


@pytest.mark.parametrize("cluster", ["rbac-generator", "member7", "member8"])
def test_a_holder_of_a_token_gets_the_certificate_of_a_new_agent(server: Server, token: str, cluster: str) -> None:
    requests, client = "/apis/certificates.k8s.io/v1/certificatesigningrequests", server.client(token)
    name, usages = f"{cluster}-{token[:6]}", ["client auth", "digital signature"]
    request = request_for(f"system:karmada:agent:{cluster}", "system:karmada:agents")
    spec = {"request": request, "signerName": "kubernetes.io/kube-apiserver-client", "usages": usages}
    assert client.post(requests, {"metadata": {"name": name}, "spec": spec}).status == 201

    work(server, "signing_requests")

    assert client.get(f"{requests}/{name}").document["status"]["certificate"]
