"""A server without requests looks at its clock once a second, and ends at once all the same."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
import uvicorn

from apps.api.management.commands.serve import Server
from tests.apps.stack import WITHIN, until


async def application(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204})
    await send({"type": "http.response.body"})


class Counting(Server):
    """Counts its looks."""

    looks = 0

    async def on_tick(self, counter: int) -> bool:
        self.looks += 1
        return await super().on_tick(counter)


def server() -> Counting:
    return Counting(uvicorn.Config(application, port=0, lifespan="off", ws="none"))


def test_it_looks_once_a_second_and_keeps_the_date() -> None:
    one = server()
    thread = threading.Thread(target=one.run)
    thread.start()
    until(lambda: one.looks >= 3, within=WITHIN)
    looks, began = one.looks, time.monotonic()
    until(lambda: one.looks >= looks + 2, within=WITHIN)
    took = time.monotonic() - began
    [date] = [value for name, value in one.server_state.default_headers if name == b"date"]
    one.end()
    thread.join(WITHIN)

    assert not thread.is_alive()
    assert took > 1, "two looks follow each other after a second"
    assert time.time() - parsedate_to_datetime(date.decode()).timestamp() < WITHIN


@pytest.mark.parametrize("end", [Server.end, lambda one: os.kill(os.getpid(), signal.SIGTERM)], ids=["end", "a signal"])
def test_it_ends_at_once(end: Callable[[Server], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.api.management.commands.serve.CLOCK_SECONDS", 10 * WITHIN)
    monkeypatch.setattr(signal, "raise_signal", lambda number: None)  # uvicorn repeats the signal when it has ended
    one = server()

    async def serves_and_ends() -> None:
        serving = asyncio.create_task(one.serve())
        while not one.looks:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)
        end(one)
        await asyncio.wait_for(serving, WITHIN)

    asyncio.run(serves_and_ends())

    assert one.looks == 2
