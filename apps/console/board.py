"""Board: notifies the streams of this process which subjects have changed, at most once a second.

One thread reads, while at least one browser is connected: the newest lines of the change log (kinds and references),
and the numbers of the row-native tables (`objects_topic`), which triggers raise with every statement that changes a
table. It makes at most three queries a second, whatever the number of browsers.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final

from django.db import Error, close_old_connections, connection

from apps.api.clock import ticks
from controlplane.apimachinery.meta import Ref

log = logging.getLogger(__name__)

EVERY_SECONDS: Final = 1.0
SILENT_SECONDS: Final = 5.0  # after this silence parts are compared again, and proxies get a sign of life
RECENT_SECONDS: Final = 10.0  # a page opens its stream within this time after it was rendered
MAX_REFS: Final = 2000  # references that are read at once; beyond that every subject counts as changed
EVERYTHING: Final = "*"  # the subject of a change that may concern every page
HANGS_SECONDS: Final = 8.0  # a reading that lasts longer waits for a database that hangs
AWAY: Final = "!"  # the subject while the database cannot be read

_NEWEST: Final = "SELECT version FROM objects_counter WHERE id = 1"
_CHANGED: Final = """
    SELECT DISTINCT kind, namespace, name FROM objects_changelog WHERE version > %s AND version <= %s LIMIT %s"""
_TOPICS: Final = "SELECT name, number FROM objects_topic"

Notify = Callable[[frozenset[str], int], None]
"""Called in the thread of the board with the subjects that have changed and the number of the round."""


class Board:
    """The board of a process. May be used from any thread."""

    def __init__(self) -> None:
        self._readers: set[Notify] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._reads_since = 0.0  # ticks at which the present thread began
        self._reading_since: float | None = None  # ticks at which the present reading began; None: nothing is read
        self._recent = deque[tuple[float, frozenset[str]]]()  # what was notified of late, and when
        self._has_joined = False  # a reader came after the last notice
        self._rounds = count()  # goes on when a new thread begins, so that no round has the number of another
        self.begun = threading.Event()  # set when the board has read for the first time since a reader came
        self.ended = threading.Event()  # set while no thread runs
        self._left = threading.Event()  # set when the last reader has left

    def join(self, reader: Notify) -> frozenset[str]:
        """Notify a reader of changes from now on. Return the subjects that may have changed since its page was made.

        These are the subjects of the last RECENT_SECONDS. EVERYTHING: the board has not been reading for that long. The
        reader is also notified once soon, and with an empty set of subjects to keep it awake.
        """
        with self._lock:
            self._readers.add(reader)
            self._has_joined = True
            self._left.clear()
            if self._thread is None:
                self.begun.clear()
                self.ended.clear()
                self._recent.clear()
                self._reads_since = ticks()
                self._thread = threading.Thread(target=self._run, name="board", daemon=True)
                self._thread.start()
            now = ticks()
            if now - self._reads_since < RECENT_SECONDS:
                return frozenset((EVERYTHING,))
            return frozenset().union(*(subjects for at, subjects in self._recent if now - at < RECENT_SECONDS))

    def hangs(self) -> bool:
        """Test whether the database has not answered the board for long. False if no browser is connected."""
        since = self._reading_since
        return since is not None and ticks() - since > HANGS_SECONDS

    def leave(self, reader: Notify) -> None:
        """Stop notifying a reader. Without readers the board stops reading."""
        with self._lock:
            self._readers.discard(reader)
            if not self._readers:
                self._left.set()

    def _run(self) -> None:
        seen, sent_at = _Seen(), ticks()
        for round_ in self._rounds:
            with self._lock:
                if not self._readers:
                    self._thread = None
                    self.ended.set()
                    return
                has_joined, self._has_joined = self._has_joined, False
            subjects = self._read(seen)
            self.begun.set()
            if subjects or has_joined or ticks() - sent_at >= SILENT_SECONDS:
                sent_at = ticks()
                self._notify(frozenset((AWAY,)) if seen.lost else subjects, round_)
            self._left.wait(EVERY_SECONDS)

    def _notify(self, subjects: frozenset[str], round_: int) -> None:
        with self._lock:
            readers, now = list(self._readers), ticks()
            while self._recent and now - self._recent[0][0] >= RECENT_SECONDS:
                self._recent.popleft()
            if subjects:
                self._recent.append((now, subjects))
        for reader in readers:
            try:
                reader(subjects, round_)
            except Exception:
                log.exception("a live page could not be renewed; the next change tries again")
        close_old_connections()

    def _read(self, seen: _Seen) -> frozenset[str]:
        """Return the subjects that have changed. AWAY when the database goes; EVERYTHING when it is back."""
        self._reading_since = ticks()
        try:
            return frozenset(seen.changes())
        except Error as error:
            if not seen.lost:
                log.warning("live pages wait for the database: %s", type(error).__name__)
            first, seen.lost = not seen.lost, True
            return frozenset((AWAY,) if first else ())
        finally:
            self._reading_since = None
            close_old_connections()


class _Seen:
    """What the board has read last."""

    def __init__(self) -> None:
        self.version = -1
        self.numbers: dict[str, int] = {}
        self.lost = False

    def changes(self) -> Iterable[str]:
        """Return the subjects that have changed since the last call. Raises django.db.Error."""
        with connection.cursor() as cursor:
            cursor.execute(_NEWEST)
            (newest,) = cursor.fetchone() or (0,)
            cursor.execute(_TOPICS)
            numbers = dict(cursor.fetchall())
            refs: list[tuple[str, str, str]] = []
            if 0 <= self.version < newest:
                cursor.execute(_CHANGED, (self.version, newest, MAX_REFS + 1))
                refs = cursor.fetchall()
        found = (
            {name for name, number in numbers.items() if self.numbers.get(name) != number}
            if self.version >= 0
            else set()
        )
        if self.lost or newest < self.version or len(refs) > MAX_REFS:
            found = {EVERYTHING}
        found |= {kind for kind, _, _ in refs} | {str(Ref(*ref)) for ref in refs}
        self.version, self.numbers, self.lost = newest, numbers, False
        return found


BOARD: Final = Board()
