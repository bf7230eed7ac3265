"""The reader of the change log that feeds all watches of a process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import connection

from apps.api import watch_hub
from apps.api.authorization import Attributes
from apps.api.streams import Stream
from apps.objects import change_log, origin
from apps.objects.apply import binary_cursor
from apps.objects.store import DjangoStore
from controlplane.apimachinery.errors import Expired
from controlplane.apimachinery.selectors import EVERYTHING
from controlplane.kind import KINDS
from controlplane.wire.request import Choice
from tests.stores.grounds import controllers, create, template

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
        await reader.add(watcher)  # the reader has begun: only what follows is to be late
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
                seen |= {one.change.name for one in watcher.pending if isinstance(one, watch_hub.Event)}
            return sorted(seen)
        finally:
            await reader.stop()

    assert asyncio.run(watched()) == ["one", "two"]


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
            seen = [one.change.name for one in later.pending if isinstance(one, watch_hub.Event)]
            return first.error, seen
        finally:
            await reader.stop()

    for name in ("one", "two", "three"):
        _commit(name)
    return asyncio.run(watched())


@pytest.mark.django_db(transaction=True)
def test_streams_end_with_410_where_the_database_has_gone_back() -> None:
    def gone_back() -> None:
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM objects_changelog WHERE version > 1")
            cursor.execute("UPDATE objects_counter SET version = 1")
        connection.close()

    error, seen = _sent_away(gone_back)

    assert isinstance(error, Expired)
    assert seen == ["later"]


@pytest.mark.django_db(transaction=True)
def test_streams_end_with_410_where_the_counter_was_raised_after_a_restore() -> None:
    def raised() -> None:
        origin.declare_restored("a test")
        connection.close()

    try:
        error, seen = _sent_away(raised)
    finally:
        with binary_cursor() as cursor:  # partitions are not emptied with the tables
            for _, _, name in change_log.partitions(cursor)[1:]:
                cursor.execute(f"DROP TABLE {name}")  # type: ignore[arg-type]  # a name of ours
        change_log.forget()

    assert isinstance(error, Expired)
    assert seen == ["later"]


@pytest.mark.django_db(transaction=True)
def test_reading_again_without_a_new_version_ends_no_stream() -> None:
    """A notification may concern due rows only, and the log is also read without one."""
    _commit("one")

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

    before, after, ended = asyncio.run(watched())

    assert (after, ended) == (before, False)
