"""A game day on the console: started behind its dry run, and read as a report that appears without a reload."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Console
from tests.builders.bare import binding, cluster

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def work_off() -> None:
    """Let the controller of drills do what is due."""
    from apps.objects.configuration import configuration
    from apps.objects.store import store
    from controlplane.controllers.drills import Drills
    from controlplane.engine.run import World, run_until_idle

    run_until_idle([Drills()], store(), configuration().settings(), world=World())


def test_a_simulated_drill_is_started_and_its_report_appears_without_a_reload(console: Console) -> None:
    from tests.apps.pages import stored

    stored(cluster("member1"), cluster("member2"), binding("web", "member1"))
    page = console.go("/drills")
    expect(page.get_by_text("No drill is on record")).to_be_visible()

    page.get_by_role("link", name="Start a drill").click()
    page.get_by_role("checkbox", name="member1").check()
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.get_by_text("Computes the loss of member1 and keeps the report. Nothing moves.")).to_be_visible()
    page.get_by_label("Reason").fill("October")
    page.get_by_role("button", name="Start a drill: simulate the loss of member1").click()
    expect(page.get_by_text("The drill waits for a worker.")).to_be_visible()
    expect(page.locator("#live")).to_have_text("live")
    page.evaluate("window.notReloaded = true")
    work_off()

    expect(page.get_by_role("heading", name="Criteria")).to_be_visible()
    expect(page.locator("#part-drill")).to_contain_text("maxWithoutPlace")
    assert page.evaluate("window.notReloaded")
    console.go("/")
    expect(page.get_by_role("heading", name="Last drill")).to_be_visible()
    assert console.errors == []
