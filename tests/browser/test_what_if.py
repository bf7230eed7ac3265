"""A person asks what if: the form, the answer that appears by itself, and the same without JavaScript."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.conftest import Server, logged_in
from tests.processes import until
from tests.stores.grounds import binding, cluster

pytestmark = [pytest.mark.browser, pytest.mark.slow]
ANSWER = "moves nothing, 1 without a place, 1 namespace"


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_a_person_asks_and_the_answer_appears(server: Server, request: pytest.FixtureRequest, scripts: bool) -> None:
    from apps.failover import what_if_runs  # here: needs Django set up
    from controlplane.insight.changes import ClustersDrained
    from tests.apps.pages import stored

    context: BrowserContext = request.getfixturevalue("scripted" if scripts else "browser")
    stored(cluster("member1"), cluster("member2"), binding("web", "member1"))
    console = logged_in(server, context)

    page = console.go("/what-if")
    page.get_by_label("Clusters drained").select_option("member1")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_text(ANSWER)).to_be_visible()
    expect(page.get_by_role("link", name="Deployment shop/web")).to_be_visible()

    run = what_if_runs.start([ClustersDrained(("member1",))], user="root")
    page = console.go(f"/what-if/{run}")
    expect(page.get_by_text("being worked out")).to_be_visible()
    if not scripts:
        until(lambda: (found := what_if_runs.read(run)) and found.status.phase != "Running", within=60)
        page.get_by_role("link", name="Reload").click()
    expect(page.get_by_text(ANSWER)).to_be_visible()
    assert console.errors == []
