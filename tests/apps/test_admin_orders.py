"""People steer the queue from the lists of the admin, on the pages that show first what an order does."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from apps.objects.models import ChangeLog
from controlplane.apimachinery.meta import Ref
from controlplane.eviction.operator_orders import EXPEDITE, HOLD, SKIP, Order, orders_by_cluster
from controlplane.kinds.rows import EVICTED
from tests.apps.pages import found, in_queue, lost_cluster, page_of

QUEUE = reverse("admin:failover_eviction_changelist")


def asked(client: Client, action: str, *keys: str) -> tuple[str, str]:
    """Choose items of the list and an action; return the URL of the page that comes after it, and the page."""
    answer = client.post(QUEUE, {"action": action, "_selected_action": keys, "index": "0"}, follow=True)
    return answer.redirect_chain[-1][0] if answer.redirect_chain else QUEUE, answer.content.decode()


def given(client: Client, action: str, *keys: str, reason: str = "we are on it") -> str:
    """Give an order on that page with a reason; return the page that comes after it."""
    url, _ = asked(client, action, *keys)
    names = ",".join(f"shop/{Ref.parse(key.partition('|')[0]).name}.member1" for key in keys)
    sent = {"verb": action.capitalize(), "item": names, "reason": reason}
    return client.post(url.partition("?")[0], sent, follow=True).content.decode()


def order_on(key: str) -> Order | None:
    one = found(Ref.parse(key.partition("|")[0]))
    return next(iter(orders_by_cluster(one).get("member1", ())), None)


@pytest.mark.parametrize(("action", "verb"), [("hold", HOLD), ("skip", SKIP), ("expedite", EXPEDITE)])
def test_an_order_is_shown_first_and_given_with_a_reason_and_a_name(root: Client, action: str, verb: str) -> None:
    keys = in_queue("web", "api", "other")

    _, shown = asked(root, action, keys["web"], keys["api"])
    assert f"{verb} 2 evictions" in shown
    assert "nothing has happened yet" in shown
    assert order_on(keys["web"]) is None

    given(root, action, keys["web"], keys["api"])

    orders = [order_on(keys[name]) for name in ("web", "api")]
    assert [one and (one.verb, one.reason, one.by, len(one.taints)) for one in orders] == [
        (verb, "we are on it", "root", 1)
    ] * 2
    assert order_on(keys["other"]) is None
    logged = ChangeLog.objects.filter(name="web").latest("version")
    assert (logged.actor, logged.reason) == ("root", f"Eviction{verb}: we are on it")


def test_release_takes_an_order_away(root: Client) -> None:
    key = in_queue("web")["web"]
    given(root, "hold", key)

    given(root, "release", key, reason="done")

    assert order_on(key) is None
    assert ChangeLog.objects.filter(name="web").latest("version").reason == "EvictionRelease: done"


def test_without_a_reason_nothing_is_ordered(root: Client) -> None:
    key = in_queue("web")["web"]

    assert "Write the reason" in given(root, "hold", key, reason="  ")
    assert order_on(key) is None


def test_what_has_left_already_is_reported(root: Client) -> None:
    key = in_queue("web", state=EVICTED)["web"]

    assert "has already been evicted from cluster member1" in asked(root, "hold", key)[1]


def test_more_evictions_than_a_url_names_are_ordered_about_on_the_queue_page(root: Client) -> None:
    keys = in_queue(*(f"web-{number:03}" for number in range(101)))

    url, shown = asked(root, "hold", *keys.values())

    assert url == QUEUE
    assert "Choose at most 100 evictions here" in shown


def test_the_staff_sees_the_queue_and_orders_nothing(clerk: Client) -> None:
    key = in_queue("web")["web"]

    page = clerk.get(QUEUE).content.decode()
    given(clerk, "hold", key)

    assert "shop/web" in page
    assert "Hold until released" not in page
    assert order_on(key) is None


def test_the_page_of_a_cluster_leads_to_the_acts_that_show_first_what_they_do(root: Client) -> None:
    page = root.get(page_of(found(lost_cluster()))).content.decode()

    for act in ("fence", "drain", "failback", "taint", "unjoin"):
        assert f'href="/clusters/member1/{act}"' in page
        assert root.get(f"/clusters/member1/{act}").status_code == 200
