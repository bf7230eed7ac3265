"""The lean way answers as the full way does, and takes only what it may."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from apps.api import lean, tokens
from apps.api.incoming import environ_of
from apps.api.remembered import REMEMBERED
from apps.api.shell import Shell
from apps.objects.audit_queue import QUEUE
from apps.objects.default_roles import make_roles
from apps.objects.models import AuditEvent
from apps.objects.namespaces import make_namespaces
from apps.objects.store import store
from config.wsgi import application
from tests.api.test_query_counts import counted
from tests.builders.documents import TABLE, config_map, config_maps
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)

MAPS = config_maps("default")
ONE = f"{MAPS}/one"
Ask = Callable[..., Any]


class Caller:
    """Sends requests of one user, each the lean way (`lean`) or the full way (`full`)."""

    def __init__(self, name: str, *, superuser: bool) -> None:
        users = get_user_model().objects
        self.token = tokens.create(users.create_superuser(name) if superuser else users.create_user(name), "test")

    def environ(self, method: str, path: str, body: Any = None, **headers: str) -> dict[str, Any]:
        path, _, query = path.partition("?")
        sent = {"host": "127.0.0.1", "authorization": f"Bearer {self.token}", "content-type": "application/json"}
        scope = {
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "http_version": "1.1",
            "client": ("127.0.0.1", 1),
            "headers": [(name.encode(), text.encode()) for name, text in {**sent, **headers}.items()],
        }
        return environ_of(scope, b"" if body is None else json.dumps(body).encode())

    def lean(self, *asked: Any, **headers: str) -> Any:
        return lean.answer(self.environ(*asked, **headers))

    def full(self, *asked: Any, **headers: str) -> Any:
        """A cookie is what browsers send, so the request goes the full way."""
        shell = Shell(application, threads=1, buffer=1000)
        try:
            return shell._call(self.environ(*asked, cookie="theme=dark", **headers))
        finally:
            shell.pool.shutdown()
            shell.health.shutdown()


@pytest.fixture
def caller() -> Caller:
    make_namespaces(store())
    made = Caller("eve", superuser=True)
    assert made.lean("POST", MAPS, config_map("one", labels={"tier": "x"}, a="1")).status == 201
    assert made.lean("POST", MAPS, config_map("two")).status == 201
    return made


def seen(reply: Any) -> tuple[int, dict[bytes, bytes], Any]:
    """Return an answer without what differs between two requests: the audit id, times and uids."""
    headers = {name: value for name, value in reply.headers if name not in (b"audit-id", b"content-length")}
    body = re.sub(rb'"[0-9]+s"', b'"0s"', reply.body)  # ages in Tables
    if body.startswith(b"{"):
        body = json.loads(body)
        for field in ("uid", "creationTimestamp", "managedFields"):
            (body.get("metadata") or {}).pop(field, None)
    return reply.status, headers, body


ASKED = [
    (("GET", ONE), {}),
    (("GET", ONE), {"accept": "application/yaml"}),
    (("GET", ONE), {"accept": TABLE}),
    (("GET", f"{MAPS}/three"), {}),
    (("GET", f"{MAPS}?limit=1"), {}),
    (("GET", f"{MAPS}?labelSelector=tier=x"), {"accept": TABLE}),
    (("GET", f"{MAPS}?includeObject=None"), {"accept": TABLE}),
    (("GET", f"{MAPS}?labelSelector=tier+in+(x"), {}),
    (("GET", MAPS), {"accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}),
    (("POST", MAPS, config_map("one")), {}),
    (("POST", f"{MAPS}?dryRun=All", config_map("three")), {"user-agent": "kubectl/v1.36"}),
    (("POST", f"{MAPS}?dryRun=All", config_map("Three")), {}),
    (("POST", f"{MAPS}?fieldValidation=Warn&dryRun=All", {**config_map("three"), "daat": {}}), {}),
    (("POST", f"{MAPS}?fieldValidation=Strict", {**config_map("three"), "daat": {}}), {}),
    (("POST", config_maps("nowhere"), config_map("three")), {}),
    (("PUT", f"{ONE}?dryRun=All", config_map("one", a="2")), {}),
    (("PUT", ONE, config_map("one", metadata={"resourceVersion": "1"}, a="2")), {}),
    (("PATCH", f"{ONE}?dryRun=All", {"data": {"a": "3"}}), {"content-type": "application/merge-patch+json"}),
    (("PATCH", ONE, {"data": {"a": "3"}}), {}),
    (("DELETE", f"{ONE}?dryRun=All"), {}),
    (("DELETE", f"{MAPS}/three"), {}),
    (("PUT", MAPS, config_map("one")), {}),
]


def test_both_ways_give_the_same_status_headers_and_body(caller: Caller) -> None:
    for asked, headers in ASKED:
        assert seen(caller.lean(*asked, **headers)) == seen(caller.full(*asked, **headers)), asked


def test_both_ways_record_refusals_alike(caller: Caller) -> None:
    def recorded(send: Ask) -> list[tuple[Any, ...]]:
        before = set(AuditEvent.objects.values_list("key", flat=True))
        for asked, headers in ASKED[-9:]:
            send(*asked, **headers)
        QUEUE.stop()  # stores what waits
        rows = AuditEvent.objects.exclude(key__in=before)
        return sorted(
            rows.values_list("username", "verb", "resource", "namespace", "name", "code", "decision", "reason")
        )

    found = recorded(caller.lean)
    assert len(found) >= 4
    assert found == recorded(caller.full)


@pytest.mark.parametrize(
    ("asked", "headers"),
    [
        (("GET", f"{MAPS}?watch=true"), {}),
        (("GET", f"{MAPS}?%77atch=true"), {}),
        (("GET", ONE), {"accept": "text/html"}),
        (("GET", ONE), {"accept": "image/png"}),
        (("GET", f"{ONE}?format=yaml"), {}),
        (("GET", f"{MAPS}?includeObject=Everything"), {"accept": TABLE}),
        (("GET", ONE), {"host": "elsewhere.example.com"}),
        (("GET", ONE), {"impersonate-user": "eva"}),
        (("GET", ONE), {"authorization": "Bearer lb_unknown"}),
        (("GET", ONE), {"authorization": "Basic eDp5"}),
        (("GET", "/apis/failover.lifeboat.io/v1alpha1/failoverrecords"), {}),
        (("GET", "/api/v1/nothings"), {}),
        (("GET", "/api/v1/namespaces/default/pods/a/log"), {}),
        (("GET", "/"), {}),
        (("OPTIONS", ONE), {}),
    ],
)
def test_other_requests_go_the_full_way(caller: Caller, asked: tuple[str, str], headers: dict[str, str]) -> None:
    assert caller.lean(*asked, **headers) is None


def test_who_has_no_right_is_refused_the_full_way_and_who_has_it_is_served(caller: Caller) -> None:
    plain = Caller("paul", superuser=False)
    assert plain.lean("GET", ONE) is None
    assert plain.full("GET", ONE).status == 403

    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "paul"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "paul", "namespace": "default"},
        "roleRef": role,
        "subjects": [subject],
    }
    make_roles(store())
    made = caller.lean("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding)
    assert made.status == 201, made.body
    from apps.objects.access import access  # here: its policy is that of this test's database

    access().policy(reread=True)
    assert plain.lean("GET", ONE).status == 200
    assert plain.lean("DELETE", ONE) is None


def test_reading_costs_the_token_and_one_statement(caller: Caller) -> None:
    caller.lean("GET", ONE)
    for path in (ONE, MAPS, f"{MAPS}?limit=500"):
        REMEMBERED.forget()
        with counted() as statements:
            assert caller.lean("GET", path).status == 200
        assert len(statements) == 2, statements


def test_reading_with_a_token_that_was_just_checked_costs_one_statement(caller: Caller) -> None:
    until(lambda: _statements(caller) == 1, within=10)  # on a slow machine a check may be too old at once


def _statements(caller: Caller) -> int:
    caller.lean("GET", ONE)
    with counted() as statements:
        caller.lean("GET", ONE)
    return len(statements)
