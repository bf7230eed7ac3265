"""The reader of the change log that feeds all watches of a process."""

from __future__ import annotations

import asyncio
import time

import pytest
from django.db import connection

from apps.api import tailer
from apps.api.streams import Stream
from apps.objects.store import DjangoStore
from controlplane.kind import KINDS
from controlplane.selectors import EVERYTHING
from controlplane.wire.request import Choice
from tests.stores.grounds import controllers, create, template

EVERY_ONE = Choice("", "", EVERYTHING, ())


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
    monkeypatch.setattr(tailer, "HAND_OVER_SECONDS", 0.05)

    async def watched() -> list[str]:
        reader = tailer.Tailer()
        reader.start()
        stream = Stream(user="u", kind="ConfigMap", resource=KINDS["ConfigMap"].resource, choice=EVERY_ONE, since=0)
        watcher = tailer.Watcher(stream)
        await reader.add(watcher)
        try:
            committed = asyncio.get_running_loop().run_in_executor(None, _commit, "one")
            while "event loop is busy" not in caplog.text:
                time.sleep(0.1)  # this is the fault: nothing else runs on the loop
            await committed
            await asyncio.to_thread(_commit, "two")
            seen: set[str] = set()
            while len(seen) < 2:
                await asyncio.wait_for(watcher.ready.wait(), 60)
                watcher.ready.clear()
                seen |= {one.change.name for one in watcher.pending if isinstance(one, tailer.Event)}
            return sorted(seen)
        finally:
            await reader.stop()

    assert asyncio.run(watched()) == ["one", "two"]
