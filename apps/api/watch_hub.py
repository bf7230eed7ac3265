"""One reader of the change log per process, and the queues of the streams it feeds.

A thread listens and reads; everything else happens on the event loop. Since version order is commit order, seeing
version N means having seen all before it: a stream misses nothing, and what it has seen is one number.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, NamedTuple

import orjson
import psycopg
from django.db import Error, close_old_connections

from apps.api import logins
from apps.api.clock import ticks, wall_now
from apps.api.streams import Stream
from apps.objects import change_log
from apps.objects.apply import CHANGES_CHANNEL
from apps.objects.arrays import BinaryCursor, register_arrays
from apps.objects.listing import Logged, read_changes
from apps.objects.notifications import listening
from apps.objects.refusal import cause
from controlplane.apimachinery.errors import Expired, TooManyRequests
from controlplane.wire.table import partial_object_metadata, table
from controlplane.wire.watch import ADDED, DELETED, MODIFIED, bookmark, frame

log_ = logging.getLogger(__name__)

POLL_SECONDS = 1.0  # the safety net under NOTIFY
RECONNECT_SECONDS = 1.0
HAND_OVER_SECONDS = 60.0  # for the event loop to take what was read
CHUNK = 1000  # changes read at once
MAX_PENDING = 2000  # events a stream may lag behind before it is closed; its client comes back where it was
MAX_PER_USER = 5000
BOOKMARK_SECONDS = 30.0
LOGIN_SECONDS = 2.0  # between two looks whether tokens and sessions of streams still count

_NEWEST = """
    SELECT version, coalesce((SELECT floor FROM objects_origin WHERE id = 1), 0) FROM objects_counter WHERE id = 1"""
_VERSION_OF = re.compile(rb'"resourceVersion":"\d+"')


class CatchUp(NamedTuple):
    """Everything up to this version has to be read from the log: the tailer did not read this kind then."""

    version: int


class Event:
    """One change, shared by all streams it goes to: decoded at most once, encoded once per form."""

    __slots__ = ("_frames", "_new", "_old", "change")

    def __init__(self, change: Logged) -> None:
        self.change = change
        self._new: Any = None
        self._old: Any = None
        self._frames: dict[tuple[str, str, str, bool], bytes] = {}

    def judged(self, stream: Stream) -> str:
        """Return ADDED, MODIFIED or DELETED as the stream sees it; "" where it does not concern it."""
        change, choice = self.change, stream.choice
        if choice.namespace and change.namespace != choice.namespace:
            return ""
        if choice.is_everything:
            return change.event
        if choice.name and change.name != choice.name:
            return ""
        if self._new is None:
            self._new = orjson.loads(change.document)
        takes = choice.takes(self._new)
        if change.old_document is None:
            return change.event if takes else ""
        if self._old is None:
            self._old = orjson.loads(change.old_document)
        took = choice.takes(self._old)
        if change.event == DELETED:
            return DELETED if took else ""
        if takes:
            return MODIFIED if took else ADDED
        return DELETED if took else ""

    def frame(self, stream: Stream, event: str, *, definitions: bool) -> bytes:
        """Return the line for a stream."""
        key = (event, stream.convert, stream.include_object, definitions)
        found = self._frames.get(key)
        if found is None:
            found = self._frames[key] = shown(stream, event, self._document(event), definitions=definitions)
        return found

    def _document(self, event: str) -> bytes:
        """Return the object as the event tells it: one that leaves a selection is shown as it was, at this version."""
        change = self.change
        if event != DELETED or change.event == DELETED or change.old_document is None:
            return change.document
        return _VERSION_OF.sub(b'"resourceVersion":"%d"' % change.version, change.old_document, count=1)


def shown(stream: Stream, event: str, document: bytes, *, definitions: bool) -> bytes:
    """Return the line for an object in the stream's form."""
    if stream.convert == "Table":
        decoded = orjson.loads(document)
        meta = {"resourceVersion": decoded["metadata"].get("resourceVersion", "")}
        rows = table(
            stream.resource,
            [decoded],
            now=wall_now(),
            include_object=stream.include_object,
            list_meta=meta,
            definitions=definitions,
            beside=stream.beside,
        )
        document = orjson.dumps(rows)
    elif stream.convert:
        document = orjson.dumps(partial_object_metadata(orjson.loads(document)))
    return frame(event, document)


class Watcher:
    """The queue of one stream."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.seen = stream.since
        self.pending: deque[Event | CatchUp] = deque()
        self.ready = asyncio.Event()
        self.ended = False
        self.error: Expired | None = None  # the last thing to be sent
        self.task = asyncio.current_task()
        self.sending = False
        self.deadline = ticks() + stream.seconds
        self.bookmark_at = ticks() + BOOKMARK_SECONDS
        self._defined = False

    def defines(self) -> bool:
        """Return whether this line is the first one: it brings the columns, clients remember them."""
        first, self._defined = not self._defined, True
        return first

    def put(self, item: Event | CatchUp) -> None:
        """Add what happened; a stream that cannot keep up ends."""
        if self.ended:
            return
        if len(self.pending) >= MAX_PENDING:
            log_.warning(
                "closed a watch of %s by %s: %s events behind", self.stream.kind, self.stream.user, MAX_PENDING
            )
            self.end(now=True)
            return
        self.pending.append(item)
        self.ready.set()

    def end(self, *, now: bool = False) -> None:
        """End the stream, after what is in its queue or at once."""
        self.ended = True
        if now:
            self.pending.clear()
            if self.sending and self.task is not None:
                self.task.cancel()
        self.ready.set()

    def bookmark(self, version: int, *, initial_events_end: bool = False) -> bytes:
        """Return the line that says everything up to a version was sent."""
        resource = self.stream.resource
        is_table = self.stream.convert == "Table"
        return bookmark(
            resource.api_version, resource.kind, version, initial_events_end=initial_events_end, table=is_table
        )


class Batch(NamedTuple):
    """Changes of some kinds, complete between two versions."""

    since: int
    until: int
    kinds: frozenset[str]
    changes: list[Logged]
    lost: bool = False  # the log does not reach back to `since`, or the database was restored since


class Tailer:
    """The reader. `add` and `remove` belong to the event loop it was started on."""

    def __init__(self) -> None:
        self.position = 0  # everything up to here was handed out
        self._watchers: dict[str, set[Watcher]] = {}
        self._users: dict[str, int] = {}
        self._stopping = threading.Event()
        self._ending = False  # streams are ended as soon as they begin
        self._begun: asyncio.Event = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="tailer", daemon=True)
        self._pulses = [self.loop.create_task(self._tick()), self.loop.create_task(self._look_at_logins())]

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    async def stop(self) -> None:
        """End all streams and the thread."""
        self.end_streams()
        self._stopping.set()
        for one in self._pulses:
            one.cancel()
        await asyncio.to_thread(self._thread.join, 3.0)

    def end_streams(self) -> None:
        """Let every client come back later, or to another process; one that comes back here is sent away again."""
        self._ending = True
        for watcher in self._all():
            watcher.end()

    @property
    def count(self) -> int:
        """Return how many streams there are."""
        return sum(map(len, self._watchers.values()))

    async def add(self, watcher: Watcher) -> None:
        """Feed a stream from now on. Raises TooManyRequests where its user has too many."""
        user = watcher.stream.user
        if self._users.get(user, 0) >= MAX_PER_USER:
            raise TooManyRequests(
                f"{user} has {MAX_PER_USER} watches open, which is the limit; close some", retry_after_seconds=5
            )
        self._users[user] = self._users.get(user, 0) + 1
        self._watchers.setdefault(watcher.stream.kind, set()).add(watcher)
        if self._ending:
            watcher.end()
            return
        await self._begun.wait()
        if watcher.seen < self.position:
            watcher.pending.appendleft(CatchUp(self.position))
            watcher.ready.set()

    def remove(self, watcher: Watcher) -> None:
        """Forget a stream."""
        kind, user = watcher.stream.kind, watcher.stream.user
        self._users[user] -= 1
        if not self._users[user]:
            del self._users[user]
        self._watchers[kind].discard(watcher)
        if not self._watchers[kind]:
            del self._watchers[kind]

    def _all(self) -> list[Watcher]:
        return [watcher for watchers in self._watchers.values() for watcher in watchers]

    # On the event loop

    def _hand_out(self, batch: Batch, done: Future[None]) -> None:
        try:
            if batch.lost:
                self._expire(batch)
            else:
                self._spread(batch)
            self.position = batch.until
            self._begun.set()
        finally:
            done.set_result(None)

    def _spread(self, batch: Batch) -> None:
        for change in batch.changes:
            event = Event(change)
            for watcher in self._watchers.get(change.kind, ()):
                if watcher.seen < change.version and event.judged(watcher.stream):
                    watcher.put(event)
        for kind, watchers in self._watchers.items():
            if kind not in batch.kinds:
                for watcher in watchers:
                    watcher.put(CatchUp(batch.until))

    def _expire(self, batch: Batch) -> None:
        for watcher in self._all():
            watcher.error = Expired(f"too old resource version: {watcher.seen} ({batch.until})")
            watcher.end()

    async def _tick(self) -> None:
        """End streams whose time is over, and wake those whose bookmark is due."""
        while True:
            await asyncio.sleep(1.0)
            now = ticks()
            for watcher in self._all():
                if now >= watcher.deadline:
                    watcher.end()
                elif watcher.stream.bookmarks and now >= watcher.bookmark_at:
                    watcher.ready.set()

    async def _look_at_logins(self) -> None:
        """End streams at once whose token or session no longer counts; without the database none is judged."""
        while True:
            await asyncio.sleep(LOGIN_SECONDS)
            asked = {watcher.stream.login for watcher in self._all() if watcher.stream.login is not None}
            try:
                over = await asyncio.to_thread(_ended, asked) if asked else set()
            except Error as error:
                log_.warning("logins of streams cannot be looked at: %s", type(error).__name__)
                continue
            for watcher in self._all():
                if watcher.stream.login in over:
                    watcher.end(now=True)

    # In the thread

    def _run(self) -> None:
        position = -1
        while not self._stopping.is_set():
            try:
                with listening(CHANGES_CHANNEL) as own:
                    position = self._follow(own, position)
            except psycopg.Error as error:
                log_.warning("the change log is not readable at present: %s", cause(error))
                self._stopping.wait(RECONNECT_SECONDS)
            except TimeoutError:  # what was given twice is sent once: streams know what they have seen
                log_.warning("nothing was handed out for %s s: the event loop is busy", HAND_OVER_SECONDS)
            except RuntimeError:  # the event loop is closed: the process ends
                return

    def _follow(self, own: psycopg.Connection[Any], position: int) -> int:
        register_arrays(own)
        with BinaryCursor(own) as cursor:
            if 0 <= position < change_log.oldest(cursor):
                position = self._lose(position, self._newest(cursor)[0])
            while not self._stopping.is_set():
                position = self._read(cursor, position)
                for _ in own.notifies(timeout=POLL_SECONDS, stop_after=1):
                    pass
        return position

    def _newest(self, cursor: BinaryCursor) -> tuple[int, int]:
        """Return the newest version, and the version the counter was raised to after the last restore."""
        row = cursor.run(_NEWEST).fetchone()
        return (0, 0) if row is None else (int(row[0]), int(row[1]))

    def _lose(self, position: int, newest: int) -> int:
        """End all streams with 410: what they have seen may not be what is stored."""
        self._give(Batch(position, newest, frozenset(), [], lost=True))
        return newest

    def _read(self, cursor: BinaryCursor, position: int) -> int:
        """Hand out what was written after a position; return the position then.

        A newest version below the position, or a floor above it, means that the database was restored or emptied.
        """
        newest, floor = self._newest(cursor)
        if position < 0:
            self._give(Batch(newest, newest, frozenset(), []))
            return newest
        if newest < position or position < floor:
            return self._lose(position, newest)
        while position < newest and not self._stopping.is_set():
            kinds = frozenset(list(self._watchers))
            changes = read_changes(cursor, kinds, position, newest, limit=CHUNK) if kinds else []
            until = changes[-1].version if len(changes) == CHUNK else newest
            self._give(Batch(position, until, kinds, changes))
            position = until
        return position

    def _give(self, batch: Batch) -> None:
        done: Future[None] = Future()
        self.loop.call_soon_threadsafe(self._hand_out, batch, done)
        done.result(timeout=HAND_OVER_SECONDS)


def _ended(asked: set[logins.Login]) -> set[logins.Login]:
    try:
        return logins.ended(asked)
    finally:
        close_old_connections()
