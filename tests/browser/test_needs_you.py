"""What needs an operator on Situation: each has a button that leads to its remedy, with and without scripts."""

from __future__ import annotations

import base64
import csv
import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import BrowserContext, expect

from controlplane.apimachinery.meta import Condition
from controlplane.eviction.purge import with_task
from controlplane.kinds.binding import GracefulEvictionTask
from controlplane.kinds.cluster import SecretReference
from controlplane.kinds.configuration import FailoverConfiguration
from controlplane.kinds.obstacle import BLOCKS, Obstacle
from controlplane.kinds.rows import BindingReadiness
from tests.browser.conftest import Server, logged_in
from tests.builders import bare, objects, templates
from tests.builders.bare import meta
from tests.builders.objects import START
from tests.builders.placements import duplicated

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CONFIGURATION = ("failover.lifeboat.io/v1alpha1", "FailoverConfiguration")
REMEDIES = {
    "Stuck": ("Failovers", "/records", "web-deployment"),
    "AccessLost": ("Credentials", "/clusters/member3#facts", "renew: lifeboat join member3 --cluster-kubeconfig FILE"),
    "CredentialExpires": ("Credentials", "/clusters/member4#facts", "token until"),
    "DirectlyWaiting": ("Fence …", "/clusters/member1/fence", "Valid for (minutes)"),
    "NeverReady": ("Look", "/clusters/member5", "member5"),
    "GateOff": ("Switch on …", "/queue/gate/on", "Switch failover on"),
}
"""What: the text of its button, where it leads, and what stands there."""


def token(*, days: int) -> str:
    """Return a JSON Web Token that expires."""
    at = datetime.now(UTC) + timedelta(days=days)
    payload = base64.urlsafe_b64encode(json.dumps({"exp": int(at.timestamp())}).encode()).decode().rstrip("=")
    return f"e30.{payload}.x"


def store_troubles() -> None:
    """Store a fleet that needs an operator in each way that does not exclude another."""
    from tests.apps.pages import stored
    from tests.apps.test_records import changed

    lost = objects.cluster("member3")
    refused = Condition("AccessLost", "True", "AccessRefused", "401", last_transition_time=START)
    expiring = objects.cluster("member4").with_spec(secret_ref=SecretReference("default", "member4"))
    left = (GracefulEvictionTask("member1", "Directly", creation_timestamp=START),)
    made = stored(objects.binding("web", duplicated(), on={"member2": 1}))[0]
    moving = with_task(
        made, "member2", mode="Gracefully", reason="TaintUntolerated", producer="TaintManager", message="", now=START
    )
    changed(made, moving, reason="Evictions")
    stored(
        objects.cluster("member1", ready="False"),
        objects.cluster("member2"),
        lost.with_status(conditions=(*lost.status.conditions, refused)),
        expiring,
        objects.cluster("member5", ready="", established=False),
        templates.secret("member4", {"token": token(days=3)}),
        objects.binding("ledger", duplicated(), on={"member2": 1}).with_spec(graceful_eviction_tasks=left),
        FailoverConfiguration(
            *CONFIGURATION,
            meta("default", ""),
            {"featureGates": {"Failover": False}},
        ),
    )


def test_each_thing_that_needs_an_operator_has_a_button_to_its_remedy(
    server: Server, any_browser: BrowserContext
) -> None:
    store_troubles()
    console = logged_in(server, any_browser)

    for what, (button, path, shown) in REMEDIES.items():
        page = console.go("/")
        line = page.locator("section.needs li").filter(has=page.locator(".badge", has_text=re.compile(f"{what}$")))
        expect(line).to_have_count(1)
        link = line.get_by_role("link", name=button)
        expect(link).to_be_visible()
        link.click()
        expect(page).to_have_url(f"{console.url}{path}")
        expect(page.locator("main")).to_contain_text(shown)
    assert console.errors == []


def test_without_any_ready_cluster_the_button_leads_to_the_clusters(
    server: Server, any_browser: BrowserContext
) -> None:
    from tests.apps.pages import stored

    stored(*(objects.cluster(f"member{number}", ready="False") for number in (1, 2, 3)))
    stored(FailoverConfiguration(*CONFIGURATION, meta("default", ""), {"featureGates": {"Failover": True}}))
    console = logged_in(server, any_browser)

    page = console.go("/")
    line = page.locator("section.needs li").filter(has=page.locator(".badge", has_text="Blind"))
    expect(line).to_contain_text("check from another network whether the clusters are down")
    line.get_by_role("link", name="Clusters").click()

    expect(page).to_have_url(f"{console.url}/clusters")
    assert console.errors == []


def test_the_file_of_readiness_has_the_rows_of_the_page(server: Server, any_browser: BrowserContext) -> None:
    from tests.apps.pages import stored
    from tests.apps.test_console_queue import saved

    stored(objects.cluster("member1"), bare.binding("web", "member1"))
    blocked = Obstacle("NoRefuge", BLOCKS, "no other cluster fits, it is said", "add nodes", "member1")
    saved(BindingReadiness(str(bare.binding("web").ref), "shop", "web", obstacles=(blocked,)))
    page = logged_in(server, any_browser).go("/readiness")

    with page.expect_download() as started:
        page.get_by_role("link", name="CSV").click()
    rows = list(csv.DictReader(started.value.path().read_text().splitlines()))

    assert started.value.suggested_filename == "readiness.csv"
    assert [list(row.values())[:2] for row in rows] == [["shop", "web"]]
    assert "no other cluster fits, it is said" in "".join(rows[0].values())


def test_the_report_of_failovers_is_markdown(server: Server, any_browser: BrowserContext) -> None:
    from tests.apps.pages import stored
    from tests.apps.test_records import evicted

    made = stored(objects.cluster("member1"), bare.binding("web", "member1"))[1]
    evicted(made.ref)
    page = logged_in(server, any_browser).go("/records")

    page.get_by_role("link", name="Report as Markdown").click()  # the browser shows it, and saves it as failovers.md

    expect(page.locator("body")).to_contain_text("# Failovers")
    expect(page.locator("body")).to_contain_text("shop/web")
