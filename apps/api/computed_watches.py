"""Watches of kinds that are computed when they are read: evictions and records of failovers.

Their changes are computed from what is logged, in steps: all changes after one version up to another. While such a kind
is watched, one task for each kind computes the steps for all its watches. A watch that begins within a step gets a step
of its own first. After each step the task rests four times as long as the step took, and at most 3 s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Final, NamedTuple

from django.db import Error, close_old_connections

from apps.api.clock import ticks
from apps.api.streams import Compute, Stream
from apps.api.watch_events import Event
from apps.api.watch_hub import CatchUp, Tailer, Watcher
from apps.objects.listing import Logged
from controlplane.apimachinery.errors import Expired

log = logging.getLogger(__name__)

REST_SECONDS: Final = 0.2  # at least, between two steps
MAX_REST_SECONDS: Final = 3.0
REST_FACTOR: Final = 4  # times the seconds that the step took
RETRY_SECONDS: Final = 1.0
MAX_STEPS: Final = 100  # a watch that is more steps behind is closed; its client resumes where it was


class Step(NamedTuple):
    """The changes of a kind between two versions, shared by all watches."""

    since: int
    until: int
    events: Sequence[Event]


class ComputedWatches:
    """All such watches of a process. Used on the event loop only."""

    def __init__(self, tailer: Tailer, pool: Executor) -> None:
        self.tailer = tailer
        self.pool = pool
        self._followers: dict[str, _Follower] = {}
        tailer.moved.append(self._wake)

    def add(self, watcher: Watcher) -> None:
        """Send steps to a watch from now on."""
        stream: Stream = watcher.stream
        follower = self._followers.get(stream.kind)
        if follower is None:
            follower = self._followers[stream.kind] = _Follower(self, stream)
        follower.add(watcher)

    def remove(self, watcher: Watcher) -> None:
        """Send no more steps to a watch. Nothing is computed for a kind without watches."""
        follower = self._followers[watcher.stream.kind]
        if not follower.remove(watcher):
            del self._followers[watcher.stream.kind]

    def reached(self, watcher: Watcher) -> int:
        """Return the version up to which a watch has everything in its queue, or behind it."""
        return self._followers[watcher.stream.kind].reached[watcher]

    async def step(self, stream: Stream, since: int, until: int) -> Step:
        """Return the changes for a stream after a version up to another. Raises Expired and errors of the database."""
        assert stream.compute is not None, "the kind of the stream is stored and not computed"
        loop = asyncio.get_running_loop()
        changes = await loop.run_in_executor(self.pool, _computed, stream.compute, since, until)
        return Step(since, until, [Event(change) for change in changes])

    def _wake(self) -> None:
        for follower in self._followers.values():
            follower.wake.set()


class _Follower:
    """Computes the steps of one kind."""

    def __init__(self, watches: ComputedWatches, stream: Stream) -> None:
        self.watches = watches
        self.stream = stream  # any stream of the kind: they compute the same
        self.position = watches.tailer.position
        self.reached: dict[Watcher, int] = {}
        self.wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def add(self, watcher: Watcher) -> None:
        self.reached[watcher] = max(watcher.seen, self.position)
        if watcher.seen < self.position:
            watcher.put(CatchUp(self.position))
        self.wake.set()

    def remove(self, watcher: Watcher) -> bool:
        """Remove a watch; return whether others are left."""
        del self.reached[watcher]
        if not self.reached:
            self._task.cancel()
        return bool(self.reached)

    async def _run(self) -> None:
        while True:
            await self.wake.wait()
            self.wake.clear()
            until = self.watches.tailer.position
            if until <= self.position:
                self.position = until  # the database was restored, and the hub has ended all streams
                continue
            began = ticks()
            try:
                self._hand_out(await self.watches.step(self.stream, self.position, until))
            except Expired as error:
                self._end(error)
            except Error as error:
                log.warning("the changes of %s cannot be computed: %s", self.stream.kind, type(error).__name__)
                await asyncio.sleep(RETRY_SECONDS)
                self.wake.set()
                continue
            self.position = until
            await asyncio.sleep(min(MAX_REST_SECONDS, max(REST_SECONDS, REST_FACTOR * (ticks() - began))))

    def _hand_out(self, step: Step) -> None:
        for watcher, reached in self.reached.items():
            if reached >= step.until:
                continue
            self.reached[watcher] = step.until
            if not step.events:
                continue
            if len(watcher.pending) >= MAX_STEPS:
                log.warning(
                    "closed a watch of %s by %s: %s steps behind", self.stream.kind, watcher.stream.user, MAX_STEPS
                )
                watcher.end(now=True)
            watcher.put(step if reached == step.since else CatchUp(step.until))

    def _end(self, error: Expired) -> None:
        for watcher in self.reached:
            watcher.error = error
            watcher.end()


def _computed(compute: Compute, since: int, until: int) -> Sequence[Logged]:
    try:
        return compute(since, until)
    finally:
        close_old_connections()
