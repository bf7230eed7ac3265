"""What needs an operator on Situation: each has a button that leads to its remedy, with and without scripts."""

from __future__ import annotations

import base64
import csv
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from apps.simulator import folder
from controlplane.apimachinery.meta import Condition
from controlplane.clusters import flapping
from controlplane.eviction.purge import with_task
from controlplane.kinds.binding import GracefulEvictionTask
from controlplane.kinds.cluster import SecretReference
from controlplane.kinds.configuration import FailoverConfiguration
from controlplane.kinds.obstacle import BLOCKS, Obstacle
from controlplane.kinds.rows import BindingReadiness, Observation
from tests.browser.conftest import Console, Server, logged_in, serve
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


STOPPED_BY_TWO_OF_THREE = """
apiVersion: failover.lifeboat.io/v1alpha1
kind: FailoverConfiguration
metadata: {name: default}
spec: {unhealthyClusterThreshold: 0.5}
"""


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


def line_of(page: Page, what: str) -> Locator:
    """Return the lines of "Needs you" about this."""
    return page.locator("section.needs li").filter(has=page.locator(".badge", has_text=re.compile(f"{what}$")))


def is_mended_by(console: Console, what: str, remedy: tuple[str, str, str]) -> None:
    """Follow the button of what needs an operator. `remedy`: as in REMEDIES."""
    (button, path, shown), page = remedy, console.go("/")
    expect(line_of(page, what)).to_have_count(1)
    line_of(page, what).get_by_role("link", name=button).click()
    expect(page).to_have_url(f"{console.url}{path}")
    expect(page.locator("main")).to_contain_text(shown)


def test_each_thing_that_needs_an_operator_has_a_button_to_its_remedy(
    server: Server, any_browser: BrowserContext
) -> None:
    store_troubles()
    console = logged_in(server, any_browser)

    for what, remedy in REMEDIES.items():
        is_mended_by(console, what, remedy)
    assert console.errors == []


def directly(*clusters: str) -> str:
    """Return a policy for the Deployment `once`, of which two copies may never run at the same time."""
    from tests.apps.stack import policy

    text = policy(*clusters, groups=1).replace("name: everywhere", "name: directly")
    text = text.replace("kind: Deployment", "kind: Deployment\n    name: once")
    return text.replace("spec:\n", "spec:\n  failover: {cluster: {purgeMode: Directly}}\n", 1)


def turns(running: Any, name: str) -> int:
    """Return how often the answers of a member have changed between ready and not ready."""
    (seen,) = running.store.rows(Observation, "key", [name])[name]
    return int(seen.turns)


def turn(running: Any, name: str, fault: str) -> None:
    """Set the fault of a member, and wait until its answers have changed by that."""
    from tests.apps.stack import WITHIN
    from tests.processes import until

    before = turns(running, name)
    running.fleet.set_fault(name, fault)
    until(lambda: turns(running, name) > before, within=WITHIN)


def test_each_fault_of_a_running_product_has_its_line_while_it_lasts(
    transactional_db: None, tmp_path: Path, redis_url: str, scripted: BrowserContext, browser: BrowserContext
) -> None:
    from tests.apps.stack import LEAVE_WHERE_NOT_READY, WITHIN, deployment, policy, stack
    from tests.processes import until

    expiring = {"name": "member3", "url": "http://127.0.0.1:0", "token": token(days=3)}
    folder.write(tmp_path / "members", members=[expiring], control="")  # the simulated member3 accepts this token
    members = ("member1", "member2", "member3")
    with stack(
        tmp_path,
        redis_url,
        *members,
        graceful_eviction_timeout="2",
        unhealthy_cluster_threshold="1",
        cluster_success_threshold="3",  # a cluster flaps until it was calm for ten times that
    ) as running:
        assert running.fleet is not None
        fault = running.fleet.set_fault
        running.up()
        server = serve(running.processes, tmp_path)
        running.create(LEAVE_WHERE_NOT_READY)
        running.join("member1")
        running.create(
            "\n---\n".join([policy(*members, groups=1), directly(*members), *map(deployment, ("web", "once"))])
        )
        until(lambda: all(running.healthy(name) == {"member1"} for name in ("web", "once")), within=WITHIN)
        running.join("member2", "member3")
        live, plain = logged_in(server, scripted), logged_in(server, browser)
        page = live.go("/")

        expect(line_of(page, "CredentialExpires")).to_contain_text("The token for member3 expires in 2 d 23 h")
        is_mended_by(plain, "CredentialExpires", ("Credentials", "/clusters/member3#facts", "token until"))

        fault("member3", "unauthorized")
        expect(line_of(page, "AccessLost")).to_contain_text("member3 refuses access")
        is_mended_by(plain, "AccessLost", REMEDIES["AccessLost"])
        fault("member3", "none")
        expect(line_of(page, "AccessLost")).to_have_count(0)

        for name in ("member2", "member3"):
            fault(name, "notready")
        fault("member1", "down")
        expect(line_of(page, "Stuck")).to_contain_text("1 moving copy stuck")
        is_mended_by(plain, "Stuck", ("Failovers", "/records", "web"))
        expect(line_of(page, "DirectlyWaiting")).to_contain_text("1 new copy waits for old copies on member1")
        is_mended_by(plain, "DirectlyWaiting", REMEDIES["DirectlyWaiting"])

        for name in ("member2", "member3"):
            fault(name, "down")
        expect(line_of(page, "Blind")).to_be_visible()
        is_mended_by(plain, "Blind", ("Clusters", "/clusters", "member1"))

        for name in members:
            fault(name, "none")
        for what in ("Blind", "Stuck", "DirectlyWaiting"):
            expect(line_of(page, what)).to_have_count(0)

        for number in range(flapping.TURNS):
            turn(running, "member3", "none" if number % 2 else "down")
        expect(line_of(page, "Flapping")).to_contain_text("member3 flaps: its answers changed between ready and not")
        is_mended_by(plain, "Flapping", ("Look", "/clusters/member3", "Flapping"))

        running.create(STOPPED_BY_TWO_OF_THREE)
        for name in ("member1", "member2"):
            fault(name, "down")
        expect(line_of(page, "Stopped")).to_contain_text("Nothing is evicted")
        is_mended_by(plain, "Stopped", ("Clusters", "/clusters", "member1"))

        for name in ("member1", "member2"):
            fault(name, "none")
        for what in ("Stopped", "Flapping"):
            expect(line_of(page, what)).to_have_count(0, timeout=60_000)
        assert live.errors == plain.errors == []


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
