"""The headers of impersonation, as they are on the wire: each is one value, and several of one name are several."""

from __future__ import annotations

import http.client

import pytest

from tests.api.roles import RBAC, bind, user
from tests.api.server import SECONDS, Answer, Client, Server
from tests.processes import until

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
USER = ("Impersonate-User", "x")


def sent(client: Client, *headers: tuple[str, str | bytes]) -> Answer:
    """Ask who the user of a request is, with headers of which several may have one name."""
    connection = http.client.HTTPConnection(*client.address, timeout=SECONDS)
    try:
        connection.putrequest("POST", WHO)
        shared = (("Authorization", f"Bearer {client.token}"), ("Content-Type", "application/json"))
        for name, value in (*shared, ("Content-Length", "2"), *headers):
            connection.putheader(name, value)
        connection.endheaders(b"{}")
        response = connection.getresponse()
        return Answer(response.status, {}, response.read())
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("headers", "field", "expected"),
    [
        ([("Impersonate-Group", "a,b"), ("Impersonate-Group", "c")], "groups", ["a,b", "c", "system:authenticated"]),
        ([("Impersonate-Extra-scopes", "a, b"), ("Impersonate-Extra-Scopes", "c")], "extra", {"scopes": ["a, b", "c"]}),
        ([("Impersonate-Extra-k%2Fz", '{"a":1,"b":2}')], "extra", {"k/z": ['{"a":1,"b":2}']}),
        ([("Impersonate-Extra-a_b", "v")], "extra", {"a_b": ["v"]}),
        ([("Impersonate-Extra-a", "")], "extra", {"a": [""]}),
        ([("Impersonate-Group", "jürgen".encode())], "groups", ["jürgen", "system:authenticated"]),
        ([("Impersonate-Uid", "1,2")], "uid", "1,2"),
    ],
    ids=["groups", "extra", "JSON", "an underscore", "an empty value", "UTF-8", "uid"],
)
def test_each_header_is_one_value(
    api: Client, headers: list[tuple[str, str | bytes]], field: str, expected: object
) -> None:
    answer = sent(api, USER, *headers)

    assert answer.status == 201, answer.body
    assert answer.document["status"]["userInfo"][field] == expected


def test_a_name_with_a_comma_is_one_user(api: Client) -> None:
    answer = sent(api, ("Impersonate-User", "CN=Eva,O=Shop"))

    assert answer.document["status"]["userInfo"]["username"] == "CN=Eva,O=Shop"


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ([("Impersonate-Extra-a_b", "v")], "must name a user"),
        ([USER, ("Impersonate-User", "y")], "more than once"),
        ([USER, ("Impersonate-Uid", "1"), ("Impersonate-Uid", "2")], "more than once"),
        ([("Impersonate-User", b"\xff")], "not UTF-8"),
        ([USER, ("Impersonate-Users", "y")], "is not known"),
    ],
    ids=["no user", "two users", "two uids", "not UTF-8", "unknown"],
)
def test_headers_that_are_no_user_are_refused(
    api: Client, headers: list[tuple[str, str | bytes]], message: str
) -> None:
    answer = sent(api, *headers)

    assert answer.status == 400
    assert message in answer.document["message"]


def test_the_right_to_impersonate_two_groups_is_not_one_for_their_names_with_a_comma(
    server: Server, api: Client
) -> None:
    pia = user(server, "pia-impersonates")
    rules = [
        {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["x"]},
        {"apiGroups": [""], "resources": ["groups"], "verbs": ["impersonate"], "resourceNames": ["a", "b"]},
    ]
    api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "pia-impersonates"}, "rules": rules})
    bind(api, "pia", to={"kind": "User", "name": "pia-impersonates"}, roles=("pia-impersonates",))
    until(lambda: sent(pia, USER, ("Impersonate-Group", "a"), ("Impersonate-Group", "b")).status == 201, within=10)

    refused = sent(pia, USER, ("Impersonate-Group", "a,b"))

    assert refused.status == 403
    assert 'groups "a,b" is forbidden' in refused.document["message"]
