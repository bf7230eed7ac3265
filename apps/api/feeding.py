"""Feeding: what a watch sends to its client, in order: the present state, changes, bookmarks, and why it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor

from django.db import close_old_connections

from apps.api.answer import ReadBeside
from apps.api.clock import ticks
from apps.api.computed_watches import ComputedWatches, Step
from apps.api.outgoing import SLICE
from apps.api.streams import Stream
from apps.api.watch_events import Event, in_version, shown
from apps.api.watch_hub import BOOKMARK_SECONDS, CHUNK, CatchUp, Tailer, Watcher
from apps.objects import change_log
from apps.objects.apply import binary_cursor
from apps.objects.encryption import SealError
from apps.objects.listing import Logged, read_changes
from controlplane.apimachinery.errors import Expired, InternalError, StatusError
from controlplane.wire.table import Beside
from controlplane.wire.watch import ADDED, error_frame

INITIAL_CHUNK = 200  # objects in one part of the present state that a watch sends first

Write = Callable[[bytes], Awaitable[None]]


class Feeding:
    """Feeds watches on the event loop. `pool`: the threads that read the database for them."""

    def __init__(self, tailer: Tailer, pool: Executor) -> None:
        self.tailer = tailer
        self.pool = pool
        self.computed = ComputedWatches(tailer, pool)

    async def add(self, watcher: Watcher) -> None:
        """Send changes to a watch from now on. Raises TooManyRequests if its user has too many watches."""
        await self.tailer.add(watcher)
        if watcher.computed:
            self.computed.add(watcher)

    def remove(self, watcher: Watcher) -> None:
        """Send no more changes to a watch."""
        self.tailer.remove(watcher)
        if watcher.computed:
            self.computed.remove(watcher)

    async def feed(self, watcher: Watcher, write: Write) -> None:
        """Send everything to a watch until it ends."""
        stream = watcher.stream
        if stream.error is not None:
            await write(error_frame(stream.error))
            return
        await write(b"")  # sends the headers now, not with the first event
        if stream.initial is not None and not watcher.ended:
            await self._read_beside(watcher)
            await self._send_initial(watcher, stream.initial.texts, write)
            stream.initial = None  # other streams may still use it
        if stream.ends_initial and not watcher.ended:
            await write(watcher.bookmark(stream.since, initial_events_end=True))
        while True:
            watcher.waits = True  # the hub may send changes itself, because a thousand tasks that wake cost more
            await watcher.ready.wait()
            watcher.waits = False
            watcher.ready.clear()
            try:
                await self._drain(watcher, write)
            except StatusError as error:  # an object that cannot be converted, or changes that are gone or not computed
                await write(error_frame(error))
                return
            if watcher.error is not None:
                await write(error_frame(watcher.error))
            if watcher.ended:
                return

    async def _send_initial(self, watcher: Watcher, texts: Sequence[bytes], write: Write) -> None:
        """Send the present state in parts of at most INITIAL_CHUNK objects and about SLICE bytes."""
        lines: list[bytes] = []
        size = 0
        for text in texts:
            lines.append(shown(watcher.stream, ADDED, text, definitions=watcher.defines()))
            size += len(lines[-1])
            if size >= SLICE or len(lines) >= INITIAL_CHUNK:
                part, size = b"".join(lines), 0
                lines.clear()  # before waiting for the client, so that a part is in memory only once
                await write(part)
        if lines:
            await write(b"".join(lines))

    async def _drain(self, watcher: Watcher, write: Write) -> None:
        """Send the events in the queue, and a bookmark if it is due."""
        lines: list[bytes] = []
        if watcher.pending:
            await self._read_beside(watcher)
        while watcher.pending:
            item = watcher.pending.pop(0)
            if isinstance(item, CatchUp):
                await self._catch_up(watcher, item.version, lines, write)
            elif isinstance(item, Step):
                await self._send_step(watcher, item, lines, write)
            else:
                await self._take(watcher, item, lines)
            if len(lines) >= INITIAL_CHUNK:
                await write(b"".join(lines))
                lines.clear()
        if watcher.stream.bookmarks and ticks() >= watcher.bookmark_at and not watcher.ended:
            watcher.bookmark_at = ticks() + BOOKMARK_SECONDS
            reached = self.computed.reached(watcher) if watcher.computed else self.tailer.position
            lines.append(watcher.bookmark(max(watcher.seen, reached)))
        if lines:
            await write(b"".join(lines))

    async def _send_step(self, watcher: Watcher, step: Step, lines: list[bytes], write: Write) -> None:
        """Send the computed changes of one step."""
        for event in step.events:
            await self._take(watcher, event, lines)
            if len(lines) >= INITIAL_CHUNK:
                await write(b"".join(lines))
                lines.clear()
        watcher.seen = max(watcher.seen, step.until)

    async def _take(self, watcher: Watcher, event: Event, lines: list[bytes]) -> None:
        """Add the line of an event, unless the stream has seen its version or does not select its object.

        An object is converted after it was selected, or before if only the webhook of its kind makes the fields that
        the selectors name.
        """
        version = event.change.version
        if version <= watcher.seen:
            return
        watcher.seen = version
        if type_ := event.type_for(watcher.stream):
            converted = await in_version(self.pool, watcher.stream, event)
            if watcher.stream.selects_converted:
                type_ = converted.type_for(watcher.stream, converted=True)
            if type_:
                lines.append(converted.frame(watcher.stream, type_, definitions=watcher.defines()))

    async def _read_beside(self, watcher: Watcher) -> None:
        """Read the values that columns show and objects do not contain. Few kinds have such columns."""
        stream = watcher.stream
        if stream.read_beside is not None:
            loop = asyncio.get_running_loop()
            stream.beside = await loop.run_in_executor(self.pool, _read, stream.read_beside)

    async def _catch_up(self, watcher: Watcher, until: int, lines: list[bytes], write: Write) -> None:
        """Send the changes after the last version that the stream has seen, up to the version `until`."""
        if watcher.computed:
            if watcher.seen < until:
                step = await self.computed.step(watcher.stream, watcher.seen, until)
                await self._send_step(watcher, step, lines, write)
            return
        loop = asyncio.get_running_loop()
        while watcher.seen < until:
            changes = await loop.run_in_executor(self.pool, _history, watcher.stream, watcher.seen, until)
            for change in changes:
                await self._take(watcher, Event(change), lines)
            if lines:
                await write(b"".join(lines))
                lines.clear()
            if len(changes) < CHUNK:
                watcher.seen = max(watcher.seen, until)


def _history(stream: Stream, since: int, until: int) -> list[Logged]:
    """Return the next changes of the kind of a stream after a version.

    Raises Expired if some of them are no longer in the log, and InternalError if this process lacks a key for one.
    """
    try:
        with binary_cursor() as cursor:
            found = read_changes(cursor, [stream.kind], since, until, limit=CHUNK, opening=stream.opening)
            oldest = change_log.oldest(cursor)  # after reading, because a partition may be dropped in between
        if since < oldest:
            raise Expired(f"too old resource version: {since} ({oldest})")
        return found
    except SealError as error:
        raise InternalError(error.message) from error
    finally:
        close_old_connections()


def _read(read_beside: ReadBeside) -> Beside:
    try:
        return read_beside()
    finally:
        close_old_connections()
