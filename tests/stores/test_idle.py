"""What processes do while nothing happens: one statement each half second, and no looks at due rows that cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from apps.members import pump as pumps
from apps.members.database import DatabaseHost
from apps.members.pump import LONGEST_WAIT, Pump
from apps.objects.arrays import BinaryCursor
from apps.objects.configuration import Configuration, configuration
from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import ObjectMeta
from controlplane.clusters.questions import Answer, Question
from controlplane.controllers.probes import Probes
from controlplane.engine.decision import Decision
from controlplane.kinds.configuration import NAME, FailoverConfiguration
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
        _, without = pump.claim()

    assert len(asked) == 1
    assert 1 < until_due <= 2
    assert without == LONGEST_WAIT


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
