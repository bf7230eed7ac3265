"""Fair turns: requests of different clients alternate, so that a client with many requests delays no other client.

A client is a user, or an address without a login. It also has a number of requests per second.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from apps.api.client_certificates import certificate_of
from apps.api.clock import ticks
from apps.api.incoming import Scope
from controlplane.apimachinery.errors import TooManyRequests

RETRY_SECONDS = 1
BURST_SECONDS = 2.0  # a client that was idle may send the requests of this time at once
MOST_KNOWN = 10_000  # credentials that a process remembers
_CREDENTIALS = (b"authorization", b"cookie")


class Turns:
    """A number of slots, given to waiting clients in turn. Only the event loop may use it, because nothing is locked.

    `slots`: requests that are processed at the same time. `per_client`: requests of one client that may wait. Among the
    requests of a client the first to come is the first to be processed.
    """

    def __init__(self, slots: int, *, per_client: int) -> None:
        self.free = slots
        self.per_client = per_client
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, client: str) -> AsyncIterator[None]:
        """Wait for a slot and hold it. Raises TooManyRequests if too many requests of the client wait already."""
        await self._acquire(client)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, client: str) -> None:
        if self.free:
            self.free -= 1
            return
        queue = self._queues.setdefault(client, deque())
        if len(queue) >= self.per_client:
            raise TooManyRequests(
                f"{self.per_client} requests of this client wait for a turn, which is the limit for a client; "
                "send fewer requests at once",
                retry_after_seconds=RETRY_SECONDS,
            )
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()  # the slot was given to this request, which no longer needs it
            raise

    def _release(self) -> None:
        """Give the slot to the next client that waits, and put this client behind all others."""
        while self._queues:
            client, queue = self._queues.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._queues[client] = queue
            if not turn.done():
                turn.set_result(None)
                return
        self.free += 1


class Rates:
    """The requests per second of each client, over two seconds. Only the event loop may use it.

    `per_second` 0: as many as come. A client is kept as the time at which it has used up nothing, so that a client that
    sends nothing for two seconds is forgotten.
    """

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._ends: dict[str, float] = {}

    def allows(self, client: str) -> bool:
        """Test whether a client may send a request now."""
        return not self._per_second or self._ends.get(client, 0.0) <= ticks() + BURST_SECONDS

    def spend(self, client: str) -> None:
        """Count a request of a client."""
        if self._per_second:
            now = ticks()
            if len(self._ends) >= MOST_KNOWN:
                self._ends = {client: ends for client, ends in self._ends.items() if ends > now}
            self._ends[client] = max(now, self._ends.get(client, 0.0)) + 1 / self._per_second

    def check(self, client: str) -> None:
        """Count a request of a client. Raises TooManyRequests, and counts nothing, if it sends too many."""
        if not self.allows(client):
            raise TooManyRequests(
                f"this client sent more than {self._per_second} requests per second, which is the limit for a client "
                "(LIFEBOAT_API_REQUESTS_PER_SECOND); send fewer requests, or watch instead of reading again",
                retry_after_seconds=RETRY_SECONDS,
            )
        self.spend(client)


def client_of(user: str) -> str:
    """Return the client that a user is."""
    return f"user {user}"


class Clients:
    """Distinguishes clients before a login is checked: by the user of credentials that were valid, else by address.

    Invented credentials therefore give an address no additional turns. Credentials are kept as hashes.
    """

    def __init__(self, *, most: int = MOST_KNOWN) -> None:
        self._most = most
        self._known: OrderedDict[str, str] = OrderedDict()

    def of(self, scope: Scope) -> str:
        """Return the client of a request."""
        return self._known.get(_credentials(scope)) or str((scope.get("client") or ("",))[0])

    def remember(self, scope: Scope, user: str) -> None:
        """Note that the credentials of a request are a user's. The ones used least recently are forgotten first."""
        if credentials := _credentials(scope):
            self._known[credentials] = client_of(user)
            self._known.move_to_end(credentials)
            if len(self._known) > self._most:
                self._known.popitem(last=False)


def _credentials(scope: Scope) -> str:
    """Return the hash of the credentials of a request; "": it has none."""
    given = b"\0".join(value for name, value in scope["headers"] if name in _CREDENTIALS)
    given += certificate_of(scope) or b""
    return hashlib.sha256(given).hexdigest() if given else ""
