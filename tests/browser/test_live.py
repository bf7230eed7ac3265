"""The tabs of a browser share one stream; it goes on when tabs close, and when the server was away."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Server, logged_in
from tests.builders.bare import cluster
from tests.processes import until

pytestmark = [pytest.mark.browser, pytest.mark.slow]
TABS = ("/", "/clusters", "/clusters?q=member", "/clusters/member1", "/")
WITHOUT_WORKERS = "delete window.SharedWorker"


def tabs(server: Server, context: BrowserContext) -> list[Page]:
    """Open a tab for each of TABS, as root."""
    found = [logged_in(server, context).page for _ in TABS]
    for page, path in zip(found, TABS, strict=True):
        page.goto(f"{server.url}{path}")
        expect(page.locator("#live")).to_have_text("live")
    return found


def join(name: str) -> Any:
    from tests.apps.pages import stored  # here: needs Django set up

    return stored(cluster(name))[0]


def test_five_tabs_share_a_stream_that_outlives_each_of_them(server: Server, scripted: BrowserContext) -> None:
    from tests.apps.pages import change

    first = join("member1")
    pages = tabs(server, scripted)
    until(lambda: server.streams() == 1, within=10)

    join("member2")
    for page in (pages[0], pages[1], pages[2], pages[4]):
        expect(page.get_by_text("member2").first).to_be_visible()
    change(first, first.with_spec(provider="harbour"))
    expect(pages[3].get_by_text("harbour")).to_be_visible()
    assert server.streams() == 1

    pages[0].close()  # the tab that began the stream
    pages[1].close()
    join("member3")
    for page in (pages[2], pages[4]):
        expect(page.get_by_text("member3").first).to_be_visible()
    assert server.streams() == 1
    for page in pages[2:]:
        page.close()
    until(lambda: server.streams() == 0, within=10)


def test_without_shared_workers_each_tab_has_a_stream(server: Server, scripted: BrowserContext) -> None:
    scripted.add_init_script(WITHOUT_WORKERS)
    pages = [logged_in(server, scripted) for _ in range(2)]
    for one in pages:
        one.go("/clusters")
        expect(one.page.locator("#live")).to_have_text("live")

    join("member1")

    for one in pages:
        expect(one.page.get_by_role("link", name="member1")).to_be_visible()
        assert one.errors == []
    assert server.streams() == 2
