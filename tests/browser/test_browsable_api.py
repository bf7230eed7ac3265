"""A person with a browser and JavaScript reads and deletes through the pages of the API."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, expect

from controlplane.apimachinery.meta import Ref
from tests.browser.conftest import Server
from tests.browser.person import log_in
from tests.builders.bare import binding, cluster, template

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
    expect(page.locator(".response-info")).to_contain_text("nothing has happened yet; effects: moves nothing")

    page.goto(f"{server.url}{CONFIGS}/one")
    page.get_by_role("button", name="DELETE", exact=True).click()
    page.get_by_label("Reason").last.fill("not used")
    page.get_by_role("button", name="Delete ConfigMap one of namespace shop").click()
    expect(page.locator(".response-info")).to_contain_text("Success")
    assert [_stored(one.ref) for one in made] == [False, True]


def test_a_dangerous_write_shows_its_effects_and_is_done_with_the_reason_of_the_page(
    server: Server, scripted: BrowserContext
) -> None:
    from apps.objects.models import ChangeLog
    from tests.apps.pages import stored

    made = stored(cluster("member1"), binding("web", "member1"))[1]
    page = log_in(scripted, server)
    url = f"{server.url}/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings/web"
    page.goto(url)
    page.get_by_role("button", name="DELETE", exact=True).click()
    delete = page.get_by_role("button", name="Delete ResourceBinding web of namespace shop")
    delete.click()
    expect(page.locator(".response-info")).to_contain_text("nothing has happened yet; effects: removes the copies of 1")
    assert _stored(made.ref)

    page.goto(url)
    page.get_by_role("button", name="DELETE", exact=True).click()
    page.get_by_label("Reason").last.fill("not used")
    delete.click()
    expect(page.locator(".response-info")).to_contain_text("Success")
    assert not _stored(made.ref)
    page.locator(".watching").get_by_role("link", name="Queue").click()
    expect(page).to_have_url(f"{server.url}/queue")
    assert ChangeLog.objects.get(name="web", type="DELETED").reason == "API: not used"


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
