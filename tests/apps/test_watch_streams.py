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
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import WORK_NAME_ANNOTATION, WORK_NAMESPACE_ANNOTATION
from controlplane.clusters.questions import Answer, Observe, Target
from tests.apps.proxies import ANYWHERE
from tests.apps.stack import WITHIN
from tests.apps.test_member_watches import MANIFEST, MINE

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
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client closed the connection, or the test has ended
        finally:
            writer.close()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Serve, and yield the URL."""
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()

    @asynccontextmanager
    async def watched(
        self, changed: Callable[[list[Ref]], None] = lambda works: None
    ) -> AsyncIterator[tuple[Watches, Target]]:
        """Serve, and yield watches that follow KEY."""
        client = MemberClient(ANYWHERE)
        async with self.served() as url:
            target, found = Target("member1", url), Watches(client, changed)
            try:
                found.want({KEY: target})
                yield found, target
            finally:
                await found.close()
                await client.close()


ENDED_AT_ONCE = {
    "410": response("410 Gone", GONE),
    "error": response("200 OK", {"type": "ERROR", "object": GONE}),
    "closed": response("200 OK"),
}


@pytest.mark.parametrize("ends", ENDED_AT_ONCE.values(), ids=ENDED_AT_ONCE.keys())
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


def held(version: int, colour: str, **metadata: Any) -> dict[str, Any]:
    """Return the object of MINE on the member."""
    annotations = {WORK_NAMESPACE_ANNOTATION: MINE.namespace, WORK_NAME_ANNOTATION: MINE.name}
    place = {"name": "settings", "namespace": "default", "resourceVersion": str(version), "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**place, **metadata}, "data": {"colour": colour}}


class Events:
    """A watch that sends the events of a queue."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()

    async def __call__(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await writer.drain()
            type_, item = await self.queue.get()
            line = json.dumps({"type": type_, "object": item}).encode() + b"\n"
            writer.write(b"%x\r\n%s\r\n" % (len(line), line))


def _other(version: int) -> dict[str, Any]:
    """Return another object: once it is cached, the events before it have been read."""
    return held(version, "none", name="other")


async def _until_cached(found: Watches, item: dict[str, Any]) -> None:
    async with asyncio.timeout(WITHIN):
        while found.cached("member1", item) is None:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("event", ["MODIFIED", "DELETED"])
def test_an_event_from_before_an_apply_does_not_replace_what_the_apply_returned(event: str) -> None:
    """A busy member reports a change later than it answers an apply that came after the change."""

    async def observed() -> Answer:
        events = Events()
        member = Scripted(events, held(5, "red"))
        async with member.watched() as (found, target):
            await asyncio.wait_for(member.began.get(), WITHIN)
            found.add(target, MANIFEST, held(9, "green"))
            events.queue.put_nowait((event, held(8, "red")))
            events.queue.put_nowait(("ADDED", _other(8)))
            await _until_cached(found, _other(8))
            return found.observe(Observe("member1", MANIFEST))

    answer = asyncio.run(observed())

    assert (answer.code, (answer.body or {}).get("data")) == (200, {"colour": "green"})


def test_an_event_from_after_an_apply_counts() -> None:
    async def observed() -> list[Answer]:
        events, answers = Events(), []
        member = Scripted(events, held(5, "red"))
        async with member.watched() as (found, target):
            await asyncio.wait_for(member.began.get(), WITHIN)
            found.add(target, MANIFEST, held(9, "green"))
            for version, (type_, colour) in enumerate((("MODIFIED", "blue"), ("DELETED", "blue")), 10):
                events.queue.put_nowait((type_, held(version, colour)))
                events.queue.put_nowait(("ADDED", held(version, "none", name=type_.lower())))
                await _until_cached(found, held(version, "none", name=type_.lower()))
                answers.append(found.observe(Observe("member1", MANIFEST)))
        return answers

    changed, deleted = asyncio.run(observed())

    assert (changed.body["data"], deleted.code) == ({"colour": "blue"}, 404)


def test_changes_are_reported_although_the_annotations_that_name_the_work_were_removed() -> None:
    """A user of the member replaces the object by a manifest without our annotations, and changes it once more."""

    async def reports() -> list[list[Ref]]:
        events, reported = Events(), asyncio.Queue[list[Ref]]()
        async with Scripted(events, held(5, "red")).watched(changed=reported.put_nowait):
            for version in (6, 7):
                events.queue.put_nowait(("MODIFIED", held(version, "blue", annotations={})))
            return [await asyncio.wait_for(reported.get(), WITHIN) for _ in range(3)]

    assert asyncio.run(reports()) == [[MINE]] * 3
