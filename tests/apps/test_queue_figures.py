"""The database counts the queue for metrics by the rules of single rows, and a scrape reads no more for more rows."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.test import Client

from apps.api import debug, eviction_metrics
from apps.failover.queue_figures import read_figures
from apps.objects.configuration import configuration
from apps.objects.store import DjangoStore, store
from controlplane.apimachinery.meta import ObjectMeta, Ref
from controlplane.clusters import eviction_tier
from controlplane.controllers.reads.readiness_state import situation_of
from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor
from controlplane.insight.figures import QueueFigures
from controlplane.kinds import CLUSTER_RESOURCE_BINDING, RESOURCE_BINDING
from controlplane.kinds.configuration import NAME, FailoverConfiguration
from controlplane.kinds.rows import ABANDONED, EVICTED, HELD, QUEUED, RECOVERING, Eviction, Judgement
from tests.apps.pages import stored
from tests.apps.statements import rows_received, statements
from tests.builders.objects import cluster, eviction, no_execute
from tests.builders.queue_counts import figures_of

API = "failover.lifeboat.io/v1alpha1"
KINDS_ = ("apps/v1/Deployment", "batch/v1/Job")


def save(rows: list[Eviction]) -> None:
    store().apply([(None, Decision(changes=tuple(map(Save, rows))))], by=Actor("test"))


def some_row(number: int, chance: random.Random, now: datetime) -> Eviction:
    """Return a row of any state, with times around `now`."""

    def moment(*seconds: float) -> datetime:
        return now + timedelta(seconds=chance.choice(seconds))

    def judged() -> tuple[Judgement, ...]:
        dues = [chance.choice((None, moment(-4000, -90, -5))) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
        return tuple(Judgement(f"taint{place}", "NoExecute", now, due) for place, due in enumerate(dues))

    state = chance.choice((QUEUED, QUEUED, QUEUED, HELD, RECOVERING, EVICTED, EVICTED, ABANDONED))
    is_over = state in (EVICTED, ABANDONED)
    kind = chance.choice((RESOURCE_BINDING, RESOURCE_BINDING, CLUSTER_RESOURCE_BINDING))
    fields: dict[str, Any] = {
        "state": state,
        "reason": chance.choice(("", "NoRefuge", "OnHold")),
        "resource_kind": chance.choice(KINDS_),
        "priority": chance.choice((0, 5)),
        "due_at": None if is_over or chance.random() < 0.1 else moment(-900, -3, 0, 60, 61, 600),
        "queued_at": None if chance.random() < 0.1 else moment(-5000, -299.5, -60, -5, -1, 0),
        "ended_at": moment(-4000, -300, -61.5, -1, 0) if is_over else None,
        "failed_at": chance.choice((None, None, moment(-400, -300, -10))),
        "judged": judged(),
    }
    ref = Ref(kind, "shop" if kind == RESOURCE_BINDING else "", f"web{number:04}")
    return eviction(ref, chance.choice(("member1", "member2", "member3")), **fields)


@pytest.mark.parametrize("scope", ["Fleet", "Cluster"])
@pytest.mark.parametrize("rate", [0.0, 0.05, 0.5, 7.0, 300.0])
def test_the_figures_are_those_of_the_rows(root: Client, rate: float, scope: str) -> None:
    chance = random.Random(repr((rate, scope)))
    spec = {"eviction": {"bucketScope": scope}, "resourceEvictionRate": rate, "secondaryResourceEvictionRate": 0}
    stored(
        *(cluster(f"member{n}", taints=[no_execute()] if n == 1 else ()) for n in range(1, 6)),
        FailoverConfiguration(API, "FailoverConfiguration", ObjectMeta(name=NAME), spec),
    )
    settings = configuration().settings(reread=True)
    rows = [some_row(number, chance, store().now()) for number in range(200)]
    save(rows)
    levels = {"fleet": 0.7, "cluster/member1": 0.7, "cluster/member2": 500.0}

    now = store().now()
    with patch.object(DjangoStore, "now", lambda self: now):
        found = read_figures(store(), settings, lambda buckets: {name: levels.get(name, 0.0) for name in buckets})
    situation = situation_of(store())
    fleet = eviction_tier.fleet_health(situation.clusters)
    tier = eviction_tier.in_force(fleet, situation.fleet, settings)
    expected = figures_of(rows, fleet, tier, scope=scope, tokens=levels, now=now)

    assert (tier.rate, found.faulty) == (rate, 1)
    assert rounded(found) == rounded(expected)
    assert sum(one.evicted for one in found.clusters.values()) > 20


def rounded(figures: QueueFigures) -> Any:
    """Return figures with sums of floats rounded, because they depend on the order."""
    clusters = {
        name: {field: getattr(one, field) for field in one.__struct_fields__}
        | {"latency_sum": round(one.latency_sum, 3), "rate": round(one.rate, 6)}
        for name, one in figures.clusters.items()
    }
    eta = None if figures.eta_seconds is None else round(figures.eta_seconds, 2)
    return clusters, figures.held, eta, figures.tier, figures.tier_rate, figures.total


def test_a_scrape_reads_no_more_rows_and_makes_no_more_queries_for_a_longer_queue(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(*(cluster(f"member{n}", taints=[no_execute()] if n == 1 else ()) for n in range(1, 6)))
    read = rows_received(monkeypatch)

    def scraped() -> tuple[int, int]:
        eviction_metrics._last = debug._last = None
        read.clear()
        with statements() as asked:
            assert root.get("/metrics").status_code == 200
        return len(asked), sum(read)

    few = [eviction(f"web{number:04}", due_at=store().now(), resource_kind=KINDS_[0]) for number in range(3)]
    save(few)
    scraped()  # the session is read for the first time
    small = scraped()
    save([eviction(f"more{number:04}", due_at=store().now(), resource_kind=KINDS_[0]) for number in range(700)])

    assert scraped() == small
