"""Tokens of ServiceAccounts: made by request, valid for a time, ended with what they belong to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.roles import bind
from tests.api.server import Answer, Client, Server
from tests.api.test_logins import ends
from tests.builders.documents import config_maps
from tests.processes import until

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


@pytest.fixture
def account(api: Client, namespace: str) -> str:
    """The URL of a ServiceAccount that may read its namespace."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    assert api.post(accounts, {"metadata": {"name": "ci"}}).status == 201
    bind(api, "ci", to={"kind": "ServiceAccount", "name": "ci"}, roles=("view",), namespace=namespace)
    return f"{accounts}/ci"


def requested(api: Client, account: str, **spec: Any) -> Answer:
    return api.post(f"{account}/token", {"spec": spec})


def secret_of(answer: Answer) -> str:
    assert answer.status == 201, answer.body
    secret: str = answer.document["status"]["token"]
    return secret


def reviewed(api: Client, secret: str, **spec: Any) -> dict[str, Any]:
    status: dict[str, Any] = api.post(REVIEWS, {"spec": {"token": secret, **spec}}).document["status"]
    return status


def test_a_token_has_the_rights_of_its_service_account(
    server: Server, api: Client, account: str, namespace: str
) -> None:
    client = server.client(secret_of(requested(api, account)))

    until(lambda: client.get(config_maps(namespace)).status == 200, within=10)
    assert client.get(config_maps("default")).status == 403
    me = client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}).document["status"]["userInfo"]
    assert me["username"] == f"system:serviceaccount:{namespace}:ci"
    assert f"system:serviceaccounts:{namespace}" in me["groups"]


def test_a_token_ends_with_its_service_account_also_if_one_of_that_name_is_made_again(
    server: Server, api: Client, account: str
) -> None:
    client = server.client(secret_of(requested(api, account)))
    assert client.get("/api").status == 200

    api.delete(account)
    assert client.get("/api").status == 401
    api.post(account.rpartition("/")[0], {"metadata": {"name": "ci"}})
    assert client.get("/api").status == 401


@pytest.mark.parametrize("what", ["its account", "its bound Secret"])
def test_a_token_ends_when_the_deletion_of_what_it_belongs_to_begins(
    server: Server, api: Client, account: str, namespace: str, what: str
) -> None:
    """A finalizer, which the holder of the token may set, does not keep the token valid."""
    held = f"/api/v1/namespaces/{namespace}/secrets/held"
    api.post(held.rpartition("/")[0], {"metadata": {"name": "held"}})
    secret = secret_of(requested(api, account, boundObjectRef={"kind": "Secret", "name": "held"}))
    client = server.client(secret)
    assert client.get("/api").status == 200
    owner = account if what == "its account" else held
    assert api.patch(owner, {"metadata": {"finalizers": ["example.com/stay"]}}).status == 200

    with client.watch(f"{account.rpartition('/')[0]}", fieldSelector="metadata.name=none") as stream:
        assert stream.status in (200, 403)
        assert api.delete(owner).status == 200
        assert api.get(owner).status == 200, "the finalizer keeps it"

        assert client.get("/api").status == 401
        assert not reviewed(api, secret)["authenticated"]
        assert stream.status == 403 or ends(stream)
    api.patch(owner, {"metadata": {"finalizers": None}})


def test_a_bound_token_ends_with_its_secret(server: Server, api: Client, account: str, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    api.post(path, {"metadata": {"name": "held"}})
    client = server.client(secret_of(requested(api, account, boundObjectRef={"kind": "Secret", "name": "held"})))
    assert client.get("/api").status == 200

    api.delete(f"{path}/held")

    assert client.get("/api").status == 401


def test_a_token_expires(server: Server, api: Client, account: str, namespace: str) -> None:
    client = server.client(secret_of(requested(api, account, expirationSeconds=600)))
    assert client.get("/api").status == 200

    server.sql(f"UPDATE api_serviceaccounttoken SET expires = now() WHERE namespace = '{namespace}'")

    assert client.get("/api").status == 401


def test_a_token_for_another_audience_is_no_login_here(server: Server, api: Client, account: str) -> None:
    secret = secret_of(requested(api, account, audiences=["vault"]))

    assert server.client(secret).get("/api").status == 401
    assert not reviewed(api, secret)["authenticated"]
    assert reviewed(api, secret, audiences=["vault"])["authenticated"]


def test_a_review_names_the_user_of_a_token_and_never_shows_the_token(api: Client, account: str) -> None:
    secret = secret_of(requested(api, account))

    answer = api.post(REVIEWS, {"spec": {"token": secret}})

    assert answer.document["status"]["user"]["username"].endswith(":ci")
    assert secret.encode() not in answer.body
    assert reviewed(api, api.token)["user"]["username"] == "admin"
    assert not reviewed(api, "wrong")["authenticated"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"expirationSeconds": 10}, "spec.expirationSeconds"),
        ({"expirationSeconds": 1 << 33}, "spec.expirationSeconds"),
        ({"boundObjectRef": {"kind": "Node", "name": "a"}}, "spec.boundObjectRef.kind"),
        ({"boundObjectRef": {"kind": "Secret"}}, "spec.boundObjectRef.name"),
        ({"audiences": "vault"}, "spec.audiences"),
    ],
)
def test_a_wrong_request_names_its_field(api: Client, account: str, spec: dict[str, Any], field: str) -> None:
    answer = requested(api, account, **spec)

    assert answer.status == 422
    assert [cause["field"] for cause in answer.document["details"]["causes"]] == [field]


def test_a_body_for_another_place_is_refused(api: Client, account: str) -> None:
    path = f"{account}/token"

    assert api.post(path, {"metadata": {"name": "other"}}).document["details"]["causes"][0]["field"] == "metadata.name"
    assert api.post(path, {"metadata": {"namespace": "other"}}).status == 400
    assert 'Pod in version "v1"' in api.post(path, {"apiVersion": "v1", "kind": "Pod"}).document["message"]
    assert api.post(REVIEWS, {"spec": {}}).status == 400


def test_a_longer_lifetime_is_shortened_with_a_warning(api: Client, account: str) -> None:
    answer = requested(api, account, expirationSeconds=360_000)

    assert answer.document["spec"]["expirationSeconds"] == 172_800
    assert answer.document["status"]["expirationTimestamp"].endswith("Z")
    assert "requested expiration of 360000 seconds shortened to 172800 seconds" in answer.headers["warning"]
    assert "warning" not in requested(api, account, expirationSeconds=172_800).headers


def test_a_token_of_nothing_is_not_found(api: Client, account: str) -> None:
    assert requested(api, f"{account}-other").status == 404
    assert requested(api, account, boundObjectRef={"kind": "Secret", "name": "none"}).status == 404


def test_secrets_of_tokens_are_stored_as_hashes(server: Server, api: Client, account: str, namespace: str) -> None:
    secret = secret_of(requested(api, account))

    rows = server.sql(f"SELECT digest FROM api_serviceaccounttoken WHERE namespace = '{namespace}'")

    assert rows
    assert all(secret not in row[0] for row in rows)
