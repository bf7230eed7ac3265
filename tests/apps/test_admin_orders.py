"""People steer the queue, and say that a lost cluster is down, on pages: with a reason, and under their own name."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from apps.objects.models import ChangeLog
from controlplane.apimachinery.meta import Condition, Ref
from controlplane.clusters.fence import fence_of
from controlplane.eviction.operator_orders import EXPEDITE, HOLD, SKIP, Order, orders_by_cluster
from controlplane.kinds.rows import EVICTED
from tests.apps.pages import found, in_queue, lost_cluster, page_of, stored
from tests.stores.grounds import CREATED, cluster

QUEUE = reverse("admin:failover_eviction_changelist")


def asked(client: Client, action: str, *keys: str, reason: str = "we are on it") -> str:
    """Choose items of the list and an action; return the page that comes after it."""
    sent = {"action": action, "_selected_action": keys, "index": "0", "reason": reason}
    return client.post(QUEUE, sent, follow=True).content.decode()


def order_on(key: str) -> Order | None:
    one = found(Ref.parse(key.partition("|")[0]))
    return next(iter(orders_by_cluster(one).get("member1", ())), None)


@pytest.mark.parametrize(("action", "verb"), [("hold", HOLD), ("skip", SKIP), ("expedite", EXPEDITE)])
def test_an_order_is_given_to_what_is_chosen_with_a_reason_and_a_name(root: Client, action: str, verb: str) -> None:
    keys = in_queue("web", "api", "other")

    said = asked(root, action, keys["web"], keys["api"])

    assert f"{verb}: 2." in said
    given = [order_on(keys[name]) for name in ("web", "api")]
    assert [one and (one.verb, one.reason, one.by, len(one.taints)) for one in given] == [
        (verb, "we are on it", "root", 1)
    ] * 2
    assert order_on(keys["other"]) is None
    logged = ChangeLog.objects.filter(name="web").latest("version")
    assert (logged.actor, logged.reason) == ("root", f"Eviction{verb}: we are on it")


def test_release_takes_an_order_away(root: Client) -> None:
    key = in_queue("web")["web"]
    asked(root, "hold", key)

    asked(root, "release", key, reason="done")

    assert order_on(key) is None
    assert ChangeLog.objects.filter(name="web").latest("version").reason == "EvictionRelease: done"


def test_without_a_reason_nothing_is_ordered(root: Client) -> None:
    key = in_queue("web")["web"]

    said = asked(root, "hold", key, reason="  ")

    assert "Write the reason into the field Reason" in said
    assert order_on(key) is None


def test_what_has_left_already_is_reported(root: Client) -> None:
    key = in_queue("web", state=EVICTED)["web"]

    assert "has already been evicted from cluster member1" in asked(root, "hold", key)
    assert order_on(key) is None


def test_the_staff_sees_the_queue_and_orders_nothing(clerk: Client) -> None:
    key = in_queue("web")["web"]

    page = clerk.get(QUEUE).content.decode()
    asked(clerk, "hold", key)

    assert "shop/web" in page
    assert "Hold until released" not in page
    assert order_on(key) is None


def fence_page(ref: Ref) -> str:
    return page_of(found(ref), "fence")


def test_a_lost_cluster_is_fenced_and_the_fence_taken_away(root: Client) -> None:
    ref = lost_cluster()
    sent = {"reason": "power is off", "expires_in_seconds": "600"}

    said = root.post(fence_page(ref), sent, follow=True).content.decode()

    fence = fence_of(found(ref))
    assert fence is not None
    assert (fence.by, fence.reason, (fence.expires_at - fence.made_at).total_seconds()) == ("root", "power is off", 600)
    assert "Cluster member1 is fenced." in said
    logged = ChangeLog.objects.filter(name="member1").latest("version")
    assert (logged.actor, logged.reason) == ("root", "Fence")

    assert "Remove the fence" in root.get(fence_page(ref)).content.decode()
    root.post(fence_page(ref), {"_undo": "yes"})
    assert fence_of(found(ref)) is None


def test_a_fence_that_cannot_be_is_refused_at_each_field(root: Client) -> None:
    ref = lost_cluster()

    said = root.post(fence_page(ref), {"reason": "", "expires_in_seconds": "604801"}).content.decode()

    assert "say how the cluster is known to be down" in said
    assert "must be between 1 and 604800" in said
    assert "equal to 1" in root.post(fence_page(ref), {"reason": "", "expires_in_seconds": "0"}).content.decode()
    assert fence_of(found(ref)) is None


def test_a_cluster_that_is_ready_is_not_fenced_and_a_clerk_fences_none(root: Client, clerk: Client) -> None:
    ready = cluster("member1").with_status(conditions=(Condition("Ready", "True", last_transition_time=CREATED),))
    ref = stored(ready)[0].ref
    sent = {"reason": "power is off", "expires_in_seconds": "600"}

    assert "the cluster is Ready, so its copies run" in root.post(fence_page(ref), sent).content.decode()
    assert clerk.post(fence_page(ref), sent).status_code == 403
    assert fence_of(found(ref)) is None
