"""An operator reads the console, with JavaScript and without."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Console
from tests.stores.grounds import cluster

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_situation_follows_the_fleet_without_a_reload(console: Console) -> None:
    from tests.apps.pages import stored  # here: needs Django set up

    page = console.go("/")
    expect(page.locator("#live")).to_have_text("live")
    page.evaluate("window.notReloaded = true")

    stored(cluster("member1"))

    expect(page.locator("#part-situation")).to_contain_text("member1")
    assert page.evaluate("window.notReloaded")
    assert console.errors == []
