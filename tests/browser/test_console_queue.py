"""An operator follows a failover on the console: the queue, the rates, an order, the records and a workload."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Console, Server, logged_in
from tests.browser.walk import walk
from tests.builders.bare import binding, cluster

pytestmark = [pytest.mark.browser, pytest.mark.slow]

APPS = 6
CRITERIA = "seconds=60&without_place=0&healthy=1&rate=1"
READ = ("/queue", "/records", "/bindings/shop/web", "/drills")
ACTS = (
    *("/queue/rates?rate=2&secondary=1", "/queue/order?verb=Hold&item=shop/other.member1"),
    *("/queue/gate/on", "/queue/gate/off", "/bindings/shop/web/revert", "/bindings/shop/web/rebalance"),
    *("/drills/start", f"/drills/start?clusters=member2&namespaces=shop&mode=Drain&{CRITERIA}"),
)
STOPPED = """
apiVersion: failover.lifeboat.io/v1alpha1
kind: FailoverConfiguration
metadata: {name: default}
spec: {featureGates: {Failover: true}, resourceEvictionRate: 0, secondaryResourceEvictionRate: 0}
"""


def figure(page: Page, word: str) -> int:
    """Return a figure of the queue as it is on the screen."""
    found = page.locator(".figure").filter(has_text=word).locator("b").inner_text()
    return int(found)


def in_database(state: str) -> int:
    from apps.failover.models import Eviction

    return Eviction.objects.filter(state=state).count()


def test_a_failover_is_followed_and_released_on_the_console(
    console: Console, tmp_path: Path, redis_url: str, redis_client: object
) -> None:
    from tests.apps.stack import LEAVE_WHERE_NOT_READY, WITHIN, deployment, policy, stack
    from tests.processes import until

    names = [f"web-{number}" for number in range(APPS)]
    with stack(tmp_path, redis_url, "member1", "member2", unhealthy_cluster_threshold="0.55") as running:
        running.create(STOPPED)
        running.up()
        running.create(LEAVE_WHERE_NOT_READY)
        running.join("member1")
        running.create("\n---\n".join([policy("member1", "member2", groups=1), *map(deployment, names)]))
        until(lambda: all(running.healthy(name) == {"member1"} for name in names), within=WITHIN)
        running.join("member2")
        page = console.go("/queue")
        expect(page.get_by_role("heading", level=1)).to_have_text("No eviction waits")
        assert running.fleet is not None
        running.fleet.set_fault("member1", "down")

        expect(page.get_by_role("heading", level=1)).to_contain_text(f"{APPS} evictions waiting")
        expect(page.locator("tbody tr")).to_have_count(APPS)
        assert (figure(page, "queued"), figure(page, "evicted")) == (in_database("Queued"), 0) == (APPS, 0)
        expect(page.locator("tbody tr").first).to_contain_text("a replacement for each lost copy: member2")
        expect(page.locator("#part-queue")).to_contain_text("the rate of evictions is 0")

        page.get_by_role("link", name="Change the rates").click()
        page.get_by_label("resourceEvictionRate", exact=False).first.fill("50")
        page.get_by_label("secondaryResourceEvictionRate").fill("5")
        page.get_by_role("button", name="Show what it would do").click()
        expect(page.get_by_text(f"{APPS} evictions wait. At 50/s the last takes place at")).to_be_visible()
        page.get_by_label("Reason").fill("member1 is lost")
        page.get_by_role("button", name="Set the rates 50 and 5").click()

        expect(page.get_by_role("heading", level=1)).to_have_text("No eviction waits")
        until(lambda: in_database("Evicted") == APPS, within=WITHIN)
        expect(page.locator(".figure").filter(has_text="evicted")).to_contain_text(str(APPS))
        until(lambda: all(running.healthy(name) == {"member2"} for name in names), within=WITHIN)

        console.go("/records")
        expect(page.get_by_text(f"{APPS} failovers").first).to_be_visible()
        expect(page.locator("svg.lanes .detecting")).to_have_count(1)
        page.locator("tbody").last.get_by_role("link", name="web-0", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Deployment web-0 in default: 1 of 1 copy healthy")
        assert console.errors == []


def test_the_pages_are_usable_wide_and_narrow_light_and_dark_without_errors(
    console: Console, plain_console: Console
) -> None:
    from tests.apps.pages import in_queue, stored
    from tests.apps.test_console_records import outage

    names = outage("web", "api")
    in_queue("other", "more")
    stored(cluster("member2"), *(binding("web", namespace=f"team-{number}") for number in range(40)))
    pages = [*READ, f"/records/{names['web']}", *ACTS]

    walk(console, pages, axe=True)
    walk(plain_console, pages)


def test_without_the_right_the_pages_are_usable_and_those_of_acts_say_what_is_forbidden(
    server: Server, scripted: BrowserContext, browser: BrowserContext
) -> None:
    from tests.apps.conftest import _client
    from tests.apps.pages import in_queue
    from tests.apps.test_console_records import outage

    _client(superuser=False)
    names = outage("web", "api")
    in_queue("other", "more")

    for context in (scripted, browser):
        console = logged_in(server, context, user="clerk")
        walk(console, [*READ, f"/records/{names['web']}"], axe=context is scripted)
        walk(console, ACTS, axe=context is scripted, status=403)
        for path in ACTS:
            expect(console.go(path).locator("main")).to_contain_text('is forbidden: User "clerk" cannot')


def test_an_order_is_given_without_javascript(plain_console: Console) -> None:
    from controlplane.apimachinery.meta import Ref
    from controlplane.eviction.operator_orders import orders_by_cluster
    from tests.apps.pages import found, in_queue, lost_cluster

    lost_cluster()
    keys = in_queue("web", "api", "other")
    page = plain_console.go("/queue")

    for name in ("web", "api"):
        page.get_by_label(f"Choose shop/{name} on member1").check()
    page.get_by_role("button", name="Hold").click()
    expect(page.get_by_text("Hold: 2 evictions from member1, in 1 namespace.")).to_be_visible()
    page.get_by_label("Reason").fill("we look")
    page.get_by_role("button", name="Hold 2 evictions").click()

    expect(page.get_by_role("status")).to_contain_text("Hold 2 evictions: done")
    given = {name: orders_by_cluster(found(Ref.parse(key.rpartition("|")[0]))) for name, key in keys.items()}
    assert [order.verb for name in ("web", "api") for order in given[name]["member1"]] == ["Hold", "Hold"]
    assert given["other"] == {}
    assert plain_console.errors == []


def test_failover_is_switched_on_and_a_workload_goes_back_and_is_placed_again(
    server: Server, any_browser: BrowserContext
) -> None:
    from apps.objects.configuration import REF
    from apps.objects.store import store
    from controlplane.kinds.workload_rebalancer import WORKLOAD_REBALANCER
    from tests.apps.pages import found, stored
    from tests.apps.test_console_cluster import ready
    from tests.apps.test_records import evicted
    from tests.builders import templates

    (moved, *_) = stored(binding("web", "member1"), ready("member1"), ready("member2"), templates.deployment("web"))
    evicted(moved.ref)
    console = logged_in(server, any_browser)
    page = console.go("/queue")

    page.get_by_role("link", name="Switch failover on").click()
    expect(page.locator("main")).to_contain_text("featureGates.Failover from default to true")
    page.get_by_label("Reason").fill("we are ready")
    page.get_by_role("button", name="Switch failover on").click()
    expect(page.get_by_role("link", name="Switch failover off")).to_be_visible()
    assert found(REF).spec == {"featureGates": {"Failover": True}}

    console.go("/bindings/shop/web").get_by_role("link", name="Take back the last failover").click()
    page.get_by_label("Reason").fill("a false alarm")
    page.get_by_role("button", name="Take back the failover of web").click()
    expect(page).to_have_url(f"{console.url}/bindings/shop/web")
    assert [one.name for one in found(moved.ref).spec.clusters] == ["member1"]

    page.get_by_role("link", name="Choose clusters again").click()
    expect(page.locator("main")).to_contain_text("Moves nothing.")
    page.get_by_label("Reason").fill("a new cluster")
    page.get_by_role("button", name="Choose the clusters of web again").click()
    expect(page).to_have_url(f"{console.url}/bindings/shop/web")
    (made,) = store().list(WORKLOAD_REBALANCER)
    assert [(one.namespace, one.name) for one in made.spec.workloads] == [("shop", "web")]
    assert console.errors == []
