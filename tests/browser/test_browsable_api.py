"""A person with a browser and JavaScript reads and deletes through the pages of the API."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, expect

from controlplane.apimachinery.meta import Ref
from tests.browser.conftest import Server
from tests.browser.person import log_in
from tests.stores.grounds import template

pytestmark = [pytest.mark.browser, pytest.mark.slow]
CONFIGS = "/api/v1/namespaces/shop/configmaps"


def test_one_object_is_deleted_by_its_name_and_no_list_offers_a_deletion(
    server: Server, scripted: BrowserContext
) -> None:
    from tests.apps.pages import stored  # here: needs Django set up

    made = stored(template("one"), template("two"))
    page = log_in(scripted, server)
    page.goto(f"{server.url}{CONFIGS}")
    expect(page.get_by_role("button", name="POST")).to_be_visible()
    expect(page.get_by_role("button", name="DELETE")).to_have_count(0)

    page.goto(f"{server.url}{CONFIGS}/one")
    page.get_by_role("button", name="DELETE", exact=True).click()
    expect(page.get_by_role("heading", name="Delete ConfigMap one of namespace shop?")).to_be_visible()
    page.get_by_role("button", name="Delete ConfigMap one of namespace shop").click()

    expect(page.locator(".response-info")).to_contain_text("Success")
    assert [_stored(one.ref) for one in made] == [False, True]


def test_a_long_list_is_turned_page_by_page(server: Server, scripted: BrowserContext) -> None:
    from tests.apps.pages import stored

    stored(*(template(f"c{number:03}") for number in range(101)))
    page = log_in(scripted, server)
    page.goto(f"{server.url}{CONFIGS}")
    expect(page.locator(".content-main")).to_contain_text("This page shows 100 objects; 1 follow.")

    page.get_by_role("link", name="Next page").click()

    expect(page.get_by_role("link", name="c100")).to_be_visible()
    expect(page.get_by_role("link", name="c099")).to_have_count(0)


def _stored(ref: Ref) -> bool:
    from apps.objects.store import store

    return bool(store().get([ref]))
