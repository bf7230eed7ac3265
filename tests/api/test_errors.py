"""Whatever is wrong is a Status, never HTML, and says what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.server import SECONDS, Client, Server
from tests.api.test_browser_session import Browser
from tests.builders.documents import CLUSTERS, cluster, config_map, config_maps, deployment, deployments
from tests.processes import until

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("method", "path", "code", "reason"),
    [
        ("GET", "/api/v1/namespaces/default/nothings", 404, "NotFound"),
        ("GET", "/apis/nowhere.example.org/v1/things", 404, "NotFound"),
        ("GET", "/apis/apps/v2", 404, "NotFound"),
        ("GET", "/apis/nowhere.example.org", 404, "NotFound"),
        ("GET", "/api/v1/nodes/one/more/than/there/is", 404, "NotFound"),
        ("GET", "/api/v1/configmaps/one", 404, "NotFound"),
        ("GET", "/api/v1/namespaces//configmaps", 404, "NotFound"),
        ("GET", "/api/v1//namespaces", 404, "NotFound"),
        ("GET", "/no/such/page", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/configmaps/%00", 400, "BadRequest"),
        ("GET", "/api/v1/configmaps?fieldSelector=metadata.name%3D%00", 400, "BadRequest"),
        ("GET", "/openapi/v3/apis/nowhere/v1", 404, "NotFound"),
        ("POST", "/api/v1/namespaces/default/configmaps/one", 405, "MethodNotAllowed"),
        ("PUT", "/api/v1/namespaces/default/configmaps", 405, "MethodNotAllowed"),
        ("PATCH", "/api/v1/namespaces/default/configmaps", 405, "MethodNotAllowed"),
        ("DELETE", "/apis/apps/v1/namespaces/default/deployments/web/status", 405, "MethodNotAllowed"),
        ("POST", "/version", 405, "MethodNotAllowed"),
        ("TRACE", "/api/v1/namespaces/default/configmaps", 405, "MethodNotAllowed"),
    ],
)
def test_wrong_places_and_methods(api: Client, method: str, path: str, code: int, reason: str) -> None:
    answer = api.ask(method, path)

    assert (answer.status, answer.document["reason"], answer.type) == (code, reason, "application/json")
    assert answer.document["kind"] == "Status"
    assert answer.document["code"] == code


@pytest.mark.parametrize(
    ("header", "value", "code"),
    [
        ("Impersonate-User", "guest", 403),
        ("Impersonate-Group", "system:masters", 400),
        ("Impersonate-Role", "admin", 400),
        ("Content-Encoding", "br", 415),
        ("Content-Encoding", "gzip", 400),
    ],
)
def test_a_header_that_cannot_be_followed_is_refused(api: Client, header: str, value: str, code: int) -> None:
    headers = {"Authorization": f"Bearer {api.token}", "Content-Type": "application/json", header: value}

    answer = api.send("POST", f"{config_maps('default')}?dryRun=All", b'{"metadata":{"name":"a"}}', headers)

    assert (answer.status, answer.document["kind"]) == (code, "Status"), answer.body


@pytest.mark.parametrize(
    ("body", "type", "code"),
    [
        (b"{", "application/json", 400),
        (b"[1]", "application/json", 400),
        (b"", "application/json", 400),
        (b"a: [", "application/yaml", 400),
        (b"- 1", "application/yaml", 400),
        (b"x=1", "application/x-www-form-urlencoded", 415),
        (b"x", "text/plain", 415),
        (b"k8s\x00junk", "application/vnd.kubernetes.protobuf", 400),
        (b'{"metadata": 7}', "application/json", 400),
        (b'{"kind": "Secret"}', "application/json", 400),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "application/json", 400),
        (b'{"metadata":{"name":"UPPER"}}', "application/json", 422),
        (b'{"metadata":{"name":"a","labels":{"a":1}}}', "application/json", 422),
        (b'{"metadata":{"name":"a"},"data":[]}', "application/json", 422),
    ],
)
def test_wrong_bodies(api: Client, namespace: str, body: bytes, type: str, code: int) -> None:
    answer = api.post(config_maps(namespace), body, type=type)

    assert (answer.status, answer.document["kind"]) == (code, "Status"), answer.body


def test_a_body_as_large_as_allowed_goes_in_and_a_larger_one_does_not(server: Server, namespace: str) -> None:
    fits = json.dumps(config_map("one", a="x" * (MIB - 1000))).encode()

    assert server.client().post(config_maps(namespace), fits).status == 201
    answer = server.client().post(config_maps(namespace), b" " * (3 * MIB + 1))

    assert (answer.status, answer.document["reason"]) == (413, "RequestEntityTooLarge")


def test_an_unknown_media_type_is_not_acceptable(api: Client) -> None:
    answer = api.get("/api/v1/namespaces/default", accept="image/png")

    assert (answer.status, answer.document["reason"]) == (406, "NotAcceptable")
    assert answer.type == "application/json"


@pytest.mark.parametrize(
    "accept", ["*/*", "application/vnd.kubernetes.protobuf,application/json", "application/cbor,*/*"]
)
def test_json_is_what_everybody_understands(api: Client, accept: str) -> None:
    answer = api.get("/api/v1/namespaces/default", accept=accept)

    assert (answer.status, answer.type) == (200, "application/json")


def test_a_strange_host_is_refused_in_json(server: Server) -> None:
    answer = server.client().send("GET", "/api", None, {"Host": "evil.example.org"})

    assert (answer.status, answer.document["kind"]) == (400, "Status")


def test_a_forged_form_is_refused_in_json(server: Server) -> None:
    """A browser with a session and without a CSRF token writes nothing."""
    session = server.manage("shell", "-c", _LOGIN).splitlines()[-1]
    headers = {"Cookie": f"sessionid={session}", "Content-Type": "application/json"}

    answer = server.client("").send("POST", config_maps("default"), b'{"metadata":{"name":"a"}}', headers)
    read = server.client("").send("GET", "/api/v1/namespaces/default", None, headers)

    assert (answer.status, answer.document["kind"]) == (403, "Status")
    assert read.status == 200


_LOGIN = """
from django.contrib.auth import get_user_model
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
user = get_user_model().objects.get(username="admin")
session = SessionStore()
session[SESSION_KEY] = str(user.pk)
session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
session[HASH_SESSION_KEY] = user.get_session_auth_hash()
session.save()
print(session.session_key)
"""


def test_a_database_that_is_away_is_a_503_and_comes_back(server: Server, api: Client) -> None:
    """Also for a person with a browser, and readiness waits for it once. The admin's answer is a page."""
    person = Browser(server)
    assert person.log_in("admin", "correct-horse-battery").status == 302
    server._sql(
        f'ALTER DATABASE "{server.database}" ALLOW_CONNECTIONS false',
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{server.database}'",
    )
    try:
        answer = api.get("/api/v1/namespaces/default")
        pages = {path: person.open("GET", path) for path in ("/api/v1/namespaces/default", "/version", "/admin/")}
        ready = api.get("/readyz")
        alive = api.get("/livez")
    finally:
        server._sql(f'ALTER DATABASE "{server.database}" ALLOW_CONNECTIONS true')

    assert (answer.status, answer.document["reason"], answer.type) == (503, "ServiceUnavailable", "application/json")
    assert answer.headers["retry-after"] == "1"
    of_admin = pages.pop("/admin/")
    assert (of_admin.status, of_admin.type.partition(";")[0]) == (503, "text/html")
    for path, page in pages.items():
        assert (page.status, page.type) == (503, "application/json"), (path, page.body)
        assert page.document["reason"] == "ServiceUnavailable"
    assert ready.status == 503
    assert b"[-]database failed: the database does not accept connections (ALLOW_CONNECTIONS)" in ready.body
    assert b"readyz?verbose" in of_admin.body  # it names the cause as its own connection met it: refused, or ended
    assert ready.body.count(b"not checked: the database does not answer") == 6
    assert b"[+]redis ok" in ready.body
    assert alive.status == 200
    until(lambda: api.get("/api/v1/namespaces/default").status == 200, within=SECONDS * 2)
    server.await_sessions()


WRONG_FIELDS = [
    ("POST", "{deployments}", {"replicas": -1}, "spec.replicas", "must be greater than or equal to 0"),
    ("POST", "{deployments}", {"replicas": 1 << 40}, "spec.replicas", "must be less than or equal to 2147483647"),
    ("PATCH", "{deployments}/web", {"replicas": -1}, "spec.replicas", "must be greater than or equal to 0"),
    ("PATCH", "{deployments}/web/scale", {"replicas": "x"}, "spec.replicas", "must be a whole number, 0 or more"),
]


@pytest.mark.parametrize(("method", "place", "spec", "field", "rule"), WRONG_FIELDS)
def test_a_number_no_member_would_take_is_refused_by_field(
    api: Client, namespace: str, method: str, place: str, spec: dict[str, object], field: str, rule: str
) -> None:
    path = place.format(deployments=deployments(namespace))
    api.post(deployments(namespace), deployment("web"))
    whole = deployment("other")
    body = {**whole, "spec": {**whole["spec"], **spec}} if method == "POST" else {"spec": spec}

    answer = api.ask(
        method, path, body, type="application/json" if method == "POST" else "application/merge-patch+json"
    )

    (cause,) = answer.document["details"]["causes"]
    assert (answer.status, cause["field"]) == (422, field)
    assert rule in cause["message"]


def test_options_of_a_deletion_are_checked_before_anything_goes(api: Client, namespace: str) -> None:
    api.post(config_maps(namespace), config_map("one"))

    answer = api.ask("DELETE", config_maps(namespace, "one"), {"gracePeriodSeconds": "soon", "dryRun": "All"})

    causes = {cause["field"] for cause in answer.document["details"]["causes"]}
    assert (answer.status, causes) == (422, {"gracePeriodSeconds", "dryRun"})
    assert api.get(config_maps(namespace, "one")).status == 200


def test_an_apply_says_whose_the_fields_are(api: Client, namespace: str) -> None:
    intent = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "mine"}}

    answer = api.patch(config_maps(namespace, "one"), intent, "application/apply-patch+yaml")

    (cause,) = answer.document["details"]["causes"]
    assert (answer.status, cause["field"], cause["reason"]) == (422, "fieldManager", "FieldValueRequired")


def test_a_condition_that_neither_holds_nor_does_not_is_refused(api: Client) -> None:
    made = cluster("conditions")
    api.post(CLUSTERS, made)
    status = {"conditions": [{"type": "Ready", "status": "Maybe"}]}

    answer = api.patch(f"{CLUSTERS}/conditions/status", {"status": status})

    (cause,) = answer.document["details"]["causes"]
    assert (answer.status, cause["field"]) == (422, "status.conditions[0].status")
    assert '"Maybe": supported values: "True", "False", "Unknown"' in cause["message"]


def test_a_status_and_binary_data_that_cannot_be_are_refused(api: Client, namespace: str) -> None:
    api.post(CLUSTERS, cluster("nonsense"))
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    binary = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "binaryData": {"key": "plain!"}}

    reported = api.patch(f"{CLUSTERS}/nonsense/status", {"status": {"nodeSummary": {"totalNum": -2}}})
    made = api.post(maps, binary)

    for answer, field in ((reported, "status.nodeSummary.totalNum"), (made, "binaryData[key]")):
        (cause,) = answer.document["details"]["causes"]
        assert (answer.status, cause["field"], cause["reason"]) == (422, field, "FieldValueInvalid")


def test_a_form_of_answer_that_is_not_served_names_those_that_are(api: Client) -> None:
    answer = api.get("/api/v1/namespaces", accept="text/plain")

    assert answer.status == 406
    assert "application/json" in answer.document["message"]


@pytest.mark.parametrize(
    ("type", "patch"),
    [
        ("merge-patch+json", {"metadata": None, "data": {"a": "2"}}),
        ("strategic-merge-patch+json", {"metadata": None}),
        ("strategic-merge-patch+json", {"$patch": "replace", "data": {}}),
        ("json-patch+json", [{"op": "remove", "path": "/metadata"}]),
        ("json-patch+json", [{"op": "replace", "path": "", "value": {"data": {}}}]),
        ("merge-patch+json", {"metadata": {"name": None, "labels": {"a": "c"}}}),
    ],
)
def test_a_patch_that_removes_the_name_is_refused_and_takes_no_finalizer_along(
    api: Client, namespace: str, type: str, patch: Any
) -> None:
    """`metadata:` without a value in the file of a patch is null."""
    held = {"name": "held", "labels": {"a": "b"}, "finalizers": ["example.org/hold"]}
    api.post(config_maps(namespace), {"metadata": held, "data": {"a": "1"}})

    refused = api.patch(config_maps(namespace, "held"), patch, f"application/{type}")
    left = api.get(config_maps(namespace, "held")).document

    assert (refused.status, refused.document["details"]["causes"]) == (
        422,
        [{"reason": "FieldValueInvalid", "message": 'Invalid value: "": field is immutable', "field": "metadata.name"}],
    )
    assert (left["data"], left["metadata"]["finalizers"]) == ({"a": "1"}, ["example.org/hold"])


@pytest.mark.parametrize("body", [{"metadata": None, "data": {}}, {"data": {}}, {"metadata": {"labels": {"a": "c"}}}])
def test_a_put_without_a_name_is_refused_and_takes_no_finalizer_along(api: Client, namespace: str, body: Any) -> None:
    """The name came from the URL, so that all labels and finalizers went, and a workload lost its policy."""
    held = {"name": "held", "labels": {"a": "b"}, "finalizers": ["example.org/hold"]}
    api.post(config_maps(namespace), {"metadata": held, "data": {"a": "1"}})

    refused = api.put(config_maps(namespace, "held"), body)
    left = api.get(config_maps(namespace, "held")).document

    assert (refused.status, refused.document["message"]) == (
        400,
        "the name of the object (held based on URL) was undeterminable: name must be provided",
    )
    assert (left["data"], left["metadata"]["finalizers"]) == ({"a": "1"}, ["example.org/hold"])


def test_an_object_that_is_damaged_in_the_database_is_no_unknown_error(
    api: Client, server: Server, namespace: str
) -> None:
    """It said "an internal error of the server", and so did each further try to be rid of the object."""
    path = f"/apis/policy.karmada.io/v1alpha1/namespaces/{namespace}/propagationpolicies"
    policy = {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "placement": {}}
    made = api.post(path, {"metadata": {"name": "p"}, "spec": policy})
    assert made.status == 201, made.body
    change = "UPDATE policies_policy SET doc = {} WHERE name = 'p' AND namespace = '" + namespace + "'"
    server.sql(change.format("jsonb_set(doc::jsonb, '{spec}', '[]')::text"))

    answers = [api.delete(f"{path}/p"), api.put(f"{path}/p", {"metadata": {"name": "p"}, "spec": policy})]

    for answer in answers:
        assert (answer.status, answer.document["reason"]) == (500, "InternalError")
        assert "manage.py damaged restores or deletes it" in answer.document["message"]
    server.sql(change.format(f"$doc${made.body.decode()}$doc$"))
    assert api.delete(f"{path}/p").status == 200
