"""Tokens and sessions are listed with their last use, and revoked."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.api.controllers import work
from tests.api.roles import bind, user, wait_until_allowed
from tests.api.server import Client, Server
from tests.api.test_browser_session import Browser
from tests.api.test_logins import ends

CREDENTIALS = "/apis/identity.lifeboat.io/v1alpha1/credentials"
ME = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture
def eva(server: Server) -> Client:
    return user(server, "erin")


def listed(client: Client) -> list[dict[str, Any]]:
    answer = client.get(CREDENTIALS)
    assert answer.status == 200, answer.body
    items: list[dict[str, Any]] = answer.document["items"]
    return items


def test_users_see_their_own_credentials_and_administrators_see_all(api: Client, eva: Client) -> None:
    own, all_ = listed(eva), listed(api)

    assert {one["status"]["user"] for one in own} == {"erin"}
    assert {"erin", "admin"} <= {one["status"]["user"] for one in all_}
    others = next(one["metadata"]["name"] for one in all_ if one["status"]["user"] == "admin")
    assert eva.get(f"{CREDENTIALS}/{others}").status == 404
    assert eva.delete(f"{CREDENTIALS}/{others}").status == 404
    assert eva.token not in str(all_)


def test_a_revoked_token_ends_its_stream_within_a_second_or_so(server: Server, api: Client, eva: Client) -> None:
    secret = server.manage("token", "create", "--user", "erin", "--name", "laptop")
    laptop = server.client(secret)
    (name,) = (one["metadata"]["name"] for one in listed(eva) if one["status"]["label"] == "laptop")
    bind(api, "erin-views", to={"kind": "User", "name": "erin"}, roles=("view",))
    wait_until_allowed(laptop, "watch", "namespaces")
    with laptop.watch("/api/v1/namespaces", fieldSelector="metadata.name=none") as stream:
        assert stream.status == 200
        assert eva.delete(f"{CREDENTIALS}/{name}", dryRun="All").status == 200
        assert laptop.get("/api").status == 200
        began = time.monotonic()
        assert eva.delete(f"{CREDENTIALS}/{name}").status == 200
        assert ends(stream)
        assert time.monotonic() - began < 5, "on a busy machine; a second on a quiet one"
    assert laptop.get("/api").status == 401
    assert eva.get(f"{CREDENTIALS}/{name}").status == 404


def test_a_session_is_listed_with_its_last_use_and_revoked(server: Server, api: Client) -> None:
    browser = Browser(server)
    assert browser.log_in("admin", "correct-horse-battery").status == 302
    assert browser.open("GET", "/api").status == 200
    sessions = [one for one in listed(api) if one["status"]["type"] == "Session"]
    assert sessions
    assert all(one["status"]["address"] and one["status"]["lastUsed"] for one in sessions)
    assert all(key not in str(sessions) for key in browser.cookies.values())

    for one in sessions:
        assert api.delete(f"{CREDENTIALS}/{one['metadata']['name']}").status == 200

    assert browser.open("GET", "/api").status in (401, 403)
    assert not [one for one in listed(api) if one["status"]["type"] == "Session"]


def test_tokens_of_service_accounts_are_listed_and_the_token_of_a_secret_ends_with_it(
    server: Server, api: Client, namespace: str
) -> None:
    accounts, secrets = (f"/api/v1/namespaces/{namespace}/{plural}" for plural in ("serviceaccounts", "secrets"))
    api.post(accounts, {"metadata": {"name": "ci"}})
    requested = api.post(f"{accounts}/ci/token", {"spec": {}}).document["status"]["token"]
    annotations = {"kubernetes.io/service-account.name": "ci"}
    metadata = {"name": "held", "annotations": annotations}
    api.post(secrets, {"metadata": metadata, "type": "kubernetes.io/service-account-token"})
    work(server, "token_secrets")
    ci = server.client(requested)
    assert ci.get("/api").status == 200

    found = {one["status"]["type"]: one for one in listed(ci)}

    assert set(found) == {"RequestedToken", "SecretToken"}
    assert found["RequestedToken"]["status"]["lastUsed"]
    assert "lastUsed" not in found["SecretToken"]["status"]
    refused = ci.delete(f"{CREDENTIALS}/{found['SecretToken']['metadata']['name']}")
    assert refused.status == 405
    assert f"kubectl delete secret held -n {namespace}" in refused.document["message"]
    assert ci.delete(f"{CREDENTIALS}/{found['RequestedToken']['metadata']['name']}").status == 200
    assert ci.get("/api").status == 401


def test_a_user_with_the_name_of_an_account_has_no_tokens_of_it(server: Server, api: Client, namespace: str) -> None:
    """A provider of logins may give such a name, for example oidc:ci."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.post(accounts, {"metadata": {"name": "ci"}})
    requested = api.post(f"{accounts}/ci/token", {"spec": {}}).document["status"]["token"]
    headers = {"Authorization": f"Bearer {api.token}", "Impersonate-User": f"{namespace}:ci"}

    answer = api.send("GET", CREDENTIALS, None, headers)

    assert answer.document["items"] == []
    assert len(listed(server.client(requested))) == 1


def test_a_user_is_described_with_uid_groups_and_the_credential(eva: Client) -> None:
    info = eva.post(ME, {}).document["status"]["userInfo"]

    assert info["username"] == "erin"
    assert info["uid"].isdecimal()
    assert "system:authenticated" in info["groups"]
    (identifier,) = info["extra"]["authentication.kubernetes.io/credential-id"]
    assert identifier.startswith("JTI=")
    assert f"token-{identifier.removeprefix('JTI=')}" in {one["metadata"]["name"] for one in listed(eva)}
