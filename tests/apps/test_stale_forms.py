"""A form that was shown before another operator changed what it is about does nothing, and shows the present state."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

import pytest
from django.test import Client
from django.urls import reverse
from msgspec.structs import replace

from apps.api.models import ServiceAccountToken
from apps.failover.steering import set_rates
from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.objects.writer import Author, Writer
from controlplane.apimachinery.meta import Ref
from controlplane.eviction.operator_orders import SKIP
from controlplane.kind import KINDS
from controlplane.kinds import CLUSTER, EVICTION_HOLD
from controlplane.kinds.binding import TargetCluster
from controlplane.kinds.rows import EVICTED
from controlplane.kinds.workload_rebalancer import WORKLOAD_REBALANCER
from tests.apps.guarded_acts import BINDING, fleet
from tests.apps.pages import change, found, in_queue, list_of, page_of, stored
from tests.apps.test_console_queue import orders, plain, saved
from tests.apps.test_sent_twice import form_at
from tests.builders import objects
from tests.builders.bare import START, template
from tests.builders.objects import eviction

pytestmark = pytest.mark.django_db(transaction=True)

HTML = "text/html"
CORRUPT = "the storage is corrupt"
PAUSE, MEMBER6 = Ref(EVICTION_HOLD, "", "pause"), Ref(CLUSTER, "", "member6")


def writer() -> Writer:
    return Writer(store(), configuration().settings(reread=True), Author("carol", "Test"))


def paused(reason: str) -> None:
    resource = KINDS[EVICTION_HOLD].resource
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "pause"}}
    writer().create(KINDS[EVICTION_HOLD], {**head, "spec": {"reason": reason, "who": "carol"}})


def paused_again() -> None:
    writer().delete([PAUSE])
    paused(CORRUPT)


def joined_again() -> None:
    old = found(MEMBER6)
    change(old, replace(old, metadata=replace(old.metadata, finalizers=())))
    writer().delete([MEMBER6])
    made = objects.cluster("member6")
    stored(replace(made, metadata=replace(made.metadata, uid="joined-again")))


def stopped() -> None:
    set_rates(writer(), rate=0, secondary=0)


def moved() -> None:
    old = found(BINDING)
    change(old, old.with_spec(clusters=(TargetCluster("member2", 2),)))


class Stale(NamedTuple):
    """A form, what another operator does after it was shown, and whether that is in force."""

    path: str
    values: dict[str, str]
    typed: str
    other: Callable[[], None]
    holds: Callable[[], bool]


CASES: dict[str, Stale] = {
    "resume": Stale("/resume/pause", {}, "", paused_again, lambda: found(PAUSE).spec.reason == CORRUPT),
    "unjoin": Stale(
        "/clusters/member6/unjoin",
        {"copies": "delete"},
        "member6",
        joined_again,
        lambda: found(MEMBER6) is not None and not found(MEMBER6).terminating,
    ),
    "rates": Stale(
        "/queue/rates",
        {"rate": "5", "secondary": "1"},
        "",
        stopped,
        lambda: configuration().settings(reread=True).resource_eviction_rate == 0,
    ),
    "rebalance": Stale(
        "/bindings/default/web0-deployment/rebalance",
        {},
        "",
        moved,
        lambda: not store().list(WORKLOAD_REBALANCER),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_form_about_an_earlier_state_does_nothing_until_it_is_confirmed_again(root: Client, name: str) -> None:
    case = CASES[name]
    fleet(1)
    paused("a test of the network")
    sent = {**form_at(root, case.path, case.values), "typed": case.typed}
    case.other()

    refused = root.post(case.path, sent, HTTP_ACCEPT=HTML)

    assert refused.status_code == 422
    assert "was changed or replaced since you looked" in plain(refused.content.decode())
    assert case.holds()
    again = {**form_at(root, case.path, case.values), "typed": case.typed}
    assert root.post(case.path, again, HTTP_ACCEPT=HTML).status_code == 303


def test_an_order_about_all_that_a_filter_finds_is_about_those_that_were_shown(root: Client) -> None:
    in_queue("web", "db")
    sent = form_at(root, "/queue/order", {"verb": SKIP, "everything": "yes", "cluster": "member1"})
    saved(replace(eviction("db", "member1"), state=EVICTED, due_at=None, ended_at=START))
    in_queue("api")

    done = root.post("/queue/order", sent, HTTP_ACCEPT=HTML)

    assert done.status_code == 303
    assert [orders(name) for name in ("web", "db", "api")] == [[SKIP], [], []]


def asked(client: Client, url: str, sent: dict[str, str]) -> dict[str, str]:
    """Return the fields with which a browser would send the page of the admin that asks to confirm an action."""
    page = client.post(url, sent).content.decode().partition('<form method="post" novalidate>')[2]
    assert page, "nothing is asked"
    return {**dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page)), "reason": "not used"}


def test_all_that_a_filter_finds_is_deleted_only_as_it_was_shown(root: Client) -> None:
    first, *_ = made = stored(*(template(f"old-{number}") for number in range(2)))
    url = f"{list_of('ConfigMap')}?q=old"
    key = page_of(first).split("/")[-3]
    sent = {"action": "delete_selected", "_selected_action": key, "select_across": "1", "index": "0"}
    form = {**asked(root, url, sent), "typed": "delete"}
    late = stored(template("old-but-needed"))[0]

    refused = root.post(url, form).content.decode()

    assert "other objects are chosen now than when you looked" in refused
    assert "old-but-needed" in refused
    assert found(late.ref) == late
    assert found(first.ref) == first
    done = root.post(url, {**asked(root, url, sent), "typed": "delete"}, follow=True).content.decode()
    assert "Deleted: 3." in done
    assert not any(found(one.ref) for one in (*made, late))


def test_an_action_that_is_sent_again_says_that_nothing_is_left(root: Client) -> None:
    key = page_of(stored(template("old"))[0]).split("/")[-3]
    sent = {"action": "delete_selected", "_selected_action": key, "index": "0"}
    form = {**asked(root, list_of("ConfigMap"), sent), "typed": "delete"}

    done, again = (root.post(list_of("ConfigMap"), form, follow=True).content.decode() for _ in range(2))

    assert "Deleted: 1." in done
    assert "None of the chosen objects exists any more." in again


def test_tokens_of_service_accounts_are_revoked_only_as_they_were_shown(root: Client) -> None:
    first = issued("first")
    url = reverse("admin:api_serviceaccounttoken_changelist")
    sent = {"action": "revoke", "_selected_action": str(first.pk), "select_across": "1", "index": "0"}
    form = asked(root, url, sent)
    late = issued("late")

    refused = root.post(url, form).content.decode()

    assert "other objects are chosen now" in refused
    assert ServiceAccountToken.objects.count() == 2
    done = root.post(url, asked(root, url, sent), follow=True).content.decode()
    assert "2 tokens are revoked" in done
    assert not ServiceAccountToken.objects.filter(pk__in=(first.pk, late.pk)).exists()


def issued(name: str) -> ServiceAccountToken:
    return ServiceAccountToken.objects.create(
        namespace="default", name=name, audiences=[], digest=f"digest of {name}", expires=START + timedelta(days=9999)
    )


def test_clusters_that_have_left_meanwhile_are_not_called_cordoned(root: Client) -> None:
    fleet(1)
    key = page_of(found(MEMBER6)).split("/")[-3]
    form = asked(root, list_of(CLUSTER), sent := {"action": "cordon", "_selected_action": key, "index": "0"})
    old = found(MEMBER6)
    change(old, replace(old, metadata=replace(old.metadata, finalizers=())))
    writer().delete([MEMBER6])

    answers = [root.post(list_of(CLUSTER), fields, follow=True).content.decode() for fields in (form, sent)]

    assert all("None of the chosen clusters exists any more." in answer for answer in answers)


def test_a_cluster_that_joined_meanwhile_is_not_cordoned_unseen(root: Client) -> None:
    fleet(1)
    key = page_of(found(MEMBER6)).split("/")[-3]
    sent = {"action": "cordon", "_selected_action": key, "select_across": "1", "index": "0"}
    form = asked(root, list_of(CLUSTER), sent)
    late = stored(objects.cluster("member7"))[0]

    refused = root.post(list_of(CLUSTER), form).content.decode()

    assert "other objects are chosen now" in refused
    assert found(late.ref) == late
    assert not found(MEMBER6).spec.taints
