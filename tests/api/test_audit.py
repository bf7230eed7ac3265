"""Every write and every refusal has an audit event: of a write in its own transaction, of a refusal within a second."""

from __future__ import annotations

import json
from random import Random
from string import ascii_letters, digits
from typing import Any

import pytest

from tests.api.roles import bind, user
from tests.api.server import Client, Server
from tests.api.test_browser_session import Browser
from tests.builders.documents import config_map, config_maps, deployment, deployments
from tests.processes import until

SECRET = "dG9wLXNlY3JldC12YWx1ZQ=="
BEFORE, AFTER = "failover.lifeboat.io/digest-before", "failover.lifeboat.io/digest-after"


def events(server: Server, **fields: str) -> list[dict[str, Any]]:
    """Return the audit events with these fields, the oldest first."""
    where = " AND ".join(f"{field} = '{value}'" for field, value in fields.items())
    return [
        json.loads(row[0]) for row in server.sql(f"SELECT document FROM objects_auditevent WHERE {where} ORDER BY at")
    ]


def recorded(server: Server, count: int = 1, **fields: str) -> list[dict[str, Any]]:
    """Return the audit events with these fields as soon as there are so many."""
    until(lambda: len(events(server, **fields)) >= count, within=10)
    return events(server, **fields)


def test_a_write_is_recorded_with_its_user_object_and_digests_before_it_is_answered(
    server: Server, api: Client, namespace: str
) -> None:
    path = config_maps(namespace, "kept")
    api.post(config_maps(namespace), config_map("kept", key="1"))
    api.patch(path, {"data": {"key": "2"}})
    answer = api.delete(path)

    created, patched, deleted = events(server, namespace=namespace, name="kept")

    assert [one["verb"] for one in (created, patched, deleted)] == ["create", "patch", "delete"]
    assert [one["responseStatus"]["code"] for one in (created, patched, deleted)] == [201, 200, 200]
    assert created["user"]["username"] == "admin"
    assert "system:masters" in created["user"]["groups"]
    assert created["objectRef"] == {
        **{"resource": "configmaps", "namespace": namespace, "name": "kept", "apiVersion": "v1"},
    }
    assert created["sourceIPs"] == ["127.0.0.1"]
    assert created["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert BEFORE not in created["annotations"]
    assert created["annotations"][AFTER] == patched["annotations"][BEFORE]
    assert patched["annotations"][AFTER] == deleted["annotations"][BEFORE]
    assert answer.headers["audit-id"] == deleted["auditID"]


def test_a_collection_has_an_event_for_each_object_under_one_id(server: Server, api: Client, namespace: str) -> None:
    for name in ("one", "two"):
        api.post(config_maps(namespace), config_map(name))

    answer = api.delete(config_maps(namespace))

    deleted = events(server, namespace=namespace, verb="deletecollection")
    assert sorted(one["objectRef"]["name"] for one in deleted) == ["one", "two"]
    assert {one["auditID"] for one in deleted} == {answer.headers["audit-id"]}


def test_refusals_are_recorded_with_their_rule_and_without_values(server: Server, api: Client, namespace: str) -> None:
    eva = user(server, f"eva-{namespace}")
    eva.post(deployments(namespace), deployment("web"))
    api.post(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "bad"}, "data": {"token": f"{SECRET}!"}})
    api.post(config_maps(namespace), config_map("twice"))
    api.post(config_maps(namespace), config_map("twice"))

    (forbidden,) = recorded(server, namespace=namespace, resource="deployments")
    (invalid,) = recorded(server, namespace=namespace, resource="secrets")
    until(lambda: len(events(server, namespace=namespace, code="409")) == 1, within=10)

    assert forbidden["user"]["username"] == f"eva-{namespace}"
    assert forbidden["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert forbidden["responseStatus"]["reason"] == "Forbidden"
    assert invalid["responseStatus"]["code"] == 422
    assert invalid["responseStatus"]["message"] == "data[token]: FieldValueInvalid"
    assert SECRET not in json.dumps(invalid)


def test_an_impersonated_write_names_both_users(server: Server, api: Client, namespace: str) -> None:
    name = f"ida-{namespace}"
    bind(api, name, to={"kind": "User", "name": name}, roles=("edit",), namespace=namespace)
    as_ida = {
        **{"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"},
        **{"Impersonate-User": name},
    }
    until(
        lambda: api.send("POST", config_maps(namespace), json.dumps(config_map("hers")).encode(), as_ida).status != 403,
        within=10,
    )

    (made,) = events(server, namespace=namespace, name="hers", code="201")

    assert (made["user"]["username"], made["impersonatedUser"]["username"]) == ("admin", name)
    assert "system:authenticated" in made["impersonatedUser"]["groups"]


def test_a_failed_login_is_a_refusal_that_names_a_user_who_exists(server: Server) -> None:
    """What is written as the name may be a password, so only names of users are recorded."""
    browser = Browser(server)
    pages = [browser.log_in(name, "wrong") for name in ("admin", "my-real-password-by-mistake", "\0")]

    found = recorded(server, 3, path="/login/login/", code="401")

    assert [page.status for page in pages] == [200] * 3
    assert [one["responseStatus"]["message"] for one in found] == [
        'the login of user "admin" by password failed',
        *["the login of a user who does not exist by password failed"] * 2,
    ]
    assert {one["annotations"]["authorization.k8s.io/decision"] for one in found} == {"forbid"}
    assert {one["user"]["username"] for one in found} == {"system:anonymous"}
    assert "my-real-password-by-mistake" not in json.dumps(found)


def test_a_dry_run_stores_nothing_and_is_recorded_as_one(server: Server, api: Client, namespace: str) -> None:
    api.post(config_maps(namespace), config_map("supposed"), dryRun="All")

    (supposed,) = recorded(server, namespace=namespace, resource="configmaps")

    assert supposed["requestURI"].endswith("dryRun=All")
    assert AFTER not in supposed["annotations"]


def test_reads_have_no_event_but_those_of_a_secret_have_one(server: Server, api: Client, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    api.post(path, {"metadata": {"name": "kept"}, "data": {"token": SECRET}})
    api.get(config_maps(namespace))
    api.get(f"{path}/kept")

    read = recorded(server, namespace=namespace, verb="get", resource="secrets")

    assert [one["objectRef"]["name"] for one in read] == ["kept"]
    assert not events(server, namespace=namespace, verb="list")
    assert SECRET not in json.dumps(events(server, namespace=namespace))


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_invalid_token_is_recorded_at_most_sixty_times_a_minute(server: Server, method: str) -> None:
    path = f"/api/v1/namespaces/audited-{method.lower()}/configmaps"
    for _ in range(70):
        server.client("wrong").ask(method, path, {"metadata": {"name": "x"}})

    until(lambda: len(events(server, code="401")) >= 20, within=10)

    refused = [one for one in events(server, code="401") if one["requestURI"] == path]
    assert len(refused) <= 60
    assert all("user" in one and one["sourceIPs"] == ["127.0.0.1"] for one in refused)


def test_a_refusal_about_a_very_long_name_is_recorded_with_all_that_follow(server: Server, namespace: str) -> None:
    eva, name = user(server, f"eva-{namespace}"), "".join(Random(1).choices(ascii_letters + digits, k=6000))
    eva.delete(config_maps(namespace, name))
    eva.post(config_maps(namespace), config_map("next"))

    (long,) = recorded(server, namespace=namespace, verb="delete")
    recorded(server, namespace=namespace, verb="create")

    assert long["objectRef"]["name"] == name
