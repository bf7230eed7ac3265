"""Who gets in, and who may do what."""

from __future__ import annotations

import os
import stat

import pytest

from tests.api.roles import bind
from tests.api.server import Client, Server
from tests.builders.documents import config_map, config_maps
from tests.processes import until


@pytest.fixture(scope="module")
def reader(server: Server) -> Client:
    """A user who may read the fleet, and what is in namespaces except Secrets."""
    server.manage("shell", "-c", "from django.contrib.auth.models import User; User.objects.create_user('reader')")
    bind(server.client(), "reader", to={"kind": "User", "name": "reader"}, roles=("lifeboat:viewer", "view"))
    client = server.client(server.manage("token", "create", "--user", "reader"))
    until(lambda: client.get("/api/v1/configmaps?limit=1").status == 200, within=10)
    return client


_CLOSED = ["/api", "/apis", "/api/v1/namespaces", "/version", "/openapi/v3", "/metrics", "/", "/debug/controllers"]
_NOWHERE = ["/api/v1/nothings", "/no/such/page", "/livez/more"]


@pytest.mark.parametrize("path", _CLOSED + _NOWHERE)
def test_no_request_is_answered_without_a_token(server: Server, path: str) -> None:
    answer = server.client("").get(path)

    assert (answer.status, answer.document["reason"]) == (401, "Unauthorized")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
def test_health_is_for_everybody(server: Server, path: str) -> None:
    assert server.client("").get(path).status == 200


@pytest.mark.parametrize("token", ["wrong", "lb_wrong", "", "ü"])
def test_a_wrong_token_is_refused(server: Server, token: str) -> None:
    answer = server.client("").send(
        "GET", "/api", None, {"Authorization": f"Bearer {token}".encode().decode("latin-1")}
    )

    assert answer.status == 401


def test_a_token_lives_until_it_is_revoked_or_expires(server: Server) -> None:
    client = server.client(server.manage("token", "create", "--user", "admin", "--name", "short", "--days", "1"))
    assert client.get("/version").status == 200
    assert "short\tuntil" in server.manage("token", "list")

    server.sql("UPDATE api_token SET expires = now() - interval '1 second' WHERE name = 'short'")
    assert client.get("/version").status == 401
    server.sql("UPDATE api_token SET expires = NULL WHERE name = 'short'")
    assert client.get("/version").status == 200
    server.manage("token", "revoke", "--user", "admin", "--name", "short")
    assert client.get("/version").status == 401


def test_tokens_are_kept_as_hashes_and_their_use_is_noted(server: Server) -> None:
    secret = server.manage("token", "create", "--user", "admin", "--name", "hashed")
    server.client(secret).get("/version")

    digest, used = server.sql("SELECT digest, last_used FROM api_token WHERE name = 'hashed'")[0]

    assert secret not in digest
    assert len(digest) == 64
    assert used.second == 0


def test_a_user_who_was_switched_off_stays_out(server: Server, reader: Client) -> None:
    assert reader.get("/version").status == 200
    server.sql("UPDATE auth_user SET is_active = false WHERE username = 'reader'")
    try:
        assert reader.get("/version").status == 401
    finally:
        server.sql("UPDATE auth_user SET is_active = true WHERE username = 'reader'")


def test_a_reader_reads_everything_but_secrets_and_writes_nothing(api: Client, reader: Client, namespace: str) -> None:
    api.post(config_maps(namespace), config_map("one"))
    secrets = f"/api/v1/namespaces/{namespace}/secrets"

    assert reader.get(config_maps(namespace, "one")).status == 200
    assert reader.get("/api").status == 200
    refused = reader.post(config_maps(namespace), config_map("two"))
    assert refused.status == 403
    assert 'User "reader" cannot create resource "configmaps" in API group ""' in refused.document["message"]
    works = "/apis/work.karmada.io/v1alpha1/works"  # a Work may carry a Secret
    for path in (secrets, f"{secrets}/one", "/api/v1/secrets", f"{secrets}?watch=true", works):
        assert reader.get(path).status == 403
    assert reader.patch(config_maps(namespace, "one"), {}).status == 403
    assert reader.delete(config_maps(namespace, "one")).status == 403


def test_questions_about_oneself_are_answered_truly(api: Client, reader: Client) -> None:
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    access = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"

    def may(client: Client, verb: str, resource: str) -> bool:
        question = {"spec": {"resourceAttributes": {"verb": verb, "resource": resource, "namespace": "default"}}}
        allowed: bool = client.post(access, question).document["status"]["allowed"]
        return allowed

    me = reader.post(review, {}).document["status"]["userInfo"]
    assert (me["username"], me["groups"]) == ("reader", ["system:authenticated"])
    assert may(api, "create", "configmaps")
    assert may(reader, "get", "configmaps")
    assert not may(reader, "create", "configmaps")
    assert not may(reader, "get", "secrets")
    assert not may(reader, "get", "*")
    unanswered = {"spec": {"namespace": "default"}, "status": {}}  # as kubectl sends it
    assert reader.post(rules, unanswered).status == 201
    for wrong in (7, {"resourceAttributes": "x"}, {"nonResourceAttributes": {"path": 7}}):
        assert api.post(access, {"spec": wrong}).status == 422
    assert api.post(rules, {"spec": {"namespace": "default"}}).document["status"]["resourceRules"][0]["verbs"] == ["*"]
    assert reader.post(rules, {"spec": {}}).status == 400


def test_the_kubeconfig_is_for_its_owner_alone(server: Server) -> None:
    assert stat.S_IMODE(os.stat(server.kubeconfig).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(server.folder / "tls" / "server.key").st_mode) == 0o600


def test_a_page_shows_no_value_of_a_secret(server: Server, api: Client, namespace: str) -> None:
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    api.post(secrets, {"metadata": {"name": "one"}, "data": {"password": "aHVudGVyMg=="}})

    for path in (secrets, f"{secrets}/one"):
        page = api.get(path, accept="text/html")
        assert page.type.startswith("text/html")
        assert b"password" in page.body
        assert b"aHVudGVyMg" not in page.body
