"""Memory budget of one API process: limits on the bytes of request bodies and answers that are in progress."""

from __future__ import annotations

from controlplane.apimachinery.errors import TooManyRequests

ANONYMOUS = ""  # the account of callers without a login
RETRY_SECONDS = 1
MIB = 1024 * 1024


class Budget:
    """Bytes in use, by account. Only the event loop may use it, because nothing is locked.

    `limit`: bytes for all accounts together. `share`: bytes for one user. `anonymous`: bytes for all callers without a
    login together, so that they cannot use the memory that users need.
    """

    def __init__(self, *, limit: int, share: int, anonymous: int) -> None:
        self.limit = limit
        self.share = share
        self.anonymous = anonymous
        self.used = 0
        self._accounts: dict[str, int] = {}

    def of(self, user: str) -> int:
        """Return the bytes in use for one user."""
        return self._accounts.get(user, 0)

    def hold(self, user: str) -> Hold:
        """Return an empty hold on the account of a user."""
        return Hold(self, user)

    def take(self, user: str, size: int) -> None:
        """Add bytes to an account. Raises TooManyRequests if the account or the process would exceed its limit."""
        most = self.anonymous if user == ANONYMOUS else self.share
        if self.of(user) + size > most:
            account = f"user {user}" if user else "clients without a login"
            raise TooManyRequests(
                f"{account} may have {most // MIB} MiB of requests and answers in progress at the same time, and that "
                "limit is reached; try again, read lists in pages (limit=500), send fewer requests at once",
                retry_after_seconds=RETRY_SECONDS,
            )
        if self.used + size > self.limit:
            raise TooManyRequests(
                f"this API process has {self.limit // MIB} MiB of requests and answers in progress, which is its "
                "limit (LIFEBOAT_API_BUFFER_MIB); try again",
                retry_after_seconds=RETRY_SECONDS,
            )
        self._accounts[user] = self.of(user) + size
        self.used += size

    def subtract(self, user: str, size: int) -> None:
        """Subtract bytes from an account."""
        left = self.of(user) - size
        self.used -= size
        if left:
            self._accounts[user] = left
        else:
            self._accounts.pop(user, None)


class Hold:
    """The bytes that one request uses. Call `release` in every case. A second call has no effect."""

    __slots__ = ("_budget", "size", "user")

    def __init__(self, budget: Budget, user: str) -> None:
        self._budget = budget
        self.user = user
        self.size = 0

    def grow(self, size: int) -> None:
        """Add bytes. Raises TooManyRequests and then adds nothing."""
        if size:
            self._budget.take(self.user, size)
            self.size += size

    def move_to(self, user: str) -> None:
        """Move the bytes to the account of the identified caller. Raises TooManyRequests."""
        size = self.size
        self.release()
        self.user = user
        self.grow(size)

    def release(self) -> None:
        """Subtract all bytes from the account."""
        if self.size:
            self._budget.subtract(self.user, self.size)
            self.size = 0
