"""A person with a browser steers the eviction queue and says that a lost cluster is down; kubectl sees it at once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from controlplane.apimachinery.names import EVICTION_ORDERS_ANNOTATION as ORDERS
from controlplane.apimachinery.names import FENCE_ANNOTATION
from tests.browser.conftest import Server
from tests.browser.person import log_in, open_cluster, open_link

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def shown_by_kubectl(kubectl: Path, server: Server, *what: str, annotation: str) -> dict[str, object]:
    """Return what kubectl reads in an annotation, empty where there is none."""
    command = [str(kubectl), "--kubeconfig", str(server.kubeconfig), "get", *what, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return dict(json.loads(json.loads(done.stdout)["metadata"].get("annotations", {}).get(annotation, "{}")))


def order(page: Page, server: Server, action: str, *names: str) -> None:
    """Choose items of the admin's list and an action; the page that shows what the order would do comes."""
    page.goto(f"{server.url}/admin/failover/eviction/?cluster=member1")
    for name in names:
        page.get_by_role("row").filter(has_text=f"shop/{name}").get_by_role("checkbox").check()
    page.get_by_label("Action:").select_option(label=action)
    page.get_by_title("Run the selected action").click()


@pytest.mark.parametrize(
    ("any_browser", "action", "verb"),
    [
        ("without scripts", "Hold until released", "Hold"),
        ("with scripts", "Skip until the taint goes", "Skip"),
        ("without scripts", "Expedite: first in order", "Expedite"),
    ],
    indirect=["any_browser"],
)
def test_what_waits_to_leave_a_cluster_is_found_ordered_about_and_released(
    server: Server, any_browser: BrowserContext, kubectl: Path, action: str, verb: str
) -> None:
    from tests.apps.pages import in_queue, lost_cluster  # here, and below: needs Django set up

    def orders(name: str) -> list[tuple[str, str, str]]:
        found = shown_by_kubectl(kubectl, server, "resourcebinding", name, "-n", "shop", annotation=ORDERS)
        return [(one["verb"], one["reason"], one["by"]) for one in found.get("member1", [])]  # type: ignore[attr-defined]  # JSON

    lost_cluster()
    in_queue("web", "api", "other")
    page = log_in(any_browser, server)
    open_cluster(page, server, "member1")
    open_link(page, "Evictions")
    expect(page.locator("#result_list tbody tr")).to_have_count(3)

    order(page, server, action, "web", "api")
    button = page.get_by_role("button", name=f"{verb} 2 evictions")
    expect(button).to_be_visible()
    assert orders("web") == []

    page.get_by_label("Reason").fill("we are releasing")
    button.click()
    expect(page.get_by_text(f"{verb} 2 evictions: done")).to_be_visible()
    given = [(verb, "we are releasing", "root")]
    assert (orders("web"), orders("api"), orders("other")) == (given, given, [])

    order(page, server, "Release: remove the order", "web")
    page.get_by_label("Reason").fill("released")
    page.get_by_role("button", name="Release 1 eviction").click()
    expect(page.get_by_text("Release 1 eviction: done")).to_be_visible()
    assert (orders("web"), orders("api")) == ([], given)


def test_what_left_meanwhile_is_reported_and_nothing_is_ordered(
    server: Server, any_browser: BrowserContext, kubectl: Path
) -> None:
    from tests.apps.pages import in_queue, lost_cluster

    lost_cluster()
    in_queue("web", state="Evicted")
    page = log_in(any_browser, server)
    open_cluster(page, server, "member1")
    open_link(page, "Evictions")

    order(page, server, "Hold until released", "web")

    expect(page.locator("main")).to_contain_text("has already been evicted from cluster member1")
    assert shown_by_kubectl(kubectl, server, "resourcebinding", "web", "-n", "shop", annotation=ORDERS) == {}


def test_a_lost_cluster_is_fenced_with_a_reason_and_the_fence_is_taken_away(
    server: Server, any_browser: BrowserContext, kubectl: Path
) -> None:
    from tests.apps.pages import lost_cluster

    lost_cluster()
    page = log_in(any_browser, server)
    open_cluster(page, server, "member1")
    open_link(page, "Fence")

    page.get_by_role("button", name="Show what it would do").click()
    page.get_by_role("button", name="Fence member1").click()
    assert shown_by_kubectl(kubectl, server, "cluster", "member1", annotation=FENCE_ANNOTATION) == {}

    page.get_by_label("Reason").fill("its power is off")
    page.get_by_label("Type member1 to confirm").fill("member1")
    page.get_by_role("button", name="Fence member1").click()
    expect(page.get_by_text("Fence member1: done")).to_be_visible()
    fence = shown_by_kubectl(kubectl, server, "cluster", "member1", annotation=FENCE_ANNOTATION)
    assert (fence["by"], fence["reason"]) == ("root", "its power is off")

    page.get_by_role("link", name="Remove the fence").click()
    page.get_by_label("Reason").fill("it is back")
    page.get_by_role("button", name="Remove the fence").click()
    expect(page.get_by_text("Remove the fence of member1: done")).to_be_visible()
    assert shown_by_kubectl(kubectl, server, "cluster", "member1", annotation=FENCE_ANNOTATION) == {}


def test_a_cluster_that_answers_is_not_fenced_and_the_page_says_why(
    server: Server, any_browser: BrowserContext, kubectl: Path
) -> None:
    from controlplane.apimachinery.meta import Condition
    from tests.apps.pages import stored
    from tests.builders.bare import START, cluster

    stored(cluster("member1").with_status(conditions=(Condition("Ready", "True", last_transition_time=START),)))
    page = log_in(any_browser, server)
    open_cluster(page, server, "member1")
    open_link(page, "Fence")

    page.get_by_role("button", name="Show what it would do").click()

    expect(page.locator("main")).to_contain_text("Ready")
    expect(page.get_by_role("button", name="Fence member1")).to_have_count(0)
    assert shown_by_kubectl(kubectl, server, "cluster", "member1", annotation=FENCE_ANNOTATION) == {}
