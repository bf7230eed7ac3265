"""What scrapers read of the eviction queue: names, types and labels as the proposal and later releases have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis

from apps.api import debug
from apps.failover.bucket import PREFIX
from apps.objects.store import store
from apps.worker import broker
from controlplane.apimachinery.meta import ObjectMeta, Ref
from controlplane.engine.decision import Decision, Drop, Save
from controlplane.engine.state import Actor
from controlplane.kinds import CLUSTER_RESOURCE_BINDING, RESOURCE_BINDING
from controlplane.kinds.binding import GracefulEvictionTask
from controlplane.kinds.configuration import NAME, FailoverConfiguration
from controlplane.kinds.rows import ABANDONED, EVICTED, HELD, NO_REFUGE, Eviction
from tests.apps.pages import stored
from tests.apps.stack import WITHIN
from tests.builders.objects import binding, cluster, eviction, no_execute
from tests.builders.placements import by_room
from tests.processes import until

Sample = tuple[str, tuple[tuple[str, str], ...]]
API = "failover.lifeboat.io/v1alpha1"
LOST = ("cluster_name", "member1")

PROPOSED = {
    "evict_total": ("gauge", {"cluster_name"}),
    "evict_kind_total": ("gauge", {"cluster_name", "resource_kind"}),
    "evict_rate": ("gauge", {"cluster_name"}),
    "evict_processing_latency_seconds": ("histogram", {"cluster_name", "le"}),
    "evict_success_rate": ("gauge", {"cluster_name"}),
    "cluster_fault_num": ("gauge", set()),
    "cluster_fault_rate": ("gauge", set()),
}
SHIPPED = {
    "eviction_queue_depth": ("gauge", {"name"}),
    "eviction_kind_total": ("gauge", {"member_cluster", "resource_kind"}),
    "eviction_processing_latency_seconds": ("histogram", {"name", "le"}),
    "eviction_processing": ("counter", {"name", "result"}),
}
OURS = {
    "evict_succeeded": ("counter", {"cluster_name"}),
    "evict_failed": ("counter", {"cluster_name"}),
    "lifeboat_eviction_tier_rate": ("gauge", {"tier"}),
    "lifeboat_evictions_held": ("gauge", {"reason"}),
    "lifeboat_evictions_stuck": ("gauge", {"cluster_name"}),
    "lifeboat_eviction_eta_seconds": ("gauge", set()),
    "lifeboat_eviction_tokens": ("gauge", {"name"}),
}
ALWAYS_THERE = ("lifeboat_evictions_stuck", "lifeboat_cluster_")  # series of a cluster, queue or no queue


@pytest.fixture
def redis(redis_url: str, redis_client: Redis, settings: Any) -> Iterator[Redis]:
    """The Redis the page asks: this process's own, and empty."""
    settings.REDIS_URL = redis_url
    broker.client.cache_clear()
    yield redis_client
    broker.client.cache_clear()


def rows(now: datetime) -> list[Eviction]:
    """Three wait, one of them held since nothing takes it; two have left, one was dropped."""

    def one(name: str, kind: str = RESOURCE_BINDING, **more: Any) -> Eviction:
        ref = Ref(kind, "shop" if kind == RESOURCE_BINDING else "", name)
        queued = now - timedelta(seconds=20)
        fields: dict[str, Any] = {
            "due_at": now,
            "queued_at": queued,
            "resource_kind": "apps/v1/Deployment",
            "generation": 1,
        } | more
        return eviction(ref, **fields)

    def over(name: str, state: str, seconds: float) -> Eviction:
        return one(name, state=state, due_at=None, ended_at=now - timedelta(seconds=seconds))

    return [
        one("a"),
        one("b", CLUSTER_RESOURCE_BINDING, resource_kind="rbac.authorization.k8s.io/v1/ClusterRole"),
        one("c", state=HELD, reason=NO_REFUGE, failed_at=now - timedelta(seconds=10)),
        over("d", EVICTED, 5),
        over("e", EVICTED, 10),
        over("f", ABANDONED, 1),
    ]


def outage() -> tuple[datetime, Sequence[Eviction]]:
    """Five clusters, one of them tainted, with what wants to leave it, and copies that are on their way out: of those
    one is past the common time, one past its own."""
    now = store().now()
    stored(*(cluster(f"member{n}", taints=[no_execute()] if n == 1 else ()) for n in range(1, 6)))
    tasks = {
        "slow": GracefulEvictionTask("member1", creation_timestamp=now - timedelta(seconds=601)),
        "quick": GracefulEvictionTask("member1", creation_timestamp=now - timedelta(seconds=480)),
        "hasty": GracefulEvictionTask(
            "member1", creation_timestamp=now - timedelta(seconds=121), grace_period_seconds=120
        ),
        "patient": GracefulEvictionTask(
            "member1", creation_timestamp=now - timedelta(seconds=3600), grace_period_seconds=7200
        ),
        "kept": GracefulEvictionTask(
            "member1", creation_timestamp=now - timedelta(seconds=3600), suppress_deletion=True
        ),
    }
    for name, task in tasks.items():
        stored(binding(name, by_room("member2"), on={"member2": 1}).with_spec(graceful_eviction_tasks=(task,)))
    queue = rows(now)
    store().apply([(None, Decision(changes=tuple(map(Save, queue))))], by=Actor("test"))
    return now, queue


def scraped(client: Client) -> tuple[dict[str, str], dict[Sample, float]]:
    """The types by metric, and the samples by name and labels."""
    families = list(text_string_to_metric_families(client.get("/metrics").content.decode()))
    types = {family.name: family.type for family in families}
    samples = {
        (one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples
    }
    return types, samples


def settled(client: Client, *, waiting: int) -> tuple[dict[str, str], dict[Sample, float]]:
    """The same, as soon as it is about a queue of that length."""
    length = ("evict_total", (LOST,))
    return until(lambda: (found := scraped(client))[1].get(length, 0) == waiting and found, within=WITHIN)  # type: ignore[no-any-return]


def test_each_metric_has_its_type_and_its_labels(root: Client) -> None:
    outage()
    types, samples = settled(root, waiting=3)

    reported = {}
    for name, (type, _) in (PROPOSED | SHIPPED | OURS).items():
        suffix = {"histogram": "_bucket", "counter": "_total"}.get(type, "")
        (labels,) = {frozenset(dict(found)) for sample, found in samples if sample == name + suffix}
        reported[name] = (types[name], set(labels))

    assert reported == PROPOSED | SHIPPED | OURS


def test_each_metric_says_what_it_counts(root: Client) -> None:
    outage()
    _, samples = settled(root, waiting=3)

    fleet, of_role = ("name", "fleet"), ("resource_kind", "rbac.authorization.k8s.io/v1/ClusterRole")
    expected: dict[Sample, float] = {
        ("evict_kind_total", (LOST, ("resource_kind", "apps/v1/Deployment"))): 2,
        ("evict_kind_total", (LOST, of_role)): 1,
        ("evict_processing_latency_seconds_bucket", (LOST, ("le", "5.0"))): 0,
        ("evict_processing_latency_seconds_bucket", (LOST, ("le", "15.0"))): 2,
        ("evict_processing_latency_seconds_count", (LOST,)): 2,
        ("evict_processing_latency_seconds_sum", (LOST,)): 25,
        ("evict_success_rate", (LOST,)): 2 / 3,
        ("evict_succeeded_total", (LOST,)): 2,
        ("evict_failed_total", (LOST,)): 1,
        ("cluster_fault_num", ()): 1,
        ("cluster_fault_rate", ()): 0.2,
        ("eviction_queue_depth", (fleet,)): 3,
        ("eviction_kind_total", (("member_cluster", "member1"), ("resource_kind", "ResourceBinding"))): 2,
        ("eviction_kind_total", (("member_cluster", "member1"), ("resource_kind", "ClusterResourceBinding"))): 1,
        ("eviction_processing_latency_seconds_count", (fleet,)): 2,
        ("eviction_processing_latency_seconds_sum", (fleet,)): 25,
        ("eviction_processing_total", (fleet, ("result", "success"))): 2,
        ("eviction_processing_total", (fleet, ("result", "error"))): 1,
        ("lifeboat_eviction_tier_rate", (("tier", "Normal"),)): 0.5,
        ("lifeboat_evictions_held", (("reason", "NoRefuge"),)): 1,
        ("lifeboat_evictions_stuck", (LOST,)): 2,
    }
    assert {sample: samples.get(sample) for sample in expected} == expected
    assert 2 / (20 + WITHIN) < samples["evict_rate", (LOST,)] <= 2 / 20  # the first was queued 20 s ago


@pytest.mark.parametrize(("level", "seconds"), [(0.0, 4.0), (0.5, 3.0), (1.0, 2.0)])
def test_the_estimate_is_exact_for_what_the_bucket_holds(
    root: Client, redis: Redis, level: float, seconds: float
) -> None:
    """Two wait, at half a token a second. A bucket that was last asked at a rate of 0 holds what it held then."""
    redis.hset(f"{PREFIX}fleet", mapping={"tokens": str(level), "rate": "0", "at": "0"})
    outage()

    reported: Sample = ("lifeboat_eviction_eta_seconds", ())
    samples = until(lambda: (found := scraped(root)[1]).get(reported) == seconds and found, within=WITHIN)

    assert samples["lifeboat_eviction_tokens", (("name", "fleet"),)] == level


def test_its_series_vanish_when_the_cluster_has_recovered(root: Client) -> None:
    _, queue = outage()
    _, before = settled(root, waiting=3)

    store().apply([(None, Decision(changes=tuple(map(Drop, queue))))], by=Actor("test"))
    _, after = settled(root, waiting=0)

    named = [sample for sample in before if "member1" in dict(sample[1]).values()]
    about_it = [sample for sample in named if not sample[0].startswith(ALWAYS_THERE)]
    assert len(about_it) > 10
    assert [sample for sample in about_it if sample in after] == []


def test_with_a_bucket_for_each_cluster_there_is_a_queue_for_each(root: Client, redis: Redis) -> None:
    outage()
    redis.hset(f"{PREFIX}cluster/member1", mapping={"tokens": "0", "rate": "0.5", "at": "0"})  # full by now
    by_cluster = {"eviction": {"bucketScope": "Cluster"}}
    stored(FailoverConfiguration(API, "FailoverConfiguration", ObjectMeta(name=NAME), by_cluster))

    depth = ("eviction_queue_depth", (("name", "cluster/member1"),))
    assert until(lambda: scraped(root)[1].get(depth), within=WITHIN) == 3
    samples = scraped(root)[1]
    assert samples["lifeboat_eviction_tokens", (("name", "cluster/member1"),)] == 1
    assert samples["lifeboat_eviction_eta_seconds", ()] == 2


def test_an_eviction_whose_taint_is_tolerated_for_an_hour_has_not_waited_yet(root: Client) -> None:
    """Its age is alarmed on as a queue that does not move. Nothing is late that is not due."""
    now = store().now()
    queued = now - timedelta(minutes=50)
    for name, due, waited in (("late", now + timedelta(minutes=10), 0.0), ("due", now - timedelta(minutes=5), 300.0)):
        row = eviction(name, "member1", queued_at=queued, due_at=due)
        store().apply([(None, Decision(changes=(Save(row),)))], by=Actor("test"))
        debug._last = None

        _, samples = scraped(root)

        oldest = samples["lifeboat_evictions_oldest_seconds", (("state", "Queued"),)]
        assert waited <= oldest < waited + 60
