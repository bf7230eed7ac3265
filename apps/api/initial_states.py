"""Initial states: the objects that a watch sends first, read once for all streams that begin at the same version."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence

from controlplane.apimachinery.errors import TooManyRequests

RETRY_SECONDS = 2


class InitialState:
    """Objects as JSON and the version at which they were read. Freed when no stream refers to it."""

    __slots__ = ("__weakref__", "size", "texts", "version")

    def __init__(self, texts: Sequence[bytes], version: int) -> None:
        self.texts = texts
        self.version = version
        self.size = sum(map(len, texts))


class Lock:
    """A lock that disappears when no thread refers to it."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()


class InitialStates:
    """The initial states that streams of this process have not finished sending. May be called from any thread."""

    def __init__(self, *, limit: int) -> None:
        self.limit = limit  # bytes
        self._lock = threading.Lock()
        self._reading: weakref.WeakValueDictionary[object, Lock] = weakref.WeakValueDictionary()
        self._shared: weakref.WeakValueDictionary[object, InitialState] = weakref.WeakValueDictionary()

    @property
    def size(self) -> int:
        """Return the bytes in use."""
        return sum(state.size for state in list(self._shared.values()))

    def reading(self, key: object) -> Lock:
        """Return the lock for reading a selection. A thread that waited for the lock finds the state already read."""
        with self._lock:
            return self._reading.setdefault(key, Lock())

    def find(self, key: object, version: int) -> InitialState | None:
        """Return the state of a selection that was read at this version; None: it has to be read."""
        state = self._shared.get(key)
        return state if state is not None and state.version == version else None

    def add(self, key: object, texts: Sequence[bytes], version: int) -> InitialState:
        """Return the state to send. It is shared if another thread has read the same state.

        Raises TooManyRequests if the streams of this process would have more than `limit` bytes left to send. A single
        state above the limit is allowed, because a watch cannot be read in pages.
        """
        with self._lock:
            if found := self.find(key, version):
                return found
            state = InitialState(texts, version)
            if (used := self.size) and used + state.size > self.limit:
                raise TooManyRequests(
                    f"the watches of this API process have {self.limit // (1024 * 1024)} MiB of initial objects left "
                    "to send, which is the limit (LIFEBOAT_API_BUFFER_MIB); read from the open watches, or try again",
                    retry_after_seconds=RETRY_SECONDS,
                )
            # An older state under the same key stays with its streams, and still counts, under another key.
            if (older := self._shared.get(key)) is not None:
                self._shared[(key, older.version)] = older
            self._shared[key] = state
            return state
