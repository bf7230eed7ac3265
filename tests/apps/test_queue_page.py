"""The database computes positions and estimates of the queue by the rules of the pure forecast."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.failover.queue_page import EVERYTHING, PAGE, WAITING, Pace, QueueChoice, QueuePage, read_counts, read_page
from apps.objects.store import store
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.times import END_OF_TIME
from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor
from controlplane.eviction.rate import bucket_of
from controlplane.insight.forecast import forecast, queue_end
from controlplane.kinds import CLUSTER_RESOURCE_BINDING, RESOURCE_BINDING
from controlplane.kinds.rows import ABANDONED, EVICTED, HELD, QUEUED, Eviction
from controlplane.settings import EvictionSettings
from tests.apps.statements import statements
from tests.builders.bare import START
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
