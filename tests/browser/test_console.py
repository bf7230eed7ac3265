"""An operator reads the console, with JavaScript and without, on a wide screen and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from msgspec.structs import replace
from playwright.sync_api import Page, expect

from tests.browser.conftest import Console
from tests.builders.bare import binding, cluster

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PAGES = ("/", "/clusters", "/clusters/member1", "/clusters/member1/drain?rate=1", "/pause")
SERIOUS = ("serious", "critical")
SIZES = ((1440, 900), (390, 844))


def outage() -> None:
    """Store a fleet of three clusters of which member1 is down, with twelve evictions queued and one held."""
    from apps.objects.store import store  # here: needs Django set up
    from controlplane.apimachinery.meta import Condition
    from tests.apps.pages import in_queue, stored

    now = store().now()

    def member(name: str, status: str, minutes: int) -> Any:
        since = now - timedelta(minutes=minutes)
        ready = Condition(
            "Ready", status, "Probed", "no answer" if status != "True" else "", last_transition_time=since
        )
        established = Condition("Established", "True", last_transition_time=since)
        return cluster(name).with_status(conditions=(ready, established))

    stored(member("member1", "False", 4), member("member2", "True", 300), member("member3", "True", 300))
    in_queue(*(f"web{number}" for number in range(12)))
    in_queue("bank", state="Held")


@contextmanager
def sized(page: Page, width: int, height: int, scheme: Any) -> Iterator[None]:
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme)
    yield
    page.emulate_media(color_scheme="light")


def faults(page: Page) -> list[str]:
    """Return the serious faults that axe finds on a page, each with its first element."""
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found if one["impact"] in SERIOUS]


def test_every_page_is_usable_wide_and_narrow_light_and_dark_without_errors(console: Console) -> None:
    console.go("/")
    assert faults(console.page) == []
    outage()

    for path in PAGES:
        page = console.go(path)
        for (width, height), scheme in zip(SIZES, ("dark", "light"), strict=True):
            with sized(page, width, height, scheme):
                assert faults(page) == [], (path, width)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
    assert console.errors == []


def test_situation_follows_the_fleet_without_a_reload_and_with_the_figures_of_the_database(console: Console) -> None:
    from apps.failover.models import Eviction
    from apps.objects.store import store
    from controlplane.engine.decision import Decision, Save
    from controlplane.engine.state import Actor
    from tests.apps.pages import stored

    page = console.go("/")
    expect(page.locator("#live")).to_have_text("live")
    page.evaluate("window.notReloaded = true")
    outage()
    expect(page.locator("#sentence")).to_contain_text("1 of 3 clusters down (member1, 4 min")
    rows = [row for some in store().rows(_eviction(), "state", ["Queued"]).values() for row in some][:5]
    moved = [replace(row, state="Evicted", due_at=None, ended_at=store().now()) for row in rows]

    store().apply([(None, Decision(changes=tuple(map(Save, moved))))], by=Actor("test"))

    expect(page.locator("#sentence")).to_contain_text("5 moved, 7 queued, 1 held")
    assert Eviction.objects.filter(state="Queued").count() == 7
    stored(binding("late", "member2"))
    expect(page.get_by_text("14 copies")).to_be_visible()
    assert page.evaluate("window.notReloaded")
    assert console.errors == []


def test_without_scripts_the_fleet_is_paused_and_resumed_and_a_drain_is_seen(plain_console: Console) -> None:
    outage()
    page = plain_console.go("/")
    expect(page.locator("#sentence")).to_contain_text("12 queued, 1 held")
    page.get_by_role("link", name="Pause evictions").click()
    expect(page.get_by_text("Holds 12 queued evictions")).to_be_visible()
    page.get_by_label("Reason").fill("storage move")
    page.get_by_role("button", name="Pause all evictions").click()
    expect(page.get_by_text("Evictions are paused by root")).to_be_visible()
    expect(page.get_by_text("storage move").first).to_be_visible()

    page.get_by_role("link", name="Resume").click()
    page.get_by_label("Reason").fill("moved")
    page.get_by_label("Type resume to confirm").fill("resume")
    page.get_by_role("button", name="Resume evictions").click()
    expect(page.get_by_role("link", name="Pause evictions")).to_be_visible()

    page.get_by_role("link", name="member1").first.click()
    page.get_by_role("link", name="Drain").click()
    page.get_by_label("Workloads per second").fill("2")
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.get_by_text("kubectl lifeboat drain member1 --rate 2")).to_be_visible()
    page.get_by_label("Reason").fill("disk swap")
    page.get_by_label("Type member1 to confirm").fill("member1")
    page.get_by_role("button", name="Drain member1").click()
    expect(page.get_by_role("heading", name="Drains and failbacks")).to_be_visible()
    expect(page.get_by_text("disk swap").first).to_be_visible()
    assert plain_console.errors == []


def _eviction() -> Any:
    from controlplane.kinds.rows import Eviction

    return Eviction
