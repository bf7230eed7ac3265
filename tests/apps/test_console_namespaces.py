"""A user with rights in one namespace uses the pages of this namespace, and no others."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth import get_user_model
from django.test import Client, RequestFactory
from rest_framework.request import Request

from apps.api.authorization import authorize
from apps.console.stream import StreamView
from apps.objects.access import access
from apps.objects.default_roles import make_roles
from apps.objects.store import store
from apps.objects.writer import Author, Writer
from controlplane.eviction.operator_orders import HOLD
from controlplane.kind import KINDS
from controlplane.settings import Settings
from tests.apps.credentials import PASSWORD
from tests.apps.pages import in_queue, stored
from tests.apps.test_console_queue import HTML, orders
from tests.apps.test_console_records import outage
from tests.builders.bare import binding
from tests.builders.templates import namespace

GROUP = "rbac.authorization.k8s.io"


@pytest.fixture
def teammate(root: Client) -> Client:
    """A browser of an operator of the namespace shop."""
    user = get_user_model().objects.create_user("tina", password=PASSWORD)
    stored(namespace("shop"))
    make_roles(store())
    bound = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "tina", "namespace": "shop"},
        "roleRef": {"kind": "ClusterRole", "name": "lifeboat:operator", "apiGroup": GROUP},
        "subjects": [{"kind": "User", "name": "tina", "apiGroup": GROUP}],
    }
    Writer(store(), Settings(), Author("test", "Test")).create(KINDS[f"{GROUP}/RoleBinding"], bound)
    access().policy(reread=True)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def reader_of_one(root: Client) -> Client:
    """A browser of a user who may read a single object of each kind, and list and watch it by its name."""
    user = get_user_model().objects.create_user("olga", password=PASSWORD)
    groups = ["cluster.karmada.io", "work.karmada.io", "failover.lifeboat.io"]
    one = {"verbs": ["get", "list", "watch"], "apiGroups": groups, "resources": ["*"], "resourceNames": ["one"]}
    head = {"apiVersion": f"{GROUP}/v1", "metadata": {"name": "olga"}}
    writer = Writer(store(), Settings(), Author("test", "Test"))
    writer.create(KINDS[f"{GROUP}/ClusterRole"], {**head, "kind": "ClusterRole", "rules": [one]})
    bound = {
        "roleRef": {"kind": "ClusterRole", "name": "olga", "apiGroup": GROUP},
        "subjects": [{"kind": "User", "name": "olga", "apiGroup": GROUP}],
    }
    writer.create(KINDS[f"{GROUP}/ClusterRoleBinding"], {**head, "kind": "ClusterRoleBinding", **bound})
    access().policy(reread=True)
    client = Client()
    client.force_login(user)
    return client


def status(client: Client, path: str) -> int:
    return int(client.get(path, HTTP_ACCEPT=HTML).status_code)


def test_the_queue_and_orders_of_the_namespace_are_open_and_those_of_others_are_not(teammate: Client) -> None:
    in_queue("web")

    assert status(teammate, "/queue") == 403
    shown = teammate.get("/queue?namespace=shop", HTTP_ACCEPT=HTML)
    assert shown.status_code == 200
    assert b'name="verb"' in shown.content
    assert status(teammate, f"/queue/order?verb={HOLD}&item=bank/web.member1") == 403
    assert status(teammate, f"/queue/order?verb={HOLD}&item=shop/web.member1&item=bank/web.member1") == 403
    assert status(teammate, f"/queue/order?verb={HOLD}&everything=yes") == 403
    assert status(teammate, "/queue/rates") == 403

    done = teammate.post("/queue/order", {"verb": HOLD, "item": "shop/web.member1", "reason": "x", "concerned": "1"})
    assert (done.status_code, orders("web")) == (303, [HOLD])


def test_a_page_about_the_whole_fleet_leads_to_the_pages_of_the_namespace(root: Client, teammate: Client) -> None:
    """The first page after the login was a refusal whose only link led to itself."""
    stored(*(binding("web", "member1", namespace=name) for name in ("bank", "shop")))

    shown = {path: teammate.get(path, HTTP_ACCEPT=HTML) for path in ("/", "/queue", "/clusters")}

    assert {path: answer.status_code for path, answer in shown.items()} == {"/": 403, "/queue": 403, "/clusters": 403}
    for path, answer in shown.items():
        text = answer.content.decode()
        named = re.findall(r'href="(/[a-z-]+\?namespace=\w+)"', text)
        assert named == ["/queue?namespace=shop", "/records?namespace=shop", "/readiness?namespace=shop"], path
        assert {status(teammate, url) for url in named} == {200}
        assert "lifeboat:viewer" in text
        assert ("To Situation" in text) == (path != "/")


def test_records_and_workloads_of_the_namespace_are_open_and_those_of_others_are_not(teammate: Client) -> None:
    name = outage("web")["web"]

    assert status(teammate, "/records") == 403
    assert (
        f"/records/{name}?namespace=shop" in teammate.get("/records?namespace=shop", HTTP_ACCEPT=HTML).content.decode()
    )
    assert status(teammate, f"/records/{name}") == 403
    assert status(teammate, f"/records/{name}?namespace=shop") == 200
    assert status(teammate, f"/records/{name}.md?namespace=shop") == 200
    assert status(teammate, f"/records/{name}?namespace=bank") == 403
    assert status(teammate, "/bindings/shop/web") == 200
    assert status(teammate, "/bindings/bank/web") == 403


@pytest.mark.parametrize("path", ["/queue", "/records", "/readiness"])
def test_a_page_of_the_namespace_is_live_and_its_stream_is_open_for_no_other(teammate: Client, path: str) -> None:
    tina = get_user_model().objects.get(username="tina")

    def opens(url: str, **more: str) -> bool:
        request = Request(RequestFactory().get("/stream", {"page": url, **more}))
        request.user = tina
        return authorize(StreamView().attributes(request)).allowed

    assert status(teammate, f"{path}?namespace=shop") == 200
    assert opens(f"{path}?namespace=shop")
    assert not opens(f"{path}?namespace=bank")
    assert not opens(f"{path}?namespace=bank", namespace="shop")
    assert not opens(path, namespace="shop")


def test_a_record_of_another_namespace_is_not_found_under_this_one(root: Client) -> None:
    name = outage("web")["web"]

    assert status(root, f"/records/{name}?namespace=bank") == 404


def test_a_drill_is_about_namespaces_whose_workloads_the_user_may_list(root: Client, teammate: Client) -> None:
    head = {"apiVersion": f"{GROUP}/v1", "metadata": {"name": "drills"}}
    rules = [{"apiGroups": ["failover.lifeboat.io"], "resources": ["drills"], "verbs": ["create"]}]
    bound = {"roleRef": {"kind": "ClusterRole", "name": "drills", "apiGroup": GROUP}}
    bound["subjects"] = [{"kind": "User", "name": "tina", "apiGroup": GROUP}]  # type: ignore[assignment]
    writer = Writer(store(), Settings(), Author("test", "Test"))
    writer.create(KINDS[f"{GROUP}/ClusterRole"], {**head, "kind": "ClusterRole", "rules": rules})
    writer.create(KINDS[f"{GROUP}/ClusterRoleBinding"], {**head, "kind": "ClusterRoleBinding", **bound})
    access().policy(reread=True)
    stored(*(binding("web", "member1", namespace=name) for name in ("bank", "shop")))

    offered = {
        client: re.findall(r'name="namespaces" value="(\w+)"', shown.content.decode())
        for client in (root, teammate)
        if (shown := client.get("/drills/start", HTTP_ACCEPT=HTML)).status_code == 200
    }

    assert list(offered.values()) == [["bank", "shop"], ["shop"]]


@pytest.mark.parametrize(
    "page", ["/clusters", "/queue", "/records", "/readiness", "/readiness.csv", "/records.md", "/drills"]
)
def test_who_may_list_one_object_by_name_reads_no_page_about_all_of_them(page: str, reader_of_one: Client) -> None:
    """A page shows the same whatever a field selector in its address says. One bug: it opened the page."""
    assert status(reader_of_one, page) == 403
    assert status(reader_of_one, f"{page}?fieldSelector=metadata.name%3Done") == 403
    assert status(reader_of_one, f"{page}?namespace=shop&fieldSelector=metadata.name%3Done") == 403
