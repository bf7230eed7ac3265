"""The operator's seat during one outage: a started product with three clusters, of which one fails, then parts of it.

The first test has a server of its own. The others share the product and follow each other in time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import psycopg
import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, expect

from apps.development.supervise.ports import free_port
from apps.development.supervise.redis import find_binary
from controlplane.apimachinery.meta import Ref
from controlplane.kinds import CLUSTER, EVICTION_HOLD
from tests.browser.conftest import Console, Server, logged_in, opened, serve
from tests.browser.test_console import faults
from tests.browser.test_what_if import asked
from tests.browser.walk import MAIN, walk
from tests.processes import Process, until

pytestmark = [pytest.mark.browser, pytest.mark.slow]

APPS = [f"web-{number}" for number in range(10)]
RATE = 0.5
LEDGER = "/bindings/default/ledger-deployment"
PAGES = (*MAIN, "/clusters/member1", LEDGER, "/queue/rates?rate=2&secondary=1", "/clusters/member2/drain?rate=1")
SHOWN_WITHIN = 30.0  # seconds after which a part of Lifeboat that does not run has its red line
STATES = {"queued": "Queued", "held": "Held", "moved": "Evicted"}
LINES = {
    "worker": "The main process of a worker does not run",
    "members": "No members process runs",
    "beat": "Beat does not run",
    "redis": "Redis does not answer",
}


class Seat(NamedTuple):
    """A running product, and two browsers in which root has logged in."""

    running: Any
    server: Server
    processes: dict[str, Process]
    redis: subprocess.Popen[bytes]
    scripted: Console
    plain: Console


@pytest.fixture(scope="module")
def seat(kept_database: None, tmp_path_factory: pytest.TempPathFactory, chrome: Browser) -> Iterator[Seat]:
    """Three members; ten workloads and one that may run nowhere else are on member1."""
    from tests.apps.stack import LEAVE_WHERE_NOT_READY, WITHIN, deployment, policy, stack  # here: needs Django set up

    folder, port = tmp_path_factory.mktemp("seat"), free_port(17_100)
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder)]
    redis = subprocess.Popen([str(find_binary()[0]), *options], stdout=subprocess.DEVNULL)
    given = {"resource_eviction_rate": str(RATE), "unhealthy_cluster_threshold": "0.55"}
    try:
        with stack(folder, f"redis://127.0.0.1:{port}/0", "member1", "member2", "member3", **given) as running:
            with running.processes.at_once():
                names = ("worker", "beat", "members")
                processes = {name: getattr(running.processes, name)() for name in names}
            server = serve(running.processes, folder)
            running.create(LEAVE_WHERE_NOT_READY)
            running.join("member1")
            everywhere = policy("member1", "member2", "member3", groups=1)
            only_there = (
                policy("member1")
                .replace("name: everywhere", "name: ledger")
                .replace("kind: Deployment", "kind: Deployment\n    name: ledger")
            )
            running.create("\n---\n".join([only_there, everywhere, *map(deployment, [*APPS, "ledger"])]))
            until(lambda: all(running.healthy(name) for name in [*APPS, "ledger"]), within=WITHIN)
            running.join("member2", "member3")
            with opened(chrome, scripts=True) as scripted, opened(chrome, scripts=False) as plain:
                browsers = (logged_in(server, context) for context in (scripted, plain))
                yield Seat(running, server, processes, redis, *browsers)
    finally:
        redis.send_signal(signal.SIGCONT)
        redis.kill()
        redis.wait()


def on_screen(page: Page) -> dict[str, int]:
    """Return the figures of the queue on Situation, as they are on the screen; {}: they are replaced just now."""
    lines = [text.split("\n") for text in page.locator(".figure:not(.eta)").all_inner_texts()]
    if any(len(words) < 2 for words in lines):  # without its place on the page, the text of an element is one line
        return {}
    return {word.strip(): int(number) for number, word, *_ in lines}


def in_database() -> dict[str, int]:
    """Return the same figures from the tables of evictions and of graceful evictions; none is stuck within a test."""
    from apps.failover.models import Eviction, GracefulEvictionTask

    states = {word: Eviction.objects.filter(state=state).count() for word, state in STATES.items()}
    moving = GracefulEvictionTask.objects.count()
    return {**states, "moved": states["moved"] - moving, "moving": moving, "stuck": 0}


def status(seat: Seat) -> dict[str, Any]:
    """Return the status of the fleet as the API has it."""
    found: dict[str, Any] = asked(seat.server, "/apis/failover.lifeboat.io/v1alpha1/fleetstatuses/fleet")["status"]
    return found


def missing_without_scripts(seat: Seat) -> list[str]:
    """Return the red lines that Situation does not have now for a browser without scripts."""
    shown = alerts(seat.plain.go("/"))
    return [line for line in LINES.values() if line not in shown]


def sentence(page: Page) -> str:
    return page.locator("#sentence").inner_text()


def test_every_page_says_what_would_be_there_while_the_fleet_is_empty(console: Console, plain_console: Console) -> None:
    walk(console, MAIN, axe=True)
    walk(plain_console, MAIN)


def test_every_page_shows_a_fleet_that_is_well(seat: Seat) -> None:
    for console in (seat.scripted, seat.plain):
        walk(console, PAGES)
    seat.scripted.go("/")
    expect(seat.scripted.page.locator("#sentence")).to_contain_text("All 3 clusters Ready since")
    expect(seat.scripted.page.get_by_role("alert")).to_have_count(0)


def test_a_person_follows_links_to_the_five_answers_during_a_failover_and_brings_the_workloads_home(seat: Seat) -> None:
    five_answers(seat)
    brought_home(seat)


def five_answers(seat: Seat) -> None:
    """Take member1 down, and find each answer by following links."""
    page, running = seat.scripted.go("/"), seat.running
    running.fleet.set_fault("member1", "down")

    # What fails?
    expect(page.locator("#sentence")).to_contain_text("1 of 3 clusters down (member1")
    assert [one["name"] for one in status(seat)["members"] if one.get("severity") == "Bad"] == ["member1"]

    # What is queued? When is it done?
    until(lambda: (shown := on_screen(page)) == in_database() and shown["queued"] and shown["held"] == 1, within=60)
    ends = page.locator(".figure.eta time").first.get_attribute("datetime") or ""
    expected = datetime.fromisoformat(status(seat)["queue"]["endsAt"])
    assert abs((datetime.fromisoformat(ends) - expected).total_seconds()) < 15
    assert datetime.fromisoformat(ends) > datetime.now(UTC)
    assert faults(page) == []
    walk(seat.plain, PAGES)

    # Why does ledger not move to member2?
    page.get_by_role("link", name="Held evictions").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.locator("tbody").get_by_role("link", name="ledger-deployment").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Deployment ledger in default")
    row = page.locator("section[aria-labelledby=w-why] tbody tr").filter(has_text="member2")
    expect(row).to_contain_text("refuses")
    expect(row).to_contain_text("clusterAffinity does not select it")
    assert running.binding("ledger").spec.placement.cluster_affinity.cluster_names == ("member1",)

    # How do I stop it?
    page.get_by_role("link", name="Situation").click()
    page.get_by_role("link", name="Pause evictions").click()
    expect(page.get_by_text("queued evictions, and all later ones, until you resume")).to_be_visible()
    page.get_by_label("Reason").fill("we look first")
    page.get_by_role("button", name="Pause all evictions").click()
    expect(page.get_by_text("are paused by root")).to_be_visible()
    expect(page.get_by_text("we look first").first).to_be_visible()
    assert [(hold.spec.who, hold.spec.reason) for hold in running.store.list(EVICTION_HOLD)] == [
        ("root", "we look first")
    ]
    until(lambda: (shown := on_screen(page)) == in_database() and not shown["queued"], within=60)
    walk(seat.scripted, PAGES, axe=True)
    page = seat.scripted.go("/")

    # And it goes on, faster.
    page.get_by_role("link", name="Resume").click()
    page.get_by_label("Reason").fill("go on")
    if page.get_by_label("Type resume").count():
        page.get_by_label("Type resume").fill("resume")
    page.get_by_role("button", name="Resume evictions").click()
    page.get_by_role("link", name="All evictions").click()
    page.get_by_role("link", name="Change the rates").click()
    page.get_by_label("resourceEvictionRate", exact=False).first.fill("50")
    page.get_by_role("button", name="Show what it would do").click()
    page.get_by_label("Reason").fill("member1 is lost")
    page.get_by_role("button", name="Set the rates").click()
    page.get_by_role("link", name="Situation").click()
    expect(page.locator("#sentence")).to_contain_text(f"{len(APPS)} moved")
    until(lambda: on_screen(page) == in_database(), within=60)
    assert seat.scripted.errors == []


def accepts_workloads(seat: Seat, name: str) -> bool:
    """Say whether a cluster is Ready and has no taint. Its taint leaves it a moment after it became Ready."""
    cluster = seat.running.store.get([Ref(CLUSTER, "", name)])[Ref(CLUSTER, "", name)]
    return not cluster.spec.taints and any(
        one.type == "Ready" and one.status == "True" for one in cluster.status.conditions
    )


def has_been_ready(seat: Seat, name: str) -> None:
    """Write that a cluster became Ready an hour ago, because a test does not wait until it may get workloads back."""
    from tests.apps.pages import change

    cluster = seat.running.store.get([Ref(CLUSTER, "", name)])[Ref(CLUSTER, "", name)]
    since = datetime.now(UTC) - timedelta(hours=1)
    change(
        cluster,
        cluster.with_status(
            conditions=tuple(replace(one, last_transition_time=since) for one in cluster.status.conditions)
        ),
    )


def brought_home(seat: Seat) -> None:
    """Let member1 answer again, and order its failback from its page."""
    seat.running.fleet.set_fault("member1", "none")
    until(lambda: accepts_workloads(seat, "member1"), within=60)
    page = seat.scripted.go("/")
    expect(page.locator("#sentence")).to_contain_text("All 3 clusters Ready since")

    page.get_by_role("link", name="member1").first.click()
    page.get_by_role("link", name="Failback").click()
    page.get_by_label("Workloads per second").fill("5")
    show = page.get_by_role("button", name="Show what it would do")
    show.click()
    expect(page.locator("main")).to_contain_text("Refused: cluster member1 has been Ready for less than 10 minutes")
    expect(page.get_by_role("button", name="Failback to member1")).to_have_count(0)
    has_been_ready(seat, "member1")
    show.click()
    expect(page.locator("main")).to_contain_text(
        f"Moves {len(APPS)}, 1 namespace. The last copy leaves after about 2 s, at 5/s"
    )
    page.get_by_label("Reason").fill("member1 is back")
    if page.get_by_label("Type member1").count():
        page.get_by_label("Type member1").fill("member1")
    page.get_by_role("button", name="Failback to member1").click()

    orders = page.locator("section[aria-labelledby=orders]")
    expect(orders).to_contain_text(f"Finished: {len(APPS)} returned, 0 returning, 0 remaining")
    expect(orders).to_contain_text("member1 is back")
    placed = {name: [at.name for at in seat.running.binding(name).spec.clusters] for name in APPS}
    assert placed == {name: ["member1"] for name in APPS}
    assert seat.scripted.errors == []


def alerts(page: Page) -> str:
    return "\n".join(page.get_by_role("alert").all_inner_texts())


def appear(page: Page, lines: dict[str, str]) -> dict[str, float]:
    """Return after how many seconds each line stood on a live page."""
    began, seen = time.monotonic(), dict[str, float]()

    def all_stand() -> bool:
        shown = alerts(page)
        seen.update(
            {name: time.monotonic() - began for name, line in lines.items() if line in shown and name not in seen}
        )
        return len(seen) == len(lines)

    until(all_stand, within=SHOWN_WITHIN, every=0.2)
    return seen


def test_parts_that_are_stopped_have_a_red_line_with_a_command_on_a_page_that_goes_on(seat: Seat) -> None:
    page = seat.scripted.go("/")
    stopped = [(os.kill, seat.processes["worker"].pid), (os.killpg, seat.processes["members"].pid)]
    stopped += [(os.killpg, seat.processes["beat"].pid), (os.kill, seat.redis.pid)]
    for send, pid in stopped:
        send(pid, signal.SIGSTOP)
    try:
        seconds = appear(page, LINES)
        shown = alerts(page)
        for command in ("celery -A config worker", "python manage.py members", "celery -A config beat", "redis-cli -u"):
            assert command in shown
        assert f"kill -KILL {seat.processes['worker'].pid}" in shown
        assert faults(page) == []
        walk(seat.plain, PAGES)
        until(lambda: missing_without_scripts(seat) == [], within=SHOWN_WITHIN)
    finally:
        for send, pid in stopped:
            send(pid, signal.SIGCONT)
    print("stopped:", {name: round(each, 1) for name, each in seconds.items()})
    expect(page.get_by_role("alert")).to_have_count(0)
    assert seat.scripted.errors == []


def test_parts_that_are_killed_have_a_red_line(seat: Seat) -> None:
    page = seat.scripted.go("/")
    for process in seat.processes.values():
        os.killpg(process.pid, signal.SIGKILL)
    seat.redis.kill()

    seconds = appear(page, {**LINES, "worker": "No worker runs: nothing is decided"})

    print("killed:", {name: round(each, 1) for name, each in seconds.items()})
    walk(seat.scripted, PAGES)


def test_without_a_database_the_last_page_is_shown_with_its_age_and_comes_back_by_itself(seat: Seat) -> None:
    from django.db import connections

    page = seat.scripted.go("/")
    expect(page.locator("#live")).to_have_text("live")
    seat.plain.go("/")
    at = seat.plain.page.locator("p.asof time").first.inner_text()
    settings = connections["default"].get_connection_params()
    name, access = (
        settings["dbname"],
        {key: settings[key] for key in ("host", "port", "user", "password") if key in settings},
    )
    connections.close_all()
    with psycopg.connect(dbname="postgres", autocommit=True, **access) as other:
        other.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            expect(page.get_by_text("The database does not answer since about")).to_be_visible()
            page.reload()
            for shown in (page, seat.plain.go("/")):
                expect(shown.get_by_text("The database does not answer.")).to_be_visible()
                expect(shown.locator("#sentence")).to_contain_text("3 clusters")
            expect(seat.plain.page.get_by_text("This page is as it was at")).to_contain_text(at)
        finally:
            other.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
            connections["default"].close_pool()
    expect(page.locator("#live")).to_have_text("live")
    expect(page.get_by_text("The database does not answer")).to_have_count(0)
