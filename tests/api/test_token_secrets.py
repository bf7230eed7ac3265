"""Secrets that hold a token of a ServiceAccount, filled in by a controller."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.api.controllers import work
from tests.api.server import Client, Server

TYPE = "kubernetes.io/service-account-token"


@pytest.fixture
def accounts(api: Client, namespace: str) -> str:
    """The URL of the ServiceAccounts of a namespace that has the ServiceAccount ci."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    assert api.post(path, {"metadata": {"name": "ci"}}).status == 201
    return path


def hold(api: Client, namespace: str, name: str = "held", **data: str) -> str:
    """Create a Secret for a token of the ServiceAccount ci, and return its URL."""
    path = f"/api/v1/namespaces/{namespace}/secrets"
    metadata = {"name": name, "annotations": {"kubernetes.io/service-account.name": "ci"}}
    made = api.post(path, {"metadata": metadata, "type": TYPE, "stringData": data})
    assert made.status == 201, made.body
    return f"{path}/{name}"


def data_of(api: Client, path: str) -> dict[str, str]:
    document = api.get(path).document
    return {key: base64.b64decode(value).decode() for key, value in (document.get("data") or {}).items()}


def me(server: Server, token: str) -> dict[str, Any]:
    answer = server.client(token).post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    return answer.document["status"]["userInfo"] if answer.status == 201 else {}


def test_a_token_secret_is_filled_and_its_token_is_the_service_account(
    server: Server, api: Client, accounts: str, namespace: str
) -> None:
    path = hold(api, namespace)

    work(server, "token_secrets")

    data, uid = data_of(api, path), api.get(f"{accounts}/ci").document["metadata"]["uid"]
    assert data["namespace"] == namespace
    assert data["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")
    assert api.get(path).document["metadata"]["annotations"]["kubernetes.io/service-account.uid"] == uid
    user = me(server, data["token"])
    assert user["username"] == f"system:serviceaccount:{namespace}:ci"
    assert user["uid"] == uid
    review = api.post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": data["token"]}}).document
    assert review["status"]["authenticated"]
    work(server, "token_secrets", refs=[f"Secret:{namespace}/held"])
    assert data_of(api, path) == data, "decided again, nothing changes"


@pytest.mark.parametrize("what", ["serviceaccounts/ci", "secrets/held"])
def test_a_token_ends_when_a_deletion_begins(
    server: Server, api: Client, accounts: str, namespace: str, what: str
) -> None:
    path = hold(api, namespace)
    work(server, "token_secrets")
    token = data_of(api, path)["token"]
    assert me(server, token)
    owner = f"/api/v1/namespaces/{namespace}/{what}"
    assert api.patch(owner, {"metadata": {"finalizers": ["example.com/stay"]}}).status == 200

    assert api.delete(owner).status == 200

    assert api.get(owner).status == 200, "the finalizer keeps it"
    assert not me(server, token)
    api.patch(owner, {"metadata": {"finalizers": None}})


def test_a_token_is_valid_until_its_secret_is_deleted(
    server: Server, api: Client, accounts: str, namespace: str
) -> None:
    path = hold(api, namespace)
    work(server, "token_secrets")
    token = data_of(api, path)["token"]

    api.delete(path)

    assert not me(server, token)
    hold(api, namespace)
    work(server, "token_secrets")
    assert not me(server, token), "a Secret of the same name has a token of its own"
    rows = server.sql(f"SELECT count(*) FROM resources_issuedtoken WHERE place = '{namespace}/held'")
    assert rows == [(1,)]


def test_a_token_that_is_removed_from_its_secret_is_replaced(
    server: Server, api: Client, accounts: str, namespace: str
) -> None:
    path = hold(api, namespace)
    work(server, "token_secrets")
    before = data_of(api, path)["token"]

    api.patch(path, {"data": {"token": None}})
    work(server, "token_secrets")

    assert not me(server, before)
    assert me(server, data_of(api, path)["token"])


def test_token_secrets_end_with_their_service_account(
    server: Server, api: Client, accounts: str, namespace: str
) -> None:
    path = hold(api, namespace)
    work(server, "token_secrets")
    token = data_of(api, path)["token"]

    api.delete(f"{accounts}/ci")

    assert not me(server, token)
    work(server, "token_secrets")
    assert api.get(path).status == 404


def test_a_token_that_was_not_issued_is_no_login_and_is_replaced(
    server: Server, api: Client, accounts: str, namespace: str
) -> None:
    chosen = "lbsa_" + "a" * 43
    path = hold(api, namespace, token=chosen)
    assert not me(server, chosen)

    work(server, "token_secrets")

    assert not me(server, chosen)
    assert me(server, data_of(api, path)["token"])


def test_a_token_secret_waits_for_its_service_account(server: Server, api: Client, namespace: str) -> None:
    path = hold(api, namespace)
    work(server, "token_secrets")
    assert data_of(api, path) == {}

    api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "ci"}})
    work(server, "token_secrets")

    assert me(server, data_of(api, path)["token"])
