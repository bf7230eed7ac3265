"""The database computes positions and estimates of the queue by the rules of the pure forecast."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from msgspec.structs import replace

from apps.api import kept_queues
from apps.api.eviction_watches import Paced
from apps.failover.queue_page import (
    EVERYTHING,
    PAGE,
    WAITING,
    Pace,
    QueueChoice,
    QueueOrder,
    QueuePage,
    page_of,
    read_counts,
    read_order,
    read_page,
)
from apps.objects.configuration import configuration
from apps.objects.store import store
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.times import END_OF_TIME
from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor
from controlplane.eviction.rate import bucket_of
from controlplane.insight.forecast import STOPPED, Forecast, forecast, queue_end
from controlplane.kinds import CLUSTER_RESOURCE_BINDING, RESOURCE_BINDING
from controlplane.kinds.rows import ABANDONED, EVICTED, HELD, QUEUED, Eviction
from controlplane.settings import EvictionSettings
from tests.apps.pages import stored
from tests.apps.statements import rows_received, statements
from tests.builders.bare import START, binding, cluster
from tests.builders.objects import eviction


def row(number: int, cluster: str = "member1", **fields: Any) -> Eviction:
    """Return a queued item of shop/web<number> on member1 that is due since START."""
    namespace = fields.pop("namespace", "shop")
    kind = RESOURCE_BINDING if namespace else CLUSTER_RESOURCE_BINDING
    ref = Ref(kind, namespace, f"web{number:05}")
    return eviction(ref, cluster, **fields)


def saved(*rows: Eviction) -> list[Eviction]:
    store().apply([(None, Decision(changes=tuple(map(Save, rows))))], by=Actor("test"))
    return list(rows)


def page(rate: float = 0.5, **choice: str) -> QueuePage:
    return read_page(store(), Pace(rate, EvictionSettings(), {}), QueueChoice(**choice), now=START)


@pytest.mark.parametrize("scope", ["Fleet", "Cluster"])
@pytest.mark.parametrize("rate", [0.0, 0.05, 0.5, 7.0, 1e-300])
def test_positions_and_estimates_are_those_of_the_forecast(root: Client, rate: float, scope: str) -> None:
    chance = random.Random(repr((rate, scope)))
    now = START + timedelta(hours=1)
    rows = saved(
        *(
            row(
                number,
                cluster=chance.choice(("member1", "member2")),
                priority=chance.choice((0, 0, 0, 5, 1 << 40)),
                due_at=START + timedelta(seconds=chance.choice((0, 0, 900, 3599, 3601, 3640, 3640, 9000, 9100))),
                state=chance.choice((QUEUED, QUEUED, QUEUED, HELD)),
            )
            for number in range(80)
        ),
        row(90, due_at=END_OF_TIME),
    )
    settings = EvictionSettings(bucket_scope=scope)
    tokens = {bucket_of("member1", scope): 0.7}
    ageing = settings.ageing_seconds

    expected = forecast(rows, rate=rate, ageing_seconds=ageing, scope=scope, tokens=tokens, now=now)
    found = read_page(store(), Pace(rate, settings, tokens), limit=len(rows), now=now)

    assert {item.row.key: item.forecast.position for item in found.items} == {
        key: one.position for key, one in expected.items()
    }
    for item in found.items:
        wanted = expected[item.row.key]
        assert item.forecast.unknown_because == wanted.unknown_because
        assert (item.forecast.at is None) == (wanted.at is None)
        if wanted.at is not None and item.forecast.at is not None:
            assert abs((item.forecast.at - wanted.at).total_seconds()) < 0.01
    end = queue_end(expected.values())
    assert (found.ends_at is None) == (end is None)
    assert end is None or found.ends_at is None or abs((found.ends_at - end).total_seconds()) < 0.01
    positions = [item.forecast.position for item in found.items if item.forecast.position]
    assert positions == sorted(positions)


def test_a_page_lists_what_was_chosen_and_keeps_the_positions_of_the_whole_queue(root: Client) -> None:
    saved(
        row(1),
        row(2, cluster="member2"),
        row(3, namespace="bank"),
        row(4, namespace=""),
        row(5, state=HELD, reason="NoRefuge"),
        row(6, reason="Flapping"),  # outdated: it is queued again
        row(7, state=EVICTED, due_at=None),
        row(8, state=ABANDONED, due_at=None, reason="Skipped"),
        row(9, due_at=None),  # stays: it is in no queue
    )

    def listed(**choice: str) -> list[str]:
        return [Ref.parse(item.row.binding).name[-1] for item in page(**choice).items]

    assert listed() == ["4", "3", "1", "2", "6", "5"]
    assert listed(cluster="member2") == ["2"]
    assert listed(namespace="bank") == ["3"]
    assert listed(reason="NoRefuge") == ["5"]
    assert listed(reason="Flapping") == []
    assert listed(state=HELD) == ["5"]
    assert set(listed(state=EVICTED) + listed(state=ABANDONED)) == {"7", "8"}
    assert len(listed(state=EVERYTHING)) == 8
    whole = {item.row.key: item.forecast.position for item in page().items}
    (only,) = page(cluster="member2").items
    assert only.forecast.position == whole[only.row.key]
    assert page(cluster="member9") == QueuePage([], 0, page().ends_at)
    assert page(state=WAITING).in_all == 6


def test_the_numbers_of_a_queue_are_those_of_its_rows(root: Client) -> None:
    saved(
        row(1),
        row(2, cluster="member2", state=HELD, reason="NoRefuge"),
        row(3, state=EVICTED, due_at=None, ended_at=START),
    )

    counts = read_counts()

    assert counts.states == {QUEUED: 1, HELD: 1, EVICTED: 1}
    assert (counts.held, counts.clusters, counts.waiting) == ({"NoRefuge": 1}, {"member1": 1, "member2": 1}, 2)


def test_pages_follow_each_other_without_gaps_and_each_costs_two_queries(root: Client) -> None:
    saved(*(row(number) for number in range(2 * PAGE + 7)))
    pace = Pace(0.5, EvictionSettings(), {})

    numbers = []
    for offset in (0, PAGE, 2 * PAGE):
        with statements() as asked:
            found = read_page(store(), pace, offset=offset, now=START)
        assert len(asked) == 2
        assert found.in_all == 2 * PAGE + 7
        numbers += [item.forecast.position for item in found.items]
    assert numbers == list(range(1, 2 * PAGE + 8))


PACED = Paced(Pace(0.5, EvictionSettings(), {}), None, START)
LISTS = "/apis/failover.lifeboat.io/v1alpha1"


@pytest.mark.parametrize("selector", ["", "&fieldSelector=spec.cluster%3Dmember1"])
def test_the_order_of_the_queue_is_computed_at_most_twice_for_all_pages_of_a_list(root: Client, selector: str) -> None:
    """The first page may be the only one, so it is read alone. Later pages come from one order, with its estimates."""
    root.post("/queue/gate/on", {"reason": "ready", "typed": "failover"})
    stored(*(cluster(f"member{number}") for number in (1, 2, 3)))
    configuration().settings(reread=True)
    saved(*(row(number) for number in range(47)), row(90, state=HELD, reason="OnHold"))

    found, whole, token = [], 0, ""
    while True:
        with statements() as asked:
            answer = root.get(f"{LISTS}/evictions?limit=10{selector}{token}", HTTP_ACCEPT="application/json").json()
        whole += any("row_number()" in one or "state = ANY" in one for one in asked)
        found += answer["items"]
        if "continue" not in answer["metadata"]:
            break
        token = f"&continue={answer['metadata']['continue']}"

    names = [one["metadata"]["name"] for one in found]
    assert len(set(names)) == len(names) == 48
    assert whole <= 2
    positions = [one["status"].get("position") for one in found]
    assert positions == [*range(1, 48), None]
    assert len({one["status"]["queueEndsAt"] for one in found[10:]}) == 1


def test_an_eviction_that_ended_between_two_pages_hides_no_other_one(root: Client) -> None:
    saved(*(row(number) for number in range(30)))
    url = f"{LISTS}/evictions?limit=10"

    def part(token: str) -> Any:
        return root.get(f"{url}&continue={token}" if token else url, HTTP_ACCEPT="application/json").json()

    first = part("")
    second = part(first["metadata"]["continue"])
    saved(*(row(number, state=EVICTED, due_at=None, ended_at=START) for number in range(10)))
    third = part(second["metadata"]["continue"])

    names = [one["metadata"]["name"] for answer in (first, second, third) for one in answer["items"]]
    assert sorted(names) == [f"web{number:05}.member1" for number in range(30)]


@pytest.mark.parametrize(("state", "why"), [(HELD, "NoRefuge"), (EVICTED, "")])
def test_an_eviction_that_is_held_or_ended_since_the_queue_was_ordered_has_no_place_in_it(
    root: Client, state: str, why: str
) -> None:
    first, second = saved(row(1), row(2))
    order = read_order(Pace(0.5, EvictionSettings(), {}), now=START)
    saved(replace(first, state=state, reason=why))

    found = page_of(store(), order, offset=0, limit=9)

    assert [one.row.key for one in found.items] == [first.key, second.key]
    changed, waits = (one.forecast for one in found.items)
    assert (changed.position, changed.at, changed.unknown_because) == (None, None, why)
    assert waits.position == 2


def test_an_order_says_as_a_page_that_the_queue_stands_still_and_that_an_eviction_had_no_place(root: Client) -> None:
    queued, held = saved(row(1), row(2, state=HELD, reason="NoRefuge"))
    order = read_order(Pace(0.0, EvictionSettings(), {}), now=START)
    saved(replace(held, state=QUEUED, reason=""))

    found = page_of(store(), order, offset=0, limit=9)

    forecasts = {one.row.key: one.forecast for one in found.items}
    assert forecasts[queued.key] == Forecast(1, None, STOPPED)
    assert forecasts[held.key].position is None


def test_orders_of_queues_are_forgotten_after_a_minute_and_beyond_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = [0.0]
    kept = kept_queues.KeptQueues(clock=lambda: moment[0])
    made: list[str] = []

    def order(name: str, length: int) -> Any:
        def make() -> Any:
            made.append(name)
            keys = [name] * length
            return kept_queues.KeptQueue(QueueOrder(keys, [0] * length, [0.0] * length, None, START), PACED)

        return kept.find(name, make)

    monkeypatch.setattr(kept_queues, "MOST_KEYS", 10)
    for name, length in (("a", 4), ("b", 4), ("a", 4), ("c", 4), ("a", 4), ("b", 4), ("long", 50), ("long", 50)):
        order(name, length)
    assert made == ["a", "b", "c", "b", "long"]
    moment[0] = 61
    order("long", 50)
    assert made[-2:] == ["long", "long"]


def test_one_eviction_is_read_and_ordered_about_without_the_rest_of_the_queue(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lifeboat hold --cluster` asks twice for each of hundreds of evictions."""
    ref = Ref(RESOURCE_BINDING, "shop", "web.a")
    stored(binding("web.a", "member.b"))
    saved(eviction(ref, "member.b", state=HELD, reason="OnHold"), row(1))
    received = rows_received(monkeypatch)
    url = f"{LISTS}/namespaces/shop/evictions/web.a.member.b"

    def read() -> list[int]:
        counts = []
        for verb in ("", "/hold"):
            received.clear()
            asked: dict[str, Any] = {"content_type": "application/json", "HTTP_ACCEPT": "application/json"}
            order = f"{url}{verb}?dryRun=All"
            answer = root.post(order, {"reason": "wait"}, **asked) if verb else root.get(url, **asked)
            assert answer.status_code in (200, 201), answer.content
            assert answer.json()["status"]["state"] == "Held"
            counts.append(sum(received))
        return counts

    few = read()
    saved(*(row(number) for number in range(2, 300)))
    assert read() == few
    assert root.get(f"{LISTS}/namespaces/shop/evictions/web", HTTP_ACCEPT="application/json").status_code == 404
    assert root.get(f"{LISTS}/clusterevictions/web.a.member.b", HTTP_ACCEPT="application/json").status_code == 404
