"""The reader of the change log that feeds all watches of a process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from apps.api import watch_hub
from apps.api.authorization import Attributes
from apps.api.feeding import Feeding
from apps.api.streams import Stream
from apps.api.watch_events import Event
from apps.objects import change_log, origin
from apps.objects.apply import binary_cursor
from apps.objects.notifications import LISTENER, listening
from apps.objects.store import DjangoStore
from apps.objects.transaction import CHANGES_CHANNEL
from controlplane.apimachinery.errors import Expired
from controlplane.apimachinery.selectors import EVERYTHING
from controlplane.kind import KINDS
from controlplane.wire.request import Choice
from tests.builders.bare import template
from tests.stores.grounds import controllers, create

EVERY_ONE = Choice("", "", EVERYTHING, ())
ALLOWED = Attributes(User(username="u"), "watch", resource="configmaps")


def _commit(name: str) -> None:
    """Store an object in a thread of its own; its session ends with it."""
    try:
        create(DjangoStore(controllers=controllers()), template(name))
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_an_event_loop_that_is_busy_costs_its_streams_time_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def watched() -> list[str]:
        reader = watch_hub.Tailer()
        reader.start()
        stream = Stream(
            allowed=ALLOWED, kind="ConfigMap", resource=KINDS["ConfigMap"].resource, choice=EVERY_ONE, since=0
        )
        watcher = watch_hub.Watcher(stream)
        await asyncio.wait_for(reader.add(watcher), 60)  # the reader has begun: only what follows is to be late
        monkeypatch.setattr(watch_hub, "HAND_OVER_SECONDS", 0.05)
        try:
            committed = asyncio.get_running_loop().run_in_executor(None, _commit, "one")
            while "the event loop took no changes" not in caplog.text:
                time.sleep(0.1)  # this is the fault: nothing else runs on the loop
            monkeypatch.setattr(watch_hub, "HAND_OVER_SECONDS", 60.0)  # a slow machine needs more than the 0.05 s
            await committed
            await asyncio.to_thread(_commit, "two")
            seen: set[str] = set()
            while len(seen) < 2:
                await asyncio.wait_for(watcher.ready.wait(), 60)
                watcher.ready.clear()
                seen |= {one.change.name for one in watcher.pending if isinstance(one, Event)}
            return sorted(seen)
        finally:
            await reader.stop()

    assert asyncio.run(watched()) == ["one", "two"]


def _restored() -> None:
    """Raise the counter as after a restore."""
    origin.declare_restored("a test")
    connection.close()


def _forget_later_partitions() -> None:
    """Drop the partitions that a raised counter made: they are not emptied with the tables."""
    with binary_cursor() as cursor:
        for _, _, name in change_log.partitions(cursor)[1:]:
            cursor.execute(f"DROP TABLE {name}")  # type: ignore[arg-type]  # a name of ours
    change_log.forget()


def _sent_away(happens: Callable[[], None]) -> tuple[Expired | None, list[str]]:
    """Return what a stream ends with after something happened to the database, and what one that began later sees."""

    async def watched() -> tuple[Expired | None, list[str]]:
        reader = watch_hub.Tailer()
        reader.start()
        resource = KINDS["ConfigMap"].resource
        first, later = (
            watch_hub.Watcher(
                Stream(allowed=ALLOWED, kind="ConfigMap", resource=resource, choice=EVERY_ONE, since=since)
            )
            for since in (3, 10**15)
        )
        await reader.add(first)
        try:
            await asyncio.to_thread(happens)
            while not first.ended:
                await asyncio.wait_for(first.ready.wait(), 60)
                first.ready.clear()
            reader.remove(first)
            later.seen = reader.position
            await reader.add(later)
            await asyncio.to_thread(_commit, "later")
            await asyncio.wait_for(later.ready.wait(), 60)
            seen = [one.change.name for one in later.pending if isinstance(one, Event)]
            return first.error, seen
        finally:
            await reader.stop()

    for name in ("one", "two", "three"):
        _commit(name)
    return asyncio.run(watched())


_END_READER = f"""
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = '{LISTENER} {CHANGES_CHANNEL}'"""


@pytest.mark.parametrize("disconnects", [False, True])
@pytest.mark.django_db(transaction=True)
def test_streams_end_with_410_where_the_database_has_gone_back(disconnects: bool) -> None:
    """Also if the reader lost its connection while the database was restored, as it usually does."""

    def gone_back() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("DELETE FROM objects_changelog WHERE version > 1")
            cursor.execute("UPDATE objects_counter SET version = 1")
            if disconnects:
                cursor.execute(_END_READER)
        connection.close()

    error, seen = _sent_away(gone_back)

    assert isinstance(error, Expired)
    assert seen == ["later"]


@pytest.mark.django_db(transaction=True)
def test_streams_end_with_410_where_the_counter_was_raised_after_a_restore() -> None:
    try:
        error, seen = _sent_away(_restored)
    finally:
        _forget_later_partitions()

    assert isinstance(error, Expired)
    assert seen == ["later"]


@contextmanager
def _first_partition_dropped() -> Iterator[None]:
    """Let the log begin with its second partition, as long as the block runs."""
    with binary_cursor() as cursor:
        begin, end, name = change_log.partitions(cursor)[0]
        later = f"objects_changelog_{end - 1}_{end}"
        for statement in (
            f"ALTER TABLE objects_changelog DETACH PARTITION {name}",
            f"ALTER TABLE {name} RENAME TO away",
            f"CREATE TABLE {later} PARTITION OF objects_changelog FOR VALUES FROM ({end - 1}) TO ({end})",
        ):
            cursor.execute(statement)  # type: ignore[arg-type]  # a name of ours
        try:
            yield
        finally:
            for statement in (
                f"DROP TABLE {later}",
                f"ALTER TABLE away RENAME TO {name}",
                f"ALTER TABLE objects_changelog ATTACH PARTITION {name} FOR VALUES FROM ({begin}) TO ({end})",
            ):
                cursor.execute(statement)  # type: ignore[arg-type]  # a name of ours


@pytest.mark.django_db(transaction=True)
def test_streams_end_with_410_where_changes_they_have_not_seen_were_removed_while_the_reader_was_away() -> None:
    _commit("one")

    def read_once(reader: watch_hub.Tailer) -> None:
        reader._stopping.set()  # it reads once and returns
        try:
            with _first_partition_dropped(), listening(CHANGES_CHANNEL) as own:
                reader._follow(own)
        finally:
            connection.close()

    async def watched() -> Expired | None:
        reader = watch_hub.Tailer()
        reader._begun.set()
        reader._read_up_to = 1
        resource = KINDS["ConfigMap"].resource
        stream = Stream(allowed=ALLOWED, kind="ConfigMap", resource=resource, choice=EVERY_ONE, since=1)
        watcher = watch_hub.Watcher(stream)
        await reader.add(watcher)
        try:
            await asyncio.to_thread(read_once, reader)
            return watcher.error
        finally:
            for task in reader._tasks:
                task.cancel()

    assert isinstance(asyncio.run(watched()), Expired)


@pytest.mark.django_db(transaction=True)
def test_a_watch_that_is_behind_ends_with_410_where_changes_it_has_not_sent_were_removed() -> None:
    for name in ("one", "two"):
        _commit(name)

    async def watched() -> list[bytes]:
        sent: list[bytes] = []

        async def write(part: bytes) -> None:
            sent.append(part)

        resource = KINDS["ConfigMap"].resource
        stream = Stream(allowed=ALLOWED, kind="ConfigMap", resource=resource, choice=EVERY_ONE, since=1)
        watcher = watch_hub.Watcher(stream)
        watcher.put(watch_hub.CatchUp(2))
        with ThreadPoolExecutor(1) as pool:
            await asyncio.wait_for(Feeding(watch_hub.Tailer(), pool).feed(watcher, write), 60)
        return sent

    with _first_partition_dropped():
        sent = asyncio.run(watched())

    assert b'"code":410' in sent[-1]
    assert not any(b"two" in part for part in sent)


@pytest.mark.parametrize("before_it", [lambda: None, _restored], ids=["plain", "restored"])
@pytest.mark.django_db(transaction=True)
def test_reading_again_without_a_new_version_ends_no_stream(before_it: Callable[[], None]) -> None:
    """A notification may concern due rows only, and the log is also read without one."""
    _commit("one")
    before_it()

    def read_again(reader: watch_hub.Tailer, position: int) -> int:
        try:
            with binary_cursor() as cursor:
                return reader._read(cursor, position)
        finally:
            connection.close()

    async def watched() -> tuple[int, int, bool]:
        reader = watch_hub.Tailer()
        reader.start()
        resource = KINDS["ConfigMap"].resource
        watcher = watch_hub.Watcher(
            Stream(allowed=ALLOWED, kind="ConfigMap", resource=resource, choice=EVERY_ONE, since=0)
        )
        await reader.add(watcher)
        try:
            before = reader.position
            after = await asyncio.to_thread(read_again, reader, before)
            return before, after, watcher.ended
        finally:
            await reader.stop()

    try:
        before, after, ended = asyncio.run(watched())
    finally:
        _forget_later_partitions()

    assert (after, ended) == (before, False)
