"""The streams of watches, on a member whose lists and watches a test scripts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import pytest

from apps.clusters.client import MemberClient
from apps.members import watches
from apps.members.watches import Watches
from controlplane.clusters.questions import Target
from tests.apps.proxies import ANYWHERE
from tests.apps.stack import WITHIN

KEY = ("member1", "v1", "ConfigMap")
GONE = {"kind": "Status", "code": 410, "metadata": {}}

Serve = Callable[[asyncio.StreamWriter], Awaitable[None]]


def response(status: str, document: Any = None) -> bytes:
    """Return a whole response. `document` None: it has no body."""
    body = b"" if document is None else json.dumps(document).encode() + b"\n"
    return b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        status.encode(),
        len(body),
        body,
    )


class Scripted:
    """A member with a list of one kind. `watch` answers each watch; `began` has the times at which watches began."""

    def __init__(self, watch: Serve, *items: dict[str, Any], version: str = "5") -> None:
        self.listed = {"items": list(items), "metadata": {"resourceVersion": version}}
        self.watch = watch
        self.began: asyncio.Queue[float] = asyncio.Queue()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if b"watch=true" in head:
                    self.began.put_nowait(monotonic())
                    await self.watch(writer)
                else:
                    writer.write(response("200 OK", self.listed))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client closed the connection
        finally:
            writer.close()

    @asynccontextmanager
    async def watched(self, **reports: Any) -> AsyncIterator[tuple[Watches, Target]]:
        """Serve, and yield watches that follow KEY."""
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        target = Target("member1", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        client = MemberClient(ANYWHERE)
        found = Watches(client, reports.get("changed", lambda works: None), reports.get("read", lambda key: None))
        try:
            found.want({KEY: target})
            yield found, target
        finally:
            await found.close()
            await client.close()
            server.close()


@pytest.mark.parametrize(
    "ends",
    [response("410 Gone", GONE), response("200 OK", {"type": "ERROR", "object": GONE}), response("200 OK")],
    ids=["410", "error", "closed"],
)
def test_a_member_that_ends_every_watch_at_once_is_asked_again_after_a_pause(
    ends: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "RETRY_SECONDS", 0.2)

    async def at_once(writer: asyncio.StreamWriter) -> None:
        writer.write(ends)

    async def begin_thrice() -> list[float]:
        member = Scripted(at_once)
        async with member.watched():
            return [await asyncio.wait_for(member.began.get(), WITHIN) for _ in range(3)]

    first, _, third = asyncio.run(begin_thrice())

    assert third - first > watches.RETRY_SECONDS, "two pauses are expected, less what requests take"
