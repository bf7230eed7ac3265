"""Wakeup: an event that several tasks wait for, as asyncio.Event does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from apps.api.wakeup import Wakeup


def claim(check: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run a coroutine to its end. Raises TimeoutError if it waits for more than 10 seconds."""
    asyncio.run(asyncio.wait_for(check(), 10))


@pytest.mark.parametrize("kind", [Wakeup, asyncio.Event])
def test_set_lets_all_tasks_go_on_that_wait(kind: type[Wakeup | asyncio.Event]) -> None:
    async def check() -> None:
        wakeup = kind()
        waiting = [asyncio.create_task(wakeup.wait()) for _ in range(3)]
        await asyncio.sleep(0)  # lets the tasks begin to wait
        assert not any(task.done() for task in waiting)
        wakeup.set()
        wakeup.set()  # a second time, before the tasks have run: no error
        assert await asyncio.gather(*waiting) == [True, True, True]

    claim(check)


@pytest.mark.parametrize("kind", [Wakeup, asyncio.Event])
def test_what_is_set_does_not_wait_until_it_is_cleared(kind: type[Wakeup | asyncio.Event]) -> None:
    async def check() -> None:
        wakeup = kind()
        wakeup.set()
        assert wakeup.is_set()
        assert await wakeup.wait()
        wakeup.clear()
        assert not wakeup.is_set()
        waiting = asyncio.create_task(wakeup.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        wakeup.set()
        assert await waiting

    claim(check)


@pytest.mark.parametrize("kind", [Wakeup, asyncio.Event])
def test_a_set_that_is_cleared_at_once_still_wakes_a_task_that_waited(kind: type[Wakeup | asyncio.Event]) -> None:
    async def check() -> None:
        wakeup = kind()
        waiting = asyncio.create_task(wakeup.wait())
        await asyncio.sleep(0)
        wakeup.set()
        wakeup.clear()
        assert await waiting

    claim(check)


@pytest.mark.parametrize("kind", [Wakeup, asyncio.Event])
def test_a_cancelled_task_takes_no_wakeup_from_the_others(kind: type[Wakeup | asyncio.Event]) -> None:
    async def check() -> None:
        wakeup = kind()
        cancelled, other = (asyncio.create_task(wakeup.wait()) for _ in range(2))
        await asyncio.sleep(0)
        cancelled.cancel()
        wakeup.set()
        assert await other
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    claim(check)


def test_a_wakeup_keeps_no_task_that_waits_no_more() -> None:
    async def check() -> None:
        wakeup = Wakeup()
        waiting = [asyncio.create_task(wakeup.wait()) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        assert len(wakeup._waiters) == 1
        wakeup.set()
        await waiting[1]
        assert wakeup._waiters == ()

    claim(check)
