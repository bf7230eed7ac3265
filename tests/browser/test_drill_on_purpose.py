"""A game day with a started product: a real drain from its start on the page to the report that is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from controlplane.kinds.drill import DRILL
from tests.browser.conftest import logged_in, opened, serve
from tests.processes import until

pytestmark = [pytest.mark.browser, pytest.mark.slow]

APPS = [f"web-{number}" for number in range(3)]


def test_a_real_drill_is_started_followed_and_kept_as_the_last_drill(
    transactional_db: None, tmp_path: Path, redis_url: str, chrome: Browser
) -> None:
    from tests.apps.stack import WITHIN, deployment, policy, stack  # here: needs Django set up

    with stack(tmp_path, redis_url, "member1", "member2") as running, opened(chrome, scripts=True) as context:
        running.up()
        server = serve(running.processes, tmp_path)
        running.join("member1")
        running.create("\n---\n".join([policy("member1", "member2", groups=1), *map(deployment, APPS)]))
        until(lambda: all(running.healthy(name) for name in APPS), within=WITHIN)
        running.join("member2")
        console = logged_in(server, context)

        page = console.go("/drills/start")
        page.get_by_label("Mode").select_option("Drain")
        page.get_by_role("checkbox", name="member1").check()
        page.get_by_role("checkbox", name="default").check()
        page.get_by_label("Rate").fill("5")
        page.get_by_role("button", name="Show what it would do").click()
        expect(page.locator("main")).to_contain_text("Moves 3, 1 namespace.")
        page.get_by_label("Reason").fill("October")
        page.get_by_role("button", name="Start a drill: drain member1").click()

        expect(page.get_by_role("heading", name="Criteria")).to_be_visible()
        expect(page.locator("#part-drill")).to_contain_text("Passed")
        expect(page.locator("#part-drill")).to_contain_text("1 healthy copy at the lowest, needed 1")
        expect(page.locator("#part-drill")).to_contain_text("The criteria count the namespace default.")
        for criterion in ("maxDurationSeconds", "maxWithoutPlace", "minHealthyCopies"):
            expect(page.locator("#part-drill")).to_contain_text(criterion)
        (kept,) = running.store.list(DRILL)
        assert (kept.status.result, kept.status.workloads, kept.status.moved) == ("Passed", 3, 3)
        assert {at.name for name in APPS for at in running.binding(name).spec.clusters} == {"member2"}

        page = console.go("/")
        last = page.locator("section", has=page.get_by_role("heading", name="Last drill"))
        expect(last).to_contain_text("Passed")
        last.get_by_role("link", name=kept.metadata.name).click()
        expect(page).to_have_url(f"{console.url}/drills/{kept.metadata.name}")
        assert console.errors == []
