"""Pages of the console: who may read them, how they are sent, and what they cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.api.health import HEALTH
from apps.console.guard import THRESHOLD
from apps.console.situation_page import TILES
from apps.objects.configuration import configuration
from apps.objects.models import ChangeLog
from apps.objects.store import store
from controlplane.kinds import EVICTION_HOLD
from controlplane.kinds.eviction_hold import EvictionHold
from tests.apps.pages import in_queue, one_row_of_each, stored
from tests.apps.statements import statements
from tests.apps.test_console_records import outage
from tests.builders.bare import cluster
from tests.builders.steering import hold

HTML = "text/html,application/xhtml+xml,*/*;q=0.8"
PAGES = ("/", "/queue", "/records", "/readiness", "/drills", "/what-if")


@pytest.fixture(autouse=True)
def checks_are_closed() -> Iterator[None]:
    """Close the connection of health checks, which pages run, before the database is dropped."""
    yield
    HEALTH.close()


@pytest.mark.parametrize("path", PAGES)
def test_a_caller_without_a_login_is_sent_to_the_login_and_back(db: None, path: str) -> None:
    answer = Client().get(path, HTTP_ACCEPT=HTML)

    assert answer.status_code == 302
    assert answer["Location"] == f"/login/login/?next={path.replace('/', '%2F')}"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_allows_no_inline_script_or_style_and_contains_none(root: Client, path: str) -> None:
    answer = root.get(path, HTTP_ACCEPT=HTML)

    assert answer.status_code == 200
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    assert "unsafe" not in answer["Content-Security-Policy"]
    text = answer.content.decode()
    assert " style=" not in text
    assert "<style" not in text
    assert " onclick=" not in text
    assert 'class="kubectl"' in text


def test_the_paths_of_the_api_are_at_the_root_for_clients_that_are_no_browsers(root: Client) -> None:
    for headers in ({"HTTP_ACCEPT": "application/json"}, {"HTTP_ACCEPT": "*/*"}, {}):
        answer = root.get("/", **headers)  # type: ignore[arg-type]

        assert answer["Content-Type"].startswith("application/json")
        assert "/apis" in answer.json()["paths"]


def test_a_part_is_the_part_alone_and_an_unknown_part_is_not_found(root: Client) -> None:
    stored(cluster("member1"))

    part = root.get("/?part=situation", HTTP_ACCEPT="*/*", HTTP_HX_REQUEST="true")
    unknown = root.get("/?part=nothing", HTTP_ACCEPT=HTML)

    assert part.status_code == 200
    assert b"member1" in part.content
    assert b"<html" not in part.content
    assert unknown.status_code == 404
    assert "it has situation" in unknown.content.decode()


SETTINGS = 3  # queries that a process makes twice a second at most
MEASURED = (
    *("/", "/clusters", "/clusters/member1", "/queue", "/queue?state=everything", "/bindings/shop/web", "/records"),
    *("/readiness", "/what-if", "/drills", "/pause", "/queue/rates?rate=2&secondary=1", "/clusters/member1/cordon"),
    *("/queue/order?verb=Hold&item=shop/web.member1", "/clusters/member1/drain?rate=1"),
    *("/clusters/member1/taint?key=a.io/b&effect=NoSchedule", "/clusters/member1/unjoin?copies=keep"),
)


def test_every_page_costs_as_many_queries_for_many_clusters_and_workloads_as_for_few(root: Client) -> None:
    outage("left", "gone")
    in_queue("web", "api")
    few = {path: queries(root, path) for path in MEASURED}
    stored(*(cluster(f"member{number}") for number in range(2, 20)))
    in_queue(*(f"web{number}" for number in range(40)))

    more = {path: number for path in MEASURED if (number := queries(root, path)) > few[path] + SETTINGS}
    assert more == {}


def queries(client: Client, path: str) -> int:
    """Return the number of queries of a page whose process has read the settings just before."""
    client.get(path, HTTP_ACCEPT=HTML)
    configuration().settings(reread=True)
    with statements() as found:
        answer = client.get(path, HTTP_ACCEPT=HTML)
    assert answer.status_code == 200
    return len(found)


def test_situation_shows_the_sentence_what_needs_the_reader_and_the_newest_events(root: Client) -> None:
    one_row_of_each()
    in_queue("a", "b")
    in_queue("c", state="Held")

    text = page(root, "/")

    assert "3 queued, 1 held" in text
    assert 'href="/queue?state=Held"' in text
    assert "ClusterNotReady" in text
    assert "probes fail" in text


def test_what_needs_the_reader_is_a_short_list_in_a_large_fleet(root: Client) -> None:
    stored(*(cluster(f"member{number:02}").with_status(conditions=()) for number in range(30)))

    text = page(root, "/")

    assert text.count("was never Ready") == 19  # and GateOff
    assert "The first 20 of 31. All of them:" in text


@pytest.mark.parametrize("clusters", [3, TILES + 1])
def test_a_keyboard_passes_the_clusters_of_a_large_fleet_with_one_key(root: Client, clusters: int) -> None:
    """Each cluster is a link: without another way, what follows is 300 keys away."""
    stored(*(cluster(f"member{number}") for number in range(clusters)))

    shown = page(root, "/")

    target = re.search(r'<a class="skip" href="#([^"]+)">Past the clusters</a>', shown)
    assert (target is not None) == (clusters > TILES)
    assert target is None or f'id="{target[1]}"' in shown.partition(target[0])[2]


def test_only_those_who_may_pause_are_offered_it(root: Client, clerk: Client) -> None:
    stored(cluster("member1"))

    assert 'href="/pause"' in page(root, "/")
    assert 'href="/pause"' not in page(clerk, "/")
    assert clerk.get("/pause", HTTP_ACCEPT=HTML).status_code == 403
    assert clerk.post("/pause", {"reason": "no"}, HTTP_ACCEPT=HTML).status_code == 403


def test_a_pause_needs_a_reason_and_is_shown_with_who_and_why_until_it_ends(root: Client) -> None:
    stored(cluster("member1"))
    assert "Later evictions are held until you resume" in page(root, "/pause")

    without = root.post("/pause", {"reason": " "}, HTTP_ACCEPT=HTML)
    assert without.status_code == 422
    assert "Write the reason" in without.content.decode()
    paused = page(root, "/pause", {"reason": "storage move"})

    assert "are paused by <strong>root</strong>" in paused
    assert "storage move" in paused
    (hold,) = store().list(EVICTION_HOLD)
    assert (hold.spec.who, hold.spec.reason) == ("root", "storage move")
    line = ChangeLog.objects.filter(kind=EVICTION_HOLD).get()
    assert (line.actor, line.reason) == ("root", "Pause: storage move")

    resumed = page(root, f"/resume/{hold.metadata.name}", {"reason": "done"})

    assert "are paused by" not in resumed
    assert not store().list(EVICTION_HOLD)


def test_a_fleet_that_another_user_has_paused_is_not_paused_again_and_the_page_names_who_and_why(root: Client) -> None:
    """Two operators open the page at the same time."""
    stored(cluster("member1"), paused(reason="storage move", who="jane"))

    shown, refused = page(root, "/pause"), root.post("/pause", {"reason": "disks"}, HTTP_ACCEPT=HTML)

    for text in (shown, refused.content.decode()):
        assert "jane has paused all evictions already: storage move" in text
        assert "<h2>Confirm</h2>" not in text
    assert refused.status_code == 422
    assert len(store().list(EVICTION_HOLD)) == 1
    assert 'href="/pause"' not in page(root, "/")


def test_a_pause_that_ends_by_itself_can_be_followed_by_one_that_lasts(root: Client) -> None:
    ends = store().now() + timedelta(hours=1)
    stored(cluster("member1"), paused(reason="storage move", who="jane", expires_at=ends))

    assert 'href="/pause"' in page(root, "/")
    page(root, "/pause", {"reason": "it takes longer"})

    assert {one.spec.reason for one in store().list(EVICTION_HOLD)} == {"storage move", "it takes longer"}
    assert 'href="/pause"' not in page(root, "/")


def paused(**spec: Any) -> EvictionHold:
    return hold("pause", **spec)


def test_an_act_on_more_than_the_threshold_needs_the_typed_name(root: Client) -> None:
    stored(cluster("member1"))
    in_queue(*(f"web{number}" for number in range(THRESHOLD + 1)))
    page(root, "/pause", {"reason": "storage move"})
    (hold,) = store().list(EVICTION_HOLD)
    url = f"/resume/{hold.metadata.name}"

    untyped = root.post(url, {"reason": "done"}, HTTP_ACCEPT=HTML)
    assert untyped.status_code == 422
    assert "type resume to confirm" in untyped.content.decode()
    worse = root.post(url, {"reason": "done", "typed": "resume", "concerned": "2"}, HTTP_ACCEPT=HTML)
    assert "Nothing was done" in worse.content.decode()
    assert store().list(EVICTION_HOLD)

    page(root, url, {"reason": "done", "typed": "resume", "concerned": "11"})

    assert not store().list(EVICTION_HOLD)


def test_a_fresh_installation_shows_its_three_steps(root: Client) -> None:
    text = page(root, "/")

    assert "No cluster has joined yet." in text
    assert all(step in text for step in ("Join a cluster", "Place a workload", "Let failures evict"))


def page(client: Client, path: str, post: dict[str, str] | None = None) -> str:
    """Return the text of a page, after redirects."""
    if post is None:
        answer = client.get(path, HTTP_ACCEPT=HTML, follow=True)
    else:
        answer = client.post(path, post, HTTP_ACCEPT=HTML, follow=True)
    assert answer.status_code == 200, answer.content.decode()
    return answer.content.decode()


def test_a_fleet_is_not_called_well_while_a_part_of_lifeboat_does_not_run(root: Client) -> None:
    stored(cluster("member1"))

    shown = page(root, "/")

    assert "No worker runs: nothing is decided" in shown
    assert "all well" not in shown
    assert ">impaired<" in shown
