"""The page of readiness: what it lists, how it is filtered, its CSV, and what it costs."""

from __future__ import annotations

import csv
import io
import re
from html import unescape

import msgspec
import pytest
from django.test import Client

from apps.console import readiness
from apps.objects.store import store
from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor
from controlplane.insight.readiness_row import BLOCKED, READY
from controlplane.kinds.obstacle import BLOCKS, Obstacle
from controlplane.kinds.rows import BindingReadiness, ReadinessRound
from tests.apps.statements import statements
from tests.builders.bare import START

HTML = "text/html"


def answers(*rows: BindingReadiness) -> None:
    """Store answers as the controller does."""
    begun = ReadinessRound("fleet", began_at=START, ended_at=START, settled_at=START)
    store().apply([(None, Decision(changes=tuple(map(Save, (*rows, begun)))))], by=Actor("test"))


def answer(name: str, *obstacles: Obstacle, namespace: str = "shop", cluster: str = "member1") -> BindingReadiness:
    key = f"work.karmada.io/ResourceBinding:{namespace}/{name}"
    named, verdict = ",".join(one.what for one in obstacles), BLOCKED if obstacles else READY
    return BindingReadiness(key, namespace, name, "apps/v1/Deployment", verdict, named, (cluster,), obstacles, START)


NO_REFUGE = Obstacle("NoRefuge", BLOCKS, "no other cluster was found: <full>", "join another cluster", "member1")
HELD = Obstacle("OnHold", BLOCKS, "=EvictionHold h", "delete the EvictionHold", "member2")


def page(client: Client, url: str) -> str:
    got = client.get(url, HTTP_ACCEPT=HTML)
    assert got.status_code == 200
    return unescape(got.content.decode())


def counted(text: str) -> int:
    """Return the number of bindings that the page says it lists."""
    (number,) = re.findall(r"<h2>(\d+) bindings?</h2>", text)
    return int(number)


def listed(text: str) -> list[str]:
    return re.findall(r'<a href="/bindings/[^/]+/([a-z0-9-]+)">', text)


def test_each_binding_is_listed_with_its_obstacles_and_remedies(root: Client) -> None:
    answers(answer("web"), answer("api", NO_REFUGE))

    text = page(root, "/readiness")

    assert listed(text) == ["api", "web"]
    assert "no other cluster was found: <full>" in text
    assert "join another cluster" in text
    assert "2 of 2 bindings have an answer" in text
    assert "No answer is outdated" in text
    assert "No workload would fail over now" in text  # the gate is off


FILTERS = {
    "verdict=Blocked": ["api", "db"],
    "obstacle=OnHold": ["db"],
    "cluster=member2": ["db"],
    "namespace=lab": ["web"],
    "verdict=Blocked&cluster=member1": ["api"],
    "obstacle=OnHold&cluster=member2": ["db"],
    "verdict=Blocked&namespace=shop": ["api", "db"],
    "obstacle=NoRefuge&namespace=shop": ["api"],
    "cluster=member1&namespace=lab": ["web"],
    "verdict=Ready&namespace=nowhere": [],
}


@pytest.mark.parametrize("query", FILTERS)
def test_the_list_and_the_file_have_what_the_filter_chooses(root: Client, query: str) -> None:
    answers(answer("api", NO_REFUGE), answer("db", HELD, cluster="member2"), answer("web", namespace="lab"))

    text = page(root, f"/readiness?{query}")
    lines = list(csv.DictReader(io.StringIO(root.get(f"/readiness.csv?{query}").content.decode())))

    assert listed(text) == FILTERS[query]
    assert counted(text) == len(FILTERS[query])
    assert [line["name"] for line in lines] == FILTERS[query]
    assert f'href="/readiness.csv?{query}"' in text


def test_the_number_of_a_cluster_and_of_a_namespace_follows_each_change_of_an_answer(root: Client) -> None:
    both = msgspec.structs.replace(answer("web"), clusters=("member1", "member2"))
    answers(both, answer("api", NO_REFUGE))

    before = [counted(page(root, f"/readiness?{query}")) for query in COUNTED]
    answers(msgspec.structs.replace(answer("web", HELD), clusters=("member2",)))
    after = [counted(page(root, f"/readiness?{query}")) for query in COUNTED]

    assert before == [2, 1, 2, 1]
    assert after == [1, 1, 2, 2]


COUNTED = ("cluster=member1", "cluster=member2", "namespace=shop", "namespace=shop&verdict=Blocked")


def test_of_a_cluster_in_a_namespace_one_page_at_most_is_counted(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.console.readiness.PAGE", 2)
    answers(answer("api"), answer("db"), answer("other", namespace="lab"))
    url = "/readiness?cluster=member1&namespace=shop"
    assert counted(page(root, url)) == 2

    answers(answer("web"))
    first = page(root, url)
    last = page(root, f"{url}&after=work.karmada.io/ResourceBinding:shop/db")

    assert (listed(first), listed(last)) == (["api", "db"], ["web"])
    for text in (first, last):
        assert "<h2>more than 2 bindings</h2>" in text


def test_a_message_in_the_file_is_no_formula(root: Client) -> None:
    answers(answer("db", HELD, NO_REFUGE))

    got = root.get("/readiness.csv")
    first, second = csv.DictReader(io.StringIO(got.content.decode()))

    assert got["Content-Type"].startswith("text/csv")
    assert (first["obstacle"], first["message"], first["since"]) == (
        "OnHold",
        "'=EvictionHold h",
        "2026-01-01T00:00:00Z",
    )
    assert (second["obstacle"], second["remedy"]) == ("NoRefuge", "join another cluster")


def test_a_file_that_is_not_complete_says_so_and_names_the_next_file(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "MAX_BINDINGS", 4)
    monkeypatch.setattr(readiness, "CHUNK", 3)
    answers(*(answer(f"w{number}") for number in range(8)), answer("other", namespace="lab"))

    url, names, ends = "/readiness.csv?namespace=shop", list[str](), list[str]()
    while url:
        got = root.get(url)
        lines = got.content.decode().splitlines()[1:]
        names += [line.split(",")[1] for line in lines if not line.startswith(("#", '"#'))]
        ends.append(lines[-1])
        found = re.fullmatch(r'<(.*)>; rel="next"', got.get("Link", ""))
        url = found[1] if found else ""
        assert ("the next ones: " + url in ends[-1]) == (found is not None)
        assert ("part" in got["Content-Disposition"]) == (found is not None)

    assert names == [f"w{number}" for number in range(8)]
    assert len(ends) == 2
    assert "not complete: this file has 4 bindings" in ends[0]
    assert "not complete" not in ends[1]


def test_a_long_list_is_pages_of_a_hundred_and_costs_as_many_queries_as_a_short_one(root: Client) -> None:
    answers(answer("web"))
    page(root, "/readiness")
    with statements() as few:
        page(root, "/readiness")
    answers(*(answer(f"w{number:03}") for number in range(250)))
    page(root, "/readiness")
    with statements() as many:
        text = page(root, "/readiness")

    url, seen = "/readiness", list[int]()
    while url:
        text = page(root, url)
        seen.append(len(listed(text)))
        following = re.search(r'href="([^"]*)" rel="next"', text)
        url = following[1] if following else ""

    assert seen == [50, 50, 50, 50, 50, 1]
    assert "251 bindings" in text
    assert abs(len(many) - len(few)) <= SETTINGS


SETTINGS = 3  # queries that a process makes twice a second at most


def test_a_page_beyond_the_last_binding_shows_the_first_ones(root: Client) -> None:
    answers(answer("api"), answer("web", NO_REFUGE))

    assert listed(page(root, "/readiness?after=zzz")) == ["api", "web"]
    shown = page(root, f"/readiness?after=zzz&verdict={BLOCKED}&cluster=member1&namespace=shop")
    assert listed(shown) == ["web"]
    assert counted(shown) == 1
    assert "First page" not in shown
