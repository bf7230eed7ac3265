"""Pushes: streams of server-sent events to browsers. The view decides what is sent and `shell` sends it.

A push counts among the watches of its user and ends as they do: at its deadline, with its login, or when the server
stops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from apps.api.authorization import Attributes
from apps.api.handed_over import HandedOver
from apps.api.logins import Login

SECONDS = 3600.0  # longest push; the browser connects again by itself


class Source(Protocol):
    """Where the events of pushes come from."""

    def open(self, wake: Callable[[], None]) -> None:
        """Begin. From now on `wake` is called, from any thread, whenever `take` has something."""

    def take(self) -> bytes:
        """Return the events since the last call, as text/event-stream; b"": there are none. Does not wait."""

    def close(self) -> None:
        """End."""


class Push(msgspec.Struct, kw_only=True):
    """An authorised push. The fields without a comment are those that a Stream has as well."""

    allowed: Attributes
    login: Login | None
    source: Source
    kind: str = ""  # no kind: the watch hub hands no changes to a push
    since: int = 0
    bookmarks: bool = False
    seconds: float = SECONDS

    @property
    def user(self) -> str:
        """The name of the user whose push this is."""
        username: str = self.allowed.user.get_username()
        return username


class PushResponse(HandedOver):
    """A response whose body is a stream of events. A server without the shell sends an error instead."""

    def __init__(self, push: Push) -> None:
        super().__init__("live pages need")
        self.push = push
