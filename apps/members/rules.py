"""Asks scripts and webhooks what waiting requests to members need to know, without holding up anything else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from controlplane.interpret.customized import Question


class Rules:
    """Questions to scripts and webhooks, in a thread of their own. To be used in one event loop.

    It takes a while to find that a rule does not answer (`Interpretation.interpret`). Questions that come meanwhile are
    then asked together, so a rule that hangs costs this time once for all objects and not once for each. `interpret`:
    sends questions, and returns when they are answered or that time is over.
    """

    def __init__(self, interpret: Callable[[Sequence[Question]], object]) -> None:
        self._interpret = interpret
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rules")
        self._is_free = asyncio.Lock()
        self._waiting: list[Question] = []
        self._next: asyncio.Task[None] | None = None  # asks `_waiting` as soon as the thread is free
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, questions: Sequence[Question]) -> None:
        """Send questions, and wait until they are answered or it is time to do something else."""
        self._waiting += questions
        if self._next is None:
            self._next = asyncio.create_task(self._together())
            self._tasks.add(self._next)
            self._next.add_done_callback(self._tasks.discard)
        await asyncio.shield(self._next)  # others wait for it as well

    async def close(self) -> None:
        """End the thread. Does not wait for a rule."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _together(self) -> None:
        async with self._is_free:
            questions, self._waiting, self._next = self._waiting, [], None
            await asyncio.get_running_loop().run_in_executor(self._thread, self._interpret, questions)
