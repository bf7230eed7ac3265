"""The tabs of a browser share one stream; it goes on when tabs close, and when the server was away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from controlplane.kinds.rows import Observation, ProbeSpell
from tests.browser.conftest import Server, logged_in, serve
from tests.builders.bare import cluster
from tests.processes import Processes, environment, until

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


def test_a_part_is_not_replaced_under_a_pressed_button_and_a_link_keeps_the_focus(
    server: Server, scripted: BrowserContext
) -> None:
    """The browser sends no click if what the button was pressed on is gone when it is released."""
    join("member1")
    shown, other = (logged_in(server, scripted) for _ in range(2))
    for one in (shown, other):
        one.go("/clusters")
        expect(one.page.locator("#live")).to_have_text("live")
    page, link = shown.page, shown.page.get_by_role("link", name="member1")

    link.hover()
    page.mouse.down()
    join("member2")
    expect(other.page.get_by_role("link", name="member2")).to_be_visible()
    with page.expect_event("framenavigated"):
        page.mouse.up()
    expect(page).to_have_url(f"{shown.url}/clusters/member1")

    shown.go("/clusters")
    expect(page.locator("#live")).to_have_text("live")
    page.get_by_role("cell").last.hover()
    page.mouse.down()
    join("member3")
    expect(other.page.get_by_role("link", name="member3")).to_be_visible()
    assert page.get_by_role("link", name="member3").count() == 0
    page.mouse.up()
    expect(page.get_by_role("link", name="member3")).to_be_visible()

    link.focus()
    join("member4")
    expect(page.get_by_role("link", name="member4")).to_be_visible()
    expect(link).to_be_focused()
    assert shown.errors == []


def test_what_a_reader_has_opened_and_chosen_stays_when_a_part_is_renewed(
    server: Server, scripted: BrowserContext
) -> None:
    from apps.objects.store import store
    from tests.apps.pages import change, in_queue
    from tests.apps.test_console_cluster import save

    first, now = join("member1"), store().now()
    spells = tuple(ProbeSpell(status, now - timedelta(hours=hours)) for status, hours in (("True", 9), ("False", 2)))
    save(Observation("member1", status="False", observed_at=now, history=spells))
    shown = logged_in(server, scripted)
    page = shown.go("/clusters/member1")
    expect(page.locator("#live")).to_have_text("live")
    spell = page.get_by_text("not observed").last

    page.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(spell).to_be_visible()
    change(first, first.with_spec(provider="harbour"))
    expect(page.get_by_text("harbour")).to_be_visible()
    expect(page.locator("details")).to_have_attribute("open", "")
    expect(page.locator("summary")).to_be_focused()

    in_queue("web")
    shown.go("/queue")
    expect(page.locator("#live")).to_have_text("live")
    page.get_by_label("State").select_option("Held")
    page.get_by_role("button", name="Filter").focus()
    in_queue("api")
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.get_by_label("State")).to_have_value("Held")
    expect(page.get_by_role("button", name="Filter")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("state=Held"))
    assert shown.errors == []


@pytest.fixture
def patient(transactional_db: None, tmp_path: Path, redis_url: str) -> Iterator[Server]:
    """A server whose statements may wait for minutes, as they do for a database that hangs."""
    limits = {"database_lock_seconds": "280", "database_statement_seconds": "280"}
    with Processes(tmp_path, environment(tmp_path, redis_url=redis_url, **limits)) as processes:
        yield serve(processes, tmp_path)


def test_a_database_that_hangs_is_reported_on_the_page_and_a_reload_shows_the_last_page(
    patient: Server, scripted: BrowserContext
) -> None:
    from django.db import connection, transaction

    join("member1")
    shown = logged_in(patient, scripted)
    page = shown.go("/")
    expect(page.locator("#live")).to_have_text("live")
    notice = page.get_by_text("Lifeboat or its database has not answered since about")

    with transaction.atomic():
        with connection.cursor() as cursor:  # what every live page waits for
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            cursor.execute("LOCK TABLE objects_topic IN ACCESS EXCLUSIVE MODE")
        expect(notice).to_be_visible()
        expect(page.locator("#live")).to_have_text("not live")
        page.reload()
        expect(page.get_by_text("The database does not answer.")).to_be_visible()
        expect(page.get_by_role("link", name="member1")).to_be_visible()

    expect(page.get_by_text("does not answer")).to_have_count(0)
    expect(notice).to_have_count(0)
    expect(page.locator("#live")).to_have_text("live")
    assert shown.errors == []
