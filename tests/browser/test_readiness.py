"""An operator reads which workloads would fail over, on the console and in the API, wide and narrow."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Console
from tests.browser.test_console import SIZES, faults, sized
from tests.builders.bare import binding, cluster

pytestmark = [pytest.mark.browser, pytest.mark.slow]
CONFIGS = "/api/v1/namespaces/shop/configmaps"


def test_the_answers_follow_a_round_without_a_reload_and_are_filtered(console: Console) -> None:
    from tests.apps.test_readiness_page import HELD, NO_REFUGE, answer, answers  # here: needs Django set up

    page = console.go("/readiness")
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator("#part-bindings")).to_contain_text("There are no bindings yet")
    page.evaluate("window.notReloaded = true")

    answers(answer("web"), answer("api", NO_REFUGE), answer("db", HELD, cluster="member2"))

    expect(page.locator("#part-bindings")).to_contain_text("3 bindings")
    expect(page.locator("#part-readiness")).to_contain_text("join another cluster")
    assert page.evaluate("window.notReloaded")

    page.get_by_label("Cluster").fill("member2")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#part-bindings")).to_contain_text("1 binding")
    expect(page.locator("#part-bindings")).to_contain_text("shop/db")
    for (width, height), scheme in zip(SIZES, ("dark", "light"), strict=True):
        with sized(page, width, height, scheme):
            assert faults(page) == [], width
            assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert console.errors == []


def test_pages_of_the_api_and_the_admin_fit_on_a_phone(console: Console) -> None:
    from tests.apps.pages import in_queue, stored
    from tests.builders.bare import template

    stored(*(cluster(f"member{number}") for number in range(20)), template("a-name-that-is-rather-long" * 4))
    in_queue("web-deployment")
    stored(binding("other-deployment", "member1"))

    for path in (CONFIGS, f"{CONFIGS}/{'a-name-that-is-rather-long' * 4}", "/admin/settings/", "/admin/failovers/"):
        page = console.go(path)
        with sized(page, *SIZES[1], "light"):
            assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[1][0], path
    assert console.errors == []
