"""The direct way answers as the lean way does, and takes only what it may. A real server runs in this process."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from apps.api import direct, tokens
from apps.objects.point_reads import SESSION
from tests.apps.direct_site import MAPS, ONE, Answer, Site
from tests.builders.documents import TABLE, config_map, deployment, deployments
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)

ADDED_BY_UVICORN = {"date", "server"}


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    try:
        assert made.ask(MAPS, method="POST", body=config_map("one", a="1")).status == 201
        assert made.ask(deployments("default"), method="POST", body=deployment("web")).status == 201
        yield made
    finally:
        made.stop()


def seen(answer: Answer) -> tuple[int, dict[str, str], bytes]:
    """Return an answer without what differs between two requests."""
    return answer.status, {k: v for k, v in answer.headers.items() if k not in {"date", "audit-id"}}, answer.body


def test_the_direct_way_gives_the_status_headers_and_body_of_the_others(site: Site) -> None:
    web = deployments("default", "web")
    for path in (ONE, web, f"{web}/status", "/api/v1/namespaces/default", f"{ONE}?pretty=true", f"{ONE}?timeout=5s"):
        answer, full = site.directly(path), site.goes_another_way(path, Cookie="theme=dark")
        assert answer.status == 200
        assert len(answer.headers["audit-id"]) == 36
        assert seen(answer) == seen(full)


OTHERS = [
    (f"{MAPS}/absent", {}, 404),
    (MAPS, {}, 200),
    (ONE, {"Accept": "application/yaml"}, 200),
    (ONE, {"Accept": TABLE}, 200),
    (ONE, {"Impersonate_User": "paul"}, 403),
    (ONE, {"Authorization": "Bearer lb_unknown"}, 401),
    (ONE, {"Host": "elsewhere.example.com"}, 400),
    (f"{ONE}?%77atch=false", {}, 200),
    (f"{ONE}?format=json", {}, 200),
    (f"{deployments('default')}/web/scale", {}, 200),
    ("/api/v1/namespaces/default/secrets/absent", {}, 404),
    ("/apis/failover.lifeboat.io/v1alpha1/failoverconfigurations/default", {}, 404),
    ("/apis/apps/v2/namespaces/default/deployments/web", {}, 404),
    ("/api/v1/configmaps/one", {}, 404),
]


def test_other_requests_go_another_way(site: Site) -> None:
    for path, headers, status in OTHERS:
        assert site.goes_another_way(path, **headers).status == status, path


def test_a_reader_without_a_role_is_refused_and_with_a_role_is_served(site: Site) -> None:
    site.directly(ONE)
    user = get_user_model().objects.create_user("paul")
    site.token, admin = tokens.create(user, "test"), site.token
    assert site.ask(ONE).status == site.ask(ONE).status == 403
    binding = {
        "metadata": {"name": "paul"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "paul"}],
    }
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    made = site.ask(path, method="POST", body=binding, Authorization=f"Bearer {admin}")
    assert made.status == 201, made.body

    assert until(lambda: site.ask(ONE).status == 200, within=5)
    assert site.directly(ONE).status == 200
    site.ask(f"{path}/paul", method="DELETE", Authorization=f"Bearer {admin}")
    assert until(lambda: site.ask(ONE).status == 403, within=5)


def test_a_token_that_is_revoked_here_is_refused_at_once_and_elsewhere_within_a_second(site: Site) -> None:
    site.directly(ONE)
    credentials = "/apis/identity.lifeboat.io/v1alpha1/credentials"
    (name,) = (one["metadata"]["name"] for one in json.loads(site.ask(credentials).body)["items"])
    site.directly(ONE)
    assert site.ask(f"{credentials}/{name}", method="DELETE").status == 200
    assert site.ask(ONE).status == 401

    user = get_user_model().objects.get(username="eve")
    site.token = tokens.create(user, "other")
    site.directly(ONE)
    assert tokens.revoke(user, "other")  # as a command in another process does
    assert until(lambda: site.ask(ONE).status == 401, within=1.0, every=0.01)


def test_of_requests_that_are_read_together_each_has_its_own_answer(site: Site) -> None:
    site.directly(ONE)
    paths = [ONE, f"{MAPS}/absent", deployments("default", "web"), "/api/v1/namespaces/default"] * 8
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(site.ask, paths))

    assert [answer.status for answer in answers] == [200, 404, 200, 200] * 8
    names = [json.loads(answer.body)["metadata"].get("name") for answer in answers]
    assert names == ["one", None, "web", "default"] * 8


def test_what_is_written_is_read_at_once(site: Site) -> None:
    for number in range(20):
        put = site.ask(ONE, method="PUT", body=config_map("one", a=str(number)))
        assert put.status == 200
        assert json.loads(site.ask(ONE).body)["data"] == {"a": str(number)}


def test_requests_are_answered_while_the_session_is_lost_and_after_it_is_back(site: Site) -> None:
    site.directly(ONE)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE application_name = %s AND datname = current_database()",
            [SESSION],
        )
        assert cursor.fetchone() == (1,)

    assert {site.ask(ONE).status for _ in range(5)} == {200}
    assert site.directly(ONE).status == 200


def test_a_statement_that_does_not_end_is_given_up_and_its_requests_are_answered(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.objects.point_reads.ANSWER_SECONDS", 0.2)
    site.directly(ONE)
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("LOCK TABLE objects_object IN ACCESS EXCLUSIVE MODE")
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(site.ask, ONE)
            until(lambda: not site.shell.direct._reads.is_open, within=5, every=0.01)
            cursor.execute("COMMIT")
            assert asked.result(20).status == 200


def test_a_client_that_goes_away_costs_the_others_nothing(site: Site) -> None:
    site.directly(ONE)
    request = f"GET {ONE} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {site.token}\r\n\r\n".encode()
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", site.port)) as gone:
            gone.sendall(request)
    assert {site.ask(ONE).status for _ in range(5)} == {200}
    assert until(lambda: not site.shell.direct._counts, within=5)


def test_requests_on_one_connection_are_answered_in_order_and_the_last_closes_it(site: Site) -> None:
    site.directly(ONE)
    head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {site.token}\r\n"
    first = f"GET {ONE} HTTP/1.1\r\n{head}\r\nGET {MAPS}/absent HTTP/1.1\r\n{head}\r\n"
    last = f"GET /api/v1/namespaces/default HTTP/1.1\r\n{head}Connection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", site.port), timeout=20) as client:
        client.sendall((first + last).encode())
        received = b"".join(iter(lambda: client.recv(65536), b""))

    assert [part[:3] for part in received.split(b"HTTP/1.1 ")[1:]] == [b"200", b"404", b"200"]
    assert received.index(b'"name":"one"') < received.index(b'"name":"default"')


def test_only_so_many_requests_of_a_token_wait_for_the_direct_way(site: Site) -> None:
    site.shell.direct._per_client = 0
    site.ask(ONE)
    before = site.shell.calls
    assert {site.ask(ONE).status for _ in range(3)} == {200}
    assert site.shell.calls == before + 3


def test_every_declared_kind_has_a_place_unless_it_is_sealed_or_computed() -> None:
    assert direct.place_of("", "v1", "configmaps", "") is not None
    assert direct.place_of("cluster.karmada.io", "v1alpha1", "clusters", "status") is not None
    for parts in (
        ("", "v1", "secrets", ""),
        ("work.karmada.io", "v1alpha1", "works", ""),
        ("failover.lifeboat.io", "v1alpha1", "failoverrecords", ""),
        ("failover.lifeboat.io", "v1alpha1", "failoverconfigurations", ""),
        ("", "v1", "configmaps", "status"),
        ("", "v2", "configmaps", ""),
    ):
        assert direct.place_of(*parts) is None, parts
