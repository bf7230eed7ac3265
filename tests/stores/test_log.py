"""Partitions of the change log: made ahead; dropped by age, versions and bytes; never with the write lock in hand."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import InternalError, connection

from apps.objects import apply as writing
from apps.objects import change_log
from apps.objects.configuration import Configuration
from apps.objects.store import DjangoStore
from apps.worker import turn
from controlplane.apimachinery.meta import ObjectMeta
from controlplane.engine.decision import Put
from controlplane.engine.run import World
from controlplane.kinds.configuration import NAME, FailoverConfiguration
from tests.builders.bare import binding, template
from tests.stores.grounds import controllers, create, write
from tests.stores.test_postgres import rows, small_partitions
from tests.stores.test_rows_written import BINDINGS, swallowing

pytestmark = pytest.mark.django_db(transaction=True)

CONFIGURED = "failover.lifeboat.io/v1alpha1"


@pytest.fixture
def store() -> DjangoStore:
    return DjangoStore(controllers=controllers())


def test_partitions_are_made_before_they_are_needed(store: DjangoStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_partitions(store, monkeypatch):
        create(store, *(template(f"t{number}") for number in range(35)))

        with writing.binary_cursor() as cursor:
            bounds = [(start, end) for start, end, _ in change_log.partitions(cursor)]

        assert bounds == [(1, 11), (11, 21), (21, 31), (31, 41)]
        assert [change.version for change in store.changes(0)] == list(range(1, 36))


def test_a_partition_that_was_rolled_back_with_its_transaction_is_made_again(
    store: DjangoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [Put(template(f"t{number}"), None) for number in range(20)]
    with small_partitions(store, monkeypatch):
        with swallowing(BINDINGS, "INSERT"), pytest.raises(InternalError, match="0 rows of 1 were written"):
            write(store, *many, Put(binding("lost", "member1"), None))

        assert write(store, *many).versions == tuple(range(1, 21))


def test_trimming_drops_whole_partitions_and_says_what_is_left(
    store: DjangoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_partitions(store, monkeypatch):
        create(store, *(template(f"t{number}") for number in range(35)))
        assert store.oldest_version() == 0

        dropped = store.trim_log(store.now(), keep_versions=12)

        assert (dropped, store.oldest_version()) == (2, 20)
        assert [change.version for change in store.changes(20)] == list(range(21, 36))


def test_age_drops_what_a_count_would_keep(store: DjangoStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_partitions(store, monkeypatch):
        create(store, *(template(f"t{number}") for number in range(35)))

        assert store.trim_log(store.now(), keep=timedelta(days=1)) == 0
        assert store.trim_log(store.now() + timedelta(days=2), keep=timedelta(days=1)) == 3


@pytest.mark.parametrize(
    ("age", "spec"), [("31 days", {}), ("2 hours", {"changeLog": {"keepSeconds": 3600}})], ids=["usual", "set"]
)
def test_a_worker_drops_what_is_older_than_the_log_has_to_reach(
    store: DjangoStore, monkeypatch: pytest.MonkeyPatch, age: str, spec: dict[str, Any]
) -> None:
    with small_partitions(store, monkeypatch):
        create(store, *(template(f"t{number}") for number in range(34)))
        create(store, FailoverConfiguration(CONFIGURED, "FailoverConfiguration", ObjectMeta(name=NAME), spec))
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {change_log.TABLE} SET at = at - interval '{age}' WHERE version < 25")
        monkeypatch.setattr(turn, "_trimmed_at", {})

        for group in turn.GROUPS:
            turn.Turn(group, 0, store=store, world=World(), configuration=Configuration(store)).once()

        assert store.oldest_version() == 20


def test_the_size_of_the_log_has_a_limit_and_what_is_written_now_is_kept(
    store: DjangoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_partitions(store, monkeypatch):
        create(store, *(template(f"t{number}") for number in range(35)))
        (size,) = rows("SELECT pg_total_relation_size('objects_changelog_21_31')")[0]

        assert store.trim_log(store.now(), keep_bytes=100 * size) == 0
        assert store.trim_log(store.now(), keep_bytes=2 * size + size // 2) == 2
        assert store.oldest_version() == 20
        assert store.trim_log(store.now(), keep_bytes=1) == 1
        assert store.oldest_version() == 30


@pytest.mark.parametrize(
    "reads", ["LOCK TABLE objects_changelog IN ACCESS SHARE MODE", "SELECT count(*) FROM objects_changelog"]
)
def test_beside_a_backup_nothing_is_dropped_and_writes_go_on(
    store: DjangoStore, monkeypatch: pytest.MonkeyPatch, reads: str
) -> None:
    with small_partitions(store, monkeypatch):
        create(store, *(template(f"t{number}") for number in range(35)))
        with psycopg.connect(**connection.get_connection_params()) as backup:  # type: ignore[arg-type]
            backup.execute(reads)

            with ThreadPoolExecutor(1) as worker:
                trimming = worker.submit(in_thread, store.trim_log, store.now(), keep_versions=12)
                slowest = max(seconds_to(create, store, template(f"beside-{number}")) for number in range(15))
            assert trimming.result() == 0
            assert slowest < 2
            assert store.oldest_version() == 0

        assert store.trim_log(store.now(), keep_versions=12) > 0


def test_no_partition_is_made_or_dropped_with_the_write_lock_in_hand(
    store: DjangoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that changes the parent, as ANALYZE and CREATE INDEX do, stops neither writes nor the next try."""
    with small_partitions(store, monkeypatch):
        create(store, *(template(f"t{number}") for number in range(5)))
        with psycopg.connect(**connection.get_connection_params()) as person:  # type: ignore[arg-type]
            person.execute("LOCK TABLE objects_changelog IN SHARE UPDATE EXCLUSIVE MODE")
            slowest = max(seconds_to(create, store, template(f"beside-{number}")) for number in range(5))
        (made,) = create(store, template("after"))

        with writing.binary_cursor() as cursor:
            bounds = [(start, end) for start, end, _ in change_log.partitions(cursor)]
        assert slowest < 2
        assert made.metadata.resource_version == "11"
        assert bounds[-1] == (11, 21)


def in_thread(call: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Call something in a thread of a test and give its connection back."""
    try:
        return call(*given, **named)
    finally:
        connection.close()


def seconds_to(call: Callable[..., Any], *given: Any) -> float:
    began = time.monotonic()
    call(*given)
    return time.monotonic() - began
