"""What every person with a browser does first."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page, expect

from tests.apps.credentials import PASSWORD
from tests.browser.conftest import Server


def log_in(browser: BrowserContext, server: Server) -> Page:
    """Return a page of root's, at the front."""
    page = browser.new_page()
    page.goto(f"{server.url}/admin/")
    page.get_by_label("Username").fill("root")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    return page


def open_cluster(page: Page, server: Server, name: str) -> None:
    """Go to a cluster's page from the list of clusters."""
    page.goto(f"{server.url}/admin/clusters/cluster/")
    page.get_by_role("link", name=name, exact=True).click()


def open_link(page: Page, name: str) -> None:
    """Follow a link of the page itself. With JavaScript the admin's sidebar has links of the same names."""
    page.locator("#content-main").get_by_role("link", name=name, exact=True).click()
