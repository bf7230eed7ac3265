"""Creations on the direct way are answered and stored as on the lean way. A real server runs in this process."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any, NamedTuple

import pytest
from django.db import connection

from apps.objects.loop_creations import SESSION
from apps.objects.models import AuditEvent, ChangeLog, Due, Object
from tests.apps.direct_site import MAPS, Answer, Site
from tests.builders.documents import config_map, deployment
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)

NUMBERS = count()
NAMES = re.compile(r"\b(?:one|two)-\d+(?:-[a-z0-9]{5}\b)?")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
VERSION = re.compile(r"""resourceVersion"?: ?["']\d+["']""")
NODE_PORT = re.compile(r'"nodePort":\d+')  # chosen at random
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
HASH = re.compile(r"hmac-sha256:[0-9a-f]{64}")
NO_ROW = {"id", "key", "version", "resource_version", "at", "created_at", "due_at", "seq", "hash", "uid"}


class Case(NamedTuple):
    """A creation. `NAME` in its body is the name of a new object. `status`: of the answer."""

    path: str
    body: Any
    status: int = 201
    query: str = ""
    headers: dict[str, str] = {}


def about(api_version: str, kind: str, **fields: Any) -> dict[str, Any]:
    """Return a document."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "NAME"}, **fields}


def maps(**fields: Any) -> dict[str, Any]:
    """Return a ConfigMap with these fields of its metadata, or of itself if they have a capital letter or are data."""
    return {**config_map("NAME", a="1"), **fields}


def with_metadata(**fields: Any) -> dict[str, Any]:
    """Return a ConfigMap with these fields of its metadata."""
    return {**config_map("NAME", a="1"), "metadata": {"name": "NAME", **fields}}


WEB = deployment("NAME", replicas=3, tier="front")
APPS = "/apis/apps/v1/namespaces/default"
CORE = "/api/v1/namespaces/default"
DEPLOYMENTS = f"{APPS}/deployments"
POD = {"template": WEB["spec"]["template"], "selector": WEB["spec"]["selector"]}
JOB = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1b4e28ba-2fa1-11d2-883f-0016d3cca427"}
YAML = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: NAME\ndata:\n  a: 'yes'\n"
TWICE = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"},"data":{"a":"1","a":"2"}}'
OPEN = about("networking.k8s.io/v1", "NetworkPolicy", spec={"podSelector": {}})

DIRECT = [
    Case(DEPLOYMENTS, WEB),
    Case(MAPS, maps()),
    Case(MAPS, maps(binaryData={"b": "AAE="}, immutable=True)),
    Case(f"{APPS}/statefulsets", about("apps/v1", "StatefulSet", spec={**POD, "serviceName": "s"})),
    Case(f"{APPS}/daemonsets", about("apps/v1", "DaemonSet", spec=POD)),
    Case("/apis/batch/v1/namespaces/default/jobs", about("batch/v1", "Job", spec=JOB)),
    Case(
        "/apis/batch/v1/namespaces/default/cronjobs",
        about("batch/v1", "CronJob", spec={"schedule": "* * * * *", "jobTemplate": {"spec": JOB}}),
    ),
    Case("/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", OPEN),
    Case(DEPLOYMENTS, {**WEB, "status": {"replicas": 7}}),
    Case(DEPLOYMENTS, {**WEB, "spec": {**WEB["spec"], "unknown": 1, "paused": None}}),
    Case(MAPS, {"metadata": {"name": "NAME"}, "data": {"ä": "ö € 😀", "nul": "a\0b"}}, 422),
    Case(MAPS, {"metadata": {"name": "NAME"}, "data": {"key": "ö € 😀"}}),
    Case(MAPS, with_metadata(name=None, generateName="NAME-")),
    Case(MAPS, with_metadata(labels={"a": "b"}, annotations={"c/d": "e" * 3000}, finalizers=["a.b/c"])),
    Case(MAPS, with_metadata(uid="x", generation=9, creationTimestamp="2020-01-01T00:00:00Z", namespace="default")),
    Case(MAPS, with_metadata(ownerReferences=[OWNER], annotations=None)),
    Case(MAPS, with_metadata(managedFields=[{"manager": "m", "operation": "Update", "fieldsV1": {"f:data": {}}}])),
    Case(MAPS, maps(), query="fieldManager=me&fieldValidation=Strict&pretty=true"),
    Case(MAPS, maps(extra=1), query="fieldValidation=Ignore"),
    Case(MAPS, maps(extra=1), headers={"User-Agent": "argocd/v2.1 (linux)"}),
    Case(MAPS, maps(), headers={"X-Forwarded-For": "203.0.113.9, 198.51.100.7, 127.0.0.1"}),  # as a proxy on this host
    Case(MAPS, maps(), headers={"X-Forwarded-For": ""}),
    Case(MAPS, TWICE),
    Case(MAPS, YAML, headers={"Content-Type": "application/yaml"}),
]
OTHERS = [
    Case(MAPS, maps(extra=1), 400, query="fieldValidation=Strict"),
    Case(MAPS, TWICE, 400, query="fieldValidation=Strict"),
    Case(MAPS, maps(), query="dryRun=All"),
    Case(MAPS, maps(), 400, query="dryRun=Some"),
    Case(MAPS, maps(), 422, query=f"fieldManager={'x' * 200}"),
    Case(MAPS, with_metadata(resourceVersion="1"), 400),
    Case(MAPS, with_metadata(namespace="kube-system"), 400),
    Case(MAPS, with_metadata(name=None), 422),
    Case(MAPS, with_metadata(name="No_name"), 422),
    Case(MAPS, with_metadata(labels={"a b": "c"}), 422),
    Case(MAPS, {**maps(), "metadata": []}, 422),
    Case(MAPS, {**maps(), "metadata": "text"}, 400),
    Case(MAPS, {**maps(), "kind": "Secret"}, 400),
    Case(MAPS, maps(data="text"), 422),
    Case(MAPS, b"[]", 400),
    Case(MAPS, b"", 400),
    Case(MAPS, b"{", 400),
    Case(MAPS, b'{"a":' * 200 + b"1" + b"}" * 200, 400),
    Case(MAPS, maps(data={"large": "x" * 20_000})),
    Case(MAPS, maps(), 415, headers={"Content-Type": "text/plain"}),
    Case(MAPS, maps(), 401, headers={"Authorization": "Bearer lb_unknown"}),
    Case(MAPS, maps(), 403, headers={"Impersonate-User": "paul"}),
    Case(MAPS, maps(), headers={"Accept": "application/yaml"}),
    Case("/api/v1/namespaces/absent/configmaps", maps(), 404),
    Case(DEPLOYMENTS, {**WEB, "spec": {**WEB["spec"], "replicas": -1}}, 422),
    Case(DEPLOYMENTS, {**WEB, "spec": {"replicas": "x"}}, 422),
    Case(f"{DEPLOYMENTS}/web", WEB, 405),
    Case(f"{CORE}/services", about("v1", "Service", spec={"type": "NodePort", "ports": [{"port": 80}]})),
    Case(f"{CORE}/secrets", about("v1", "Secret", stringData={"a": "b"})),
    Case(f"{CORE}/serviceaccounts", about("v1", "ServiceAccount")),
    Case("/api/v1/namespaces", about("v1", "Namespace")),
    Case(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
        about("rbac.authorization.k8s.io/v1", "Role", rules=[]),
    ),
]


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    try:
        yield made
    finally:
        made.stop()


def named(body: Any, name: str) -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return bytes(text.replace(b"NAME", name.encode()))


def sent(site: Site, case: Case, name: str) -> tuple[Answer, bool]:
    """Return the answer to a creation, and whether it went the direct way."""
    before = site.shell.calls
    answer = site.ask(f"{case.path}?{case.query}", method="POST", body=named(case.body, name), **case.headers)
    return answer, site.shell.calls == before


def opened(site: Site) -> None:
    """Wait until the direct way is open for creations."""
    assert until(lambda: sent(site, Case(MAPS, maps()), f"warm-{next(NUMBERS)}")[1], within=20, every=0.01)


def directly(site: Site, case: Case) -> tuple[Answer, str]:
    """Return the answer of the direct way, and the name of the new object."""

    def attempt() -> tuple[Answer, str] | None:
        name = f"one-{next(NUMBERS)}"
        answer, is_direct = sent(site, case, name)
        return (answer, name) if is_direct else None

    opened(site)
    found: tuple[Answer, str] = until(attempt, within=20, every=0.01)
    return found


def leanly(site: Site, case: Case) -> tuple[Answer, str]:
    """Return the answer when the direct way is closed, and the name of the new object."""
    creations, name = site.shell.direct.creations, f"two-{next(NUMBERS)}"
    before, creations._per_client = creations._per_client, 0
    try:
        answer, is_direct = sent(site, case, name)
    finally:
        creations._per_client = before
    assert not is_direct
    return answer, name


def plain(text: str) -> str:
    """Return a text without what differs between two objects."""
    for pattern, shown in (
        (NAMES, "NAME"),
        (HASH, "H"),
        (DIGEST, "D"),
        (UID, "UID"),
        (TIME, "T"),
        (VERSION, "V"),
        (NODE_PORT, "P"),
    ):
        text = pattern.sub(shown, text)
    return text


def seen(answer: Answer) -> tuple[int, list[tuple[str, str]], str]:
    """Return an answer in which the object has no name, uid, time or version."""
    left_out = {"date", "audit-id", "content-length"}
    headers = [(name, value) for name, value in answer.headers.items() if name not in left_out]
    return answer.status, headers, plain(answer.body.decode())


def stored(name: str) -> list[str]:
    """Return all rows that are stored about an object, without what differs between two objects."""
    tables = (Object, ChangeLog, Due, AuditEvent)
    found = [row for table in tables for row in table.objects.filter(name__startswith=name).order_by("pk").values()]
    rows = [plain(repr({field: value for field, value in row.items() if field not in NO_ROW})) for row in found]
    return sorted(rows)


def test_what_goes_the_direct_way_is_answered_and_stored_as_on_the_lean_way(site: Site) -> None:
    for case in DIRECT:
        if case.status != 201:
            continue
        (direct, one), (lean, two) = directly(site, case), leanly(site, case)
        assert direct.status == case.status, (case, direct)
        assert len(direct.headers["audit-id"]) == 36
        assert seen(direct) == seen(lean), case
        assert int(direct.headers["content-length"]) == len(direct.body)
        if case.path in (MAPS, DEPLOYMENTS):
            assert len(stored(one)) >= 3, case
        assert stored(one) == stored(two), case


def test_what_is_refused_or_needs_the_database_goes_another_way_with_the_same_answer(site: Site) -> None:
    for case in (*OTHERS, *(one for one in DIRECT if one.status != 201)):
        opened(site)
        answer, is_direct = sent(site, case, f"one-{next(NUMBERS)}")
        assert not is_direct, case
        assert answer.status == case.status, (case, answer)
        assert seen(answer) == seen(leanly(site, case)[0]), case


def test_of_creations_of_one_name_at_once_one_is_stored_and_the_others_get_409(site: Site) -> None:
    opened(site)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(sent, site, Case(MAPS, maps()), f"one-{number % 5}-same") for number in range(40)]
        statuses = [one.result(30)[0].status for one in asked]

    assert statuses.count(201) == 5
    assert statuses.count(409) == 35


def test_a_namespace_that_is_gone_or_ends_takes_no_creation_although_it_was_seen(site: Site) -> None:
    case = Case("/api/v1/namespaces/short/configmaps", maps())
    body = {"metadata": {"name": "short", "finalizers": ["a.b/c"]}}
    assert site.ask("/api/v1/namespaces", method="POST", body=body).status == 201
    directly(site, case)

    site.ask("/api/v1/namespaces/short", method="DELETE")
    assert sent(site, case, "one-1")[0].status == 403
    site.ask("/api/v1/namespaces/short", method="PATCH", body={"metadata": {"finalizers": None}}, **MERGE)
    until(lambda: site.ask("/api/v1/namespaces/short").status == 404 or _finalize(site), within=10)
    assert sent(site, case, "one-2")[0].status == 404


def test_a_namespace_that_changes_while_a_creation_waits_for_the_write_lock_takes_no_creation_unseen(
    site: Site,
) -> None:
    changes = (
        ("DELETE FROM objects_object WHERE kind = 'Namespace' AND name = 'brief'", 404),
        ("UPDATE objects_object SET resource_version = resource_version + 1 WHERE kind = 'Namespace'", 201),
    )
    assert site.ask("/api/v1/namespaces", method="POST", body={"metadata": {"name": "brief"}}).status == 201
    for (change, status), namespace in zip(changes, ("brief", "default"), strict=True):
        case = Case(f"/api/v1/namespaces/{namespace}/configmaps", maps())
        directly(site, case)
        with connection.cursor() as cursor, ThreadPoolExecutor(1) as pool:
            cursor.execute("BEGIN")
            cursor.execute("SELECT 1 FROM objects_counter FOR UPDATE")
            cursor.execute(change)
            asked = pool.submit(sent, site, case, "one-unseen")
            assert until(lambda: _count("count(*) FILTER (WHERE wait_event_type = 'Lock')") == 1, within=20)
            cursor.execute("COMMIT")
            answer, is_direct = asked.result(30)

        assert (answer.status, is_direct) == (status, False), change


MERGE = {"Content-Type": "application/merge-patch+json"}


def _finalize(site: Site) -> bool:
    """Remove what keeps the namespace: nothing empties it here, because no controller runs."""
    found = json.loads(site.ask("/api/v1/namespaces/short").body)
    found["spec"] = {"finalizers": []}
    site.ask("/api/v1/namespaces/short/finalize", method="PUT", body=found)
    return False


def test_creations_are_answered_while_the_session_is_lost_and_after_it_is_back(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    opened(site)
    until(lambda: _count("count(*)") == 1, within=10)  # that of the test before may still be ending
    assert _count("count(pg_terminate_backend(pid))") == 1
    # A creation that is sent before the process has heard of the end gets 503, because its outcome is unknown.
    until(lambda: f"the session '{SESSION}' ended" in caplog.text, within=10)

    found = [sent(site, Case(MAPS, maps()), f"one-{next(NUMBERS)}")[0].status for _ in range(5)]
    assert set(found) == {201}
    opened(site)


def test_a_creation_whose_session_ends_while_it_waits_gets_503(site: Site) -> None:
    opened(site)
    with connection.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("BEGIN")
        cursor.execute("SELECT 1 FROM objects_counter FOR UPDATE")
        asked = pool.submit(sent, site, Case(MAPS, maps()), "one-lost")
        until(lambda: _count("count(*) FILTER (WHERE wait_event_type = 'Lock')") == 1, within=20)
        _count("count(pg_terminate_backend(pid))")
        answer, _ = asked.result(30)
        cursor.execute("COMMIT")

    assert answer.status == 503
    assert "PostgreSQL" in json.loads(answer.body)["message"]
    assert sent(site, Case(MAPS, maps()), "one-lost")[0].status == 201


def _count(counted: str) -> int:
    """Return a count over the sessions of this site. Servers in other databases have sessions of the same name."""
    sessions = "FROM pg_stat_activity WHERE application_name = %s AND datname = current_database()"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {counted} {sessions}", [SESSION])
        found: int = cursor.fetchone()[0]
    return found


def test_a_body_that_comes_late_or_in_parts_is_created_all_the_same(site: Site) -> None:
    opened(site)
    body = named(maps(), "one-late")
    head = f"POST {MAPS} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {site.token}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", site.port), timeout=20) as client:
        client.sendall(head.encode() + body[:5])
        time.sleep(0.2)  # longer than a connection waits for a body
        client.sendall(body[5:])
        received = b"".join(iter(lambda: client.recv(65536), b""))
    assert received.startswith(b"HTTP/1.1 201")
