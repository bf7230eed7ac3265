"""What processes do while nothing happens: few statements, and no looks at due rows that cannot be."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
import redis
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from apps.members import pump as pumps
from apps.members.database import DatabaseHost
from apps.members.pump import LONGEST_WAIT, Pump
from apps.objects.arrays import BinaryCursor
from apps.objects.configuration import Configuration, configuration
from apps.objects.due import shard_hash
from apps.objects.store import DjangoStore
from apps.worker.clock import monotonic_seconds
from apps.worker.groups import tick_names
from apps.worker.nudges import KeptNudges
from apps.worker.restored import PREFIX, RestoreDetector
from apps.worker.tick_times import TickTimes
from apps.worker.turn import Turn
from apps.worker.watchdog import LOOK_SECONDS, QUIET_SECONDS, Watchdog
from controlplane.apimachinery.meta import ObjectMeta
from controlplane.clusters.questions import Answer, Question
from controlplane.controllers import CONTROLLERS
from controlplane.controllers.probes import Probes
from controlplane.engine.decision import Decision, Save
from controlplane.engine.run import World
from controlplane.engine.state import Actor
from controlplane.kinds.configuration import NAME, FailoverConfiguration
from controlplane.kinds.rows import Observation
from tests.apps.stack import WITHIN
from tests.builders.bare import cluster, template
from tests.stores.grounds import create

pytestmark = pytest.mark.django_db(transaction=True)

CONFIGURED = "failover.lifeboat.io/v1alpha1"


@contextmanager
def counted() -> Iterator[list[str]]:
    """Yield a list that has, after the block, the statements of this thread."""
    found: list[str] = []
    run = BinaryCursor.run

    def noting(self: BinaryCursor, query: Any, params: Any = ()) -> Any:
        found.append(str(query))
        return run(self, query, params)

    with patch.object(BinaryCursor, "run", noting), CaptureQueriesContext(connection) as asked:
        yield found
    found += [query["sql"] for query in asked.captured_queries]


def configured(rate: float) -> FailoverConfiguration:
    spec = {"resourceEvictionRate": rate}
    return FailoverConfiguration(CONFIGURED, "FailoverConfiguration", ObjectMeta(name=NAME), spec)


def test_while_nothing_is_written_one_statement_finds_that_out(monkeypatch: pytest.MonkeyPatch) -> None:
    store = DjangoStore(controllers=[])
    create(store, template("t1"))
    monkeypatch.setattr("apps.objects.refreshed.FRESH_SECONDS", 0.0)
    known = Configuration(store)
    known.settings()

    with counted() as idle:
        known.settings()
        known.settings(reread=True)
    create(store, template("t2"))
    with counted() as written:
        known.settings()

    assert len(idle) == 2
    assert len(written) == 2


def test_a_version_that_is_given_again_after_a_rollback_is_a_new_write(monkeypatch: pytest.MonkeyPatch) -> None:
    store = DjangoStore(controllers=[])
    create(store, template("t1"))
    monkeypatch.setattr("apps.objects.refreshed.FRESH_SECONDS", 0.0)
    known = Configuration(store)
    usual = known.settings()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("UPDATE objects_counter SET version = version + 1")
        seen_before_the_rollback = known.settings()
        transaction.set_rollback(True)

    create(store, configured(7.0))

    assert seen_before_the_rollback == usual
    assert known.settings().resource_eviction_rate == 7.0


def test_rows_alone_change_nothing_that_processes_have_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes store a row for each cluster every ten seconds. Nothing is read again because of that."""
    store = DjangoStore(controllers=[])
    create(store, template("t1"))
    monkeypatch.setattr("apps.objects.refreshed.FRESH_SECONDS", 0.0)
    known = Configuration(store)
    known.settings()

    store.apply([(None, Decision(changes=(Save(Observation("member1", "True")),)))], by=Actor("probes"))
    with counted() as asked:
        known.settings()

    assert store.rows(Observation, "key", ["member1"])["member1"][0].status == "True"
    assert len(asked) == 1


def test_rows_are_stored_although_the_counter_of_versions_is_missing() -> None:
    store = DjangoStore(controllers=[])
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM objects_counter")

    store.apply([(None, Decision(changes=(Save(Observation("member1", "True")),)))], by=Actor("probes"))
    created = create(store, template("t1"))

    assert store.rows(Observation, "key", ["member1"])["member1"][0].status == "True"
    assert [one.metadata.resource_version for one in created] == ["1"]


def test_a_turn_without_work_takes_its_lease_looks_once_and_returns_it() -> None:
    store = DjangoStore(controllers=CONTROLLERS)
    read = Configuration(store)

    def turn() -> Turn:
        return Turn("failover", 0, store=store, world=World(), configuration=read)

    while turn().once():
        pass
    with counted() as idle:
        turn().once()

    assert [_verb(one) for one in idle if "held_since" not in one] == ["take", "look", "return"], idle


def _verb(statement: str) -> str:
    verbs = {"INSERT INTO objects_lease": "take", "FROM objects_due": "look", "UPDATE objects_lease": "return"}
    return next((verb for words, verb in verbs.items() if words in statement), statement)


def test_what_is_due_in_another_shard_is_not_waited_for() -> None:
    store = DjangoStore(controllers=[])
    refs = [template(f"t{number}").ref for number in range(20)]
    own = [one for one in refs if shard_hash(one) % 2]
    store.mark("placer", [one for one in refs if one not in own])
    store.mark("placer", own, due_at=store.now() + timedelta(seconds=50))

    odd, even = (store.seconds_until_due({"placer": 2, "nothing": 1}, shard=shard) for shard in (1, 0))

    assert set(odd) == set(even) == {"placer"}
    assert even["placer"] <= 0
    assert 40 < odd["placer"] <= 50


def test_what_is_claimed_is_waited_for_until_its_claim_ends() -> None:
    store = DjangoStore(controllers=[])
    store.mark("placer", [template("t1").ref])
    store.claim("placer", shard=0, shards=1, limit=1, lease_seconds=100)

    assert 90 < store.seconds_until_due({"placer": 1}, shard=0)["placer"] <= 100


def test_a_check_for_a_restore_is_one_statement_and_writes_to_redis_what_is_new(redis_client: redis.Redis) -> None:
    store = DjangoStore(controllers=[])
    create(store, template("t1"))
    detector = RestoreDetector(redis_client)
    detector.check()
    [key] = redis_client.keys(f"{PREFIX}*")
    redis_client.hset(key, "at", 1.0)

    with counted() as asked:
        detector.check()
    kept = redis_client.hgetall(key)
    create(store, template("t2"))
    detector.check()
    written = redis_client.hgetall(key)
    redis_client.delete(key)
    detector.check()

    assert len(asked) == 1, asked
    assert kept == {b"version": b"1", b"at": b"1.0"}
    assert written[b"version"] == b"2"
    assert float(written[b"at"]) > 1
    assert redis_client.hget(key, "version") == b"2", "Redis had lost it"


def test_of_a_pool_one_process_looks_for_free_groups_while_all_run_and_each_while_one_is_free() -> None:
    store, times = DjangoStore(controllers=[]), TickTimes(tick_names())
    ran: list[str] = []
    pool = [Watchdog(times, store, ran.append, threading.Event(), nudges=KeptNudges()) for _ in range(4)]
    groups = [name.partition("/") for name in tick_names()]
    for name, _, shard in groups:
        store.take_lease(name, int(shard), holder="a process", seconds=60)

    with counted() as while_all_run:
        for one in pool:
            one.run_free_group()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM objects_lease")
    for one in pool:
        one.run_free_group()
    assert ran == [], "they have looked a moment ago"
    with patch("apps.worker.watchdog.monotonic_seconds", lambda: monotonic_seconds() + LOOK_SECONDS):
        for one in pool:
            one.run_free_group()

    assert len(while_all_run) == 1
    assert sorted(ran) == sorted(tick_names())


def test_each_group_without_ticks_has_its_turn_also_if_one_process_is_left() -> None:
    ran: list[str] = []
    moment = [monotonic_seconds()]
    one = Watchdog(
        TickTimes(tick_names()), DjangoStore(controllers=[]), ran.append, threading.Event(), nudges=KeptNudges()
    )

    with patch("apps.worker.watchdog.monotonic_seconds", lambda: moment[0]):
        for _ in tick_names():
            moment[0] += QUIET_SECONDS
            one.run_free_group()

    assert sorted(ran) == sorted(tick_names())


async def _never(question: Question) -> Answer:
    raise AssertionError("no question is asked")


def test_a_pump_without_due_rows_waits_long_and_with_one_until_it_is_due() -> None:
    store = DjangoStore(controllers=[Probes()])
    create(store, cluster("member1").with_spec(api_endpoint="http://member1"))
    with ThreadPoolExecutor(1) as executor:
        pump = Pump(Probes(), DatabaseHost(store, configuration()), _never, executor)
        asked, _ = pump.claim()
        store.release([one.claim for one in asked], due_at=store.now() + timedelta(seconds=2))
        _, until_due = pump.claim()
        store.release([one.claim for one in asked], due_at=store.now() + timedelta(hours=1))
        with counted() as looked:
            _, without = pump.claim()

    assert len(asked) == 1
    assert 1 < until_due <= 2
    assert without == LONGEST_WAIT
    assert [_verb(one) for one in looked if "held_since" not in one] == ["look", "look"], looked


class Often(Probes):
    """Is due again a moment after each decision."""

    decisions = 0

    def decide_all(self, snapshots: Any, settings: Any, *, now: Any, answer: Any) -> list[Decision | Exception]:
        self.decisions += len(snapshots)
        return [Decision(wake_at=now + timedelta(milliseconds=50)) for _ in snapshots]


def test_a_pump_looks_when_its_own_decision_makes_an_object_due_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing notifies it of that, so it would wait for as long as it waits for a lost notification."""
    monkeypatch.setattr(pumps, "LONGEST_WAIT", 2 * WITHIN)
    store = DjangoStore(controllers=[often := Often()])
    create(store, cluster("member1").with_spec(api_endpoint="http://member1"))

    async def answer(question: Question) -> Answer:
        return Answer(200)

    async def decides_again() -> None:
        with ThreadPoolExecutor(1) as executor:
            pump = Pump(often, DatabaseHost(store, configuration()), answer, executor)
            running = asyncio.create_task(pump.run())
            while often.decisions < 4:
                assert not running.done(), running.exception()
                await asyncio.sleep(0.01)
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(asyncio.wait_for(decides_again(), WITHIN))
