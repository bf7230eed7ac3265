"""Watch hub: one thread per process reads the change log and fills the queues of all streams.

The thread listens and reads; everything else runs on the event loop. Versions are committed in order. A stream that has
seen version N has therefore seen every change before N, and its position is a single number.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import psycopg
from django.db import Error, close_old_connections

from apps.api import logins
from apps.api.clock import ticks
from apps.api.outgoing import chunk_of
from apps.api.proxy import Proxied
from apps.api.pushes import Push
from apps.api.streams import Stream
from apps.api.wakeup import Wakeup
from apps.api.watch_events import Event
from apps.objects import change_log
from apps.objects.arrays import BinaryCursor, register_arrays
from apps.objects.definitions import definitions
from apps.objects.encryption import KINDS as SEALED
from apps.objects.encryption import SealError
from apps.objects.instruments import STREAMS
from apps.objects.listing import Logged, read_changes
from apps.objects.notifications import listening, received
from apps.objects.refusal import cause
from apps.objects.transaction import CHANGES_CHANNEL
from controlplane.apimachinery.errors import Expired, TooManyRequests
from controlplane.kinds import DEFINITION
from controlplane.wire.watch import bookmark

log_ = logging.getLogger(__name__)

POLL_SECONDS = 1.0  # the log is also read this often without a NOTIFY
RECONNECT_SECONDS = 1.0
HAND_OVER_SECONDS = 60.0  # the event loop has this long to take a batch
CHUNK = 1000  # changes read at once
MAX_PENDING = 2000  # a stream that is more events behind is closed; its client resumes where it was
MAX_PER_USER = 5000
BOOKMARK_SECONDS = 30.0
LOGIN_SECONDS = 0.7  # between two checks of the tokens and sessions of streams

_NEWEST = """
    SELECT version, coalesce((SELECT floor FROM objects_origin WHERE id = 1), 0) FROM objects_counter WHERE id = 1"""


class CatchUp(NamedTuple):
    """The stream must read the log up to this version itself, because the tailer did not read its kind then."""

    version: int


UNWATCHED_SECONDS = 0.05  # between two reads of the log while no stream is open


class Watcher:
    """The queue of one stream, with its position and deadlines."""

    __slots__ = (
        *("_defined", "bookmark_at", "computed", "deadline", "ended", "error", "pending", "ready", "seen", "sending"),
        *("stream", "task", "waits", "write"),
    )

    def __init__(self, stream: Stream | Push | Proxied) -> None:
        self.stream: Any = stream
        self.seen = stream.since
        self.computed = getattr(stream, "compute", None) is not None  # the log has no changes of its kind
        self.pending: list[Any] = []  # Event, CatchUp, Step of `computed_watches`; an empty deque takes 0.7 KB
        self.ready = Wakeup()
        self.write: Callable[[bytes], bool] | None = None  # sends at once; None: only the task of the stream sends
        self.waits = False  # the task of the stream waits for `ready`
        self.ended = False
        self.error: Expired | None = None  # sent last, before the stream ends
        self.task = asyncio.current_task()
        self.sending = False
        self.deadline = ticks() + stream.seconds
        self.bookmark_at = ticks() + BOOKMARK_SECONDS
        self._defined = False

    def defines(self) -> bool:
        """Return whether this is the first line, which has the column definitions. Clients remember them."""
        first, self._defined = not self._defined, True
        return first

    def is_behind(self, version: int) -> bool:
        """Test whether the task has to send what comes next: it is sending, or was sent changes after `version`."""
        return not self.waits or self.ready.is_set() or self.seen >= version or self.ended

    def put(self, item: Any) -> None:
        """Add an event. A stream that is too far behind ends."""
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
        """End the stream: after the events in its queue, or at once with `now`."""
        self.ended = True
        if now:
            self.pending.clear()
            if self.sending and self.task is not None:
                self.task.cancel()
        self.ready.set()

    def bookmark(self, version: int, *, initial_events_end: bool = False) -> bytes:
        """Return the bookmark line: everything up to this version was sent."""
        stream, resource = self.stream, self.stream.resource
        return bookmark(
            resource.api_version, resource.kind, version, initial_events_end=initial_events_end, form=stream.convert
        )


class Audience:
    """The streams that select the same objects and show them in the same form. So a change is encoded once for all."""

    __slots__ = ("is_plain", "stream", "watchers")

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        # The lines of a plain audience depend on nothing but the change.
        self.is_plain = isinstance(stream, Stream) and stream.convert != "Table" and stream.served is None
        self.watchers: set[Watcher] = set()

    def spread(self, events: Sequence[Event]) -> None:
        """Hand changes to all streams: send them, or queue them for the streams that cannot take them now."""
        selected = [(event, type_) for event in events if (type_ := event.type_for(self.stream))]
        if not selected:
            return
        first, last = selected[0][0].change.version, selected[-1][0].change.version
        chunk = b""
        if self.is_plain:
            lines = (event.frame(self.stream, type_, definitions=False) for event, type_ in selected)
            chunk = chunk_of(b"".join(lines))
        for watcher in list(self.watchers):
            if chunk and watcher.write is not None and not watcher.is_behind(first) and watcher.write(chunk):
                watcher.seen = last
                continue
            for event, _ in selected:
                if watcher.seen < event.change.version:
                    watcher.put(event)


def audience_of(stream: Any) -> Hashable:
    """Return what the streams of an audience have in common; None: a push, which has no changes."""
    if not isinstance(stream, Stream):
        return None
    served = stream.served and stream.served.resource.api_version
    return repr(stream.choice), stream.convert, stream.include_object, stream.resource.version, served


class Batch(NamedTuple):
    """All changes of some kinds between two versions."""

    since: int
    until: int
    kinds: frozenset[str]
    changes: list[Logged]
    lost: bool = False  # the log no longer contains `since`, or the database was restored


class Tailer:
    """The reader of the log. Call `add` and `remove` only on the event loop that created it."""

    def __init__(self) -> None:
        self.position = 0  # changes up to this version were handed out
        self.moved: list[Callable[[], None]] = []  # called after `position` has changed
        self._read_up_to = -1  # the thread has read changes up to this version; -1: none yet
        self._audiences: dict[str, dict[Hashable, Audience]] = {}
        self._users: dict[str, int] = {}
        self._stopping = threading.Event()
        self._ending = False  # new streams end at once
        self._begun: asyncio.Event = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="tailer", daemon=True)
        self._tasks = [self.loop.create_task(self._tick()), self.loop.create_task(self._check_logins())]

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    async def stop(self) -> None:
        """End all streams and the thread."""
        self.end_streams()
        self._stopping.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.to_thread(self._thread.join, 3.0)

    def end_streams(self) -> None:
        """End all streams and every new stream, so that clients reconnect to another process or later."""
        self._ending = True
        for watcher in self._all():
            watcher.end()

    @property
    def count(self) -> int:
        """Return the number of streams."""
        return sum(len(audience.watchers) for audiences in self._audiences.values() for audience in audiences.values())

    async def add(self, watcher: Watcher) -> None:
        """Send changes to a stream from now on. Raises TooManyRequests if its user has MAX_PER_USER watches."""
        user = watcher.stream.user
        if self._users.get(user, 0) >= MAX_PER_USER:
            raise TooManyRequests(
                f"{user} has {MAX_PER_USER} watches open, which is the limit; close some", retry_after_seconds=5
            )
        self._users[user] = self._users.get(user, 0) + 1
        audiences = self._audiences.setdefault(watcher.stream.kind, {})
        key = audience_of(watcher.stream)
        if key not in audiences:
            audiences[key] = Audience(watcher.stream)
        audiences[key].watchers.add(watcher)
        STREAMS.labels(_label_of(watcher)).inc()
        if self._ending:
            watcher.end()
            return
        await self._begun.wait()
        if getattr(watcher.stream, "defined", None) is not None:
            # Changes of definitions up to here may have been read while nothing was watched.
            try:
                await asyncio.to_thread(_read_definitions)
            except Error as error:
                log_.warning("ended a watch, because its definition cannot be read: %s", cause(error))
                watcher.end()
            self._end_outdated()
        if watcher.seen < self.position and not watcher.computed and not watcher.ended:
            watcher.pending.insert(0, CatchUp(self.position))
            watcher.ready.set()

    def remove(self, watcher: Watcher) -> None:
        """Send no more changes to a stream."""
        kind, user = watcher.stream.kind, watcher.stream.user
        self._users[user] -= 1
        if not self._users[user]:
            del self._users[user]
        key, audiences = audience_of(watcher.stream), self._audiences[kind]
        audiences[key].watchers.discard(watcher)
        STREAMS.labels(_label_of(watcher)).dec()
        if not audiences[key].watchers:
            del audiences[key]
        if not audiences:
            del self._audiences[kind]

    def _all(self) -> list[Watcher]:
        return [
            watcher
            for audiences in self._audiences.values()
            for audience in audiences.values()
            for watcher in audience.watchers
        ]

    # On the event loop

    def _hand_out(self, batch: Batch, done: Future[None]) -> None:
        try:
            if batch.lost:
                self._expire(batch)
            else:
                self._spread(batch)
            self.position = batch.until
            self._begun.set()
            for call in self.moved:
                call()
        finally:
            done.set_result(None)

    def _spread(self, batch: Batch) -> None:
        events: dict[str, list[Event]] = {}
        for change in batch.changes:
            events.setdefault(change.kind, []).append(Event(change))
        if DEFINITION in events:
            self._end_outdated()
        for kind, audiences in self._audiences.items():
            for audience in audiences.values():
                if kind in batch.kinds:
                    audience.spread(events.get(kind, ()))
                else:
                    for watcher in audience.watchers:
                        if not watcher.computed:
                            watcher.put(CatchUp(batch.until))

    def _end_outdated(self) -> None:
        """End the streams whose definition has changed. They would show objects as the old definition does.

        Clients resume after the last change that they have seen, by the new definition.
        """
        for watcher in self._all():
            if getattr(watcher.stream, "is_outdated", False):
                watcher.end()

    def _expire(self, batch: Batch) -> None:
        for watcher in self._all():
            watcher.error = Expired(f"too old resource version: {watcher.seen} ({batch.until})")
            watcher.end()

    async def _tick(self) -> None:
        """End streams at their deadline, and wake streams whose bookmark is due."""
        while True:
            await asyncio.sleep(1.0)
            now = ticks()
            for watcher in self._all():
                if now >= watcher.deadline:
                    watcher.end()
                elif watcher.stream.bookmarks and now >= watcher.bookmark_at:
                    watcher.ready.set()

    async def _check_logins(self) -> None:
        """End streams whose token or session is no longer valid. While the database is away, no stream is ended."""
        while True:
            await asyncio.sleep(LOGIN_SECONDS)
            logins_ = {watcher.stream.login for watcher in self._all() if watcher.stream.login is not None}
            try:
                ended = await asyncio.to_thread(_ended, logins_) if logins_ else set()
            except Error as error:
                log_.warning("the logins of streams cannot be checked: %s", type(error).__name__)
                continue
            for watcher in self._all():
                if watcher.stream.login in ended:
                    watcher.end(now=True)

    # In the thread

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with listening(CHANGES_CHANNEL) as own:
                    self._follow(own)
            except (psycopg.Error, Error) as error:
                log_.warning("the change log cannot be read: %s", cause(error))
                self._stopping.wait(RECONNECT_SECONDS)
            except TimeoutError:  # a batch handed out twice is sent once, because streams know their position
                log_.warning("the event loop took no changes for %s s", HAND_OVER_SECONDS)
            except RuntimeError:  # the event loop is closed: the process ends
                return

    def _follow(self, own: psycopg.Connection[Any]) -> None:
        """Read until the process stops or the connection breaks. The next connection goes on where this one ended."""
        register_arrays(own)
        with BinaryCursor(own) as cursor:
            if 0 <= self._read_up_to < change_log.oldest(cursor):
                self._read_up_to = self._lose(self._read_up_to, self._newest(cursor)[0])
            while not self._stopping.is_set():
                self._read_up_to = self._read(cursor, self._read_up_to)
                received(own, POLL_SECONDS)
                if not self._audiences:  # nothing waits for the changes, so the log is not read after each of them
                    self._stopping.wait(UNWATCHED_SECONDS)

    def _newest(self, cursor: BinaryCursor) -> tuple[int, int]:
        """Return the newest version, and the version the counter was raised to after the last restore."""
        row = cursor.run(_NEWEST).fetchone()
        return (0, 0) if row is None else (int(row[0]), int(row[1]))

    def _lose(self, position: int, newest: int) -> int:
        """End all streams with 410, because they may have seen changes that are not stored any more."""
        self._give(Batch(position, newest, frozenset(), [], lost=True))
        return newest

    def _read(self, cursor: BinaryCursor, position: int) -> int:
        """Hand out the changes after a position; return the new position.

        If the newest version is below the position, or the floor above it, the database was restored or emptied.
        """
        newest, floor = self._newest(cursor)
        if position < 0:
            self._give(Batch(newest, newest, frozenset(), []))
            return newest
        if newest < position or position < floor:
            return self._lose(position, newest)
        while position < newest and not self._stopping.is_set():
            kinds, changes = self._changes(cursor, position, newest)
            if any(change.kind == DEFINITION for change in changes):
                _read_definitions()  # before the changes are handed out, because objects may have another form now
            until = changes[-1].version if len(changes) == CHUNK else newest
            self._give(Batch(position, until, kinds, changes))
            position = until
        return position

    def _changes(self, cursor: BinaryCursor, position: int, newest: int) -> tuple[frozenset[str], list[Logged]]:
        """Return the kinds that are watched and can be read, and their changes after a position.

        A change with a Secret that this process has no key for concerns only the streams of such kinds: they read it
        themselves, and end with the error.
        """
        kinds = frozenset(list(self._audiences))
        if not kinds:
            return kinds, []
        kinds |= {DEFINITION}
        try:
            return kinds, read_changes(cursor, kinds, position, newest, limit=CHUNK)
        except SealError as error:
            log_.error("watches of %s end: %s", " and ".join(sorted(SEALED)), error)
            kinds -= SEALED
            return kinds, read_changes(cursor, kinds, position, newest, limit=CHUNK)

    def _give(self, batch: Batch) -> None:
        done: Future[None] = Future()
        self.loop.call_soon_threadsafe(self._hand_out, batch, done)
        done.result(timeout=HAND_OVER_SECONDS)


def _read_definitions() -> None:
    """Read the definitions of custom kinds. Raises the error of the database."""
    try:
        definitions().refresh(at_once=True)
    finally:
        close_old_connections()


def _label_of(watcher: Watcher) -> str:
    """Return the label of a stream in metrics."""
    return "browser" if isinstance(watcher.stream, Push) else "watch"


def _ended(streams: set[logins.Login]) -> set[logins.Login]:
    try:
        return logins.ended(streams)
    finally:
        close_old_connections()
