"""A list of a member is read page by page: in smaller pages where objects are large, and never for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest
from msgspec.structs import replace

from apps.clusters.client import TOKEN_CHARACTERS, MemberClient
from controlplane.clusters.questions import Answer, Target
from tests.apps.proxies import ANYWHERE, HOST
from tests.apps.test_client import CONFIG_MAPS

LONGEST = 20_000  # bytes of an answer that the clients of these tests read
Page = Callable[[int, str], tuple[list[dict[str, Any]], str]]


class Lists:
    """A member that serves one list. `page` returns the objects and the next continue token for a limit and a token."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.limits: list[int] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                query = parse_qs(urlsplit(head.split()[1]).query)
                self.limits.append(int(query["limit"][0]))
                items, token = self.page(self.limits[-1], query.get("continue", [""])[0])
                metadata = {"resourceVersion": "7", **({"continue": token} if token else {})}
                body = orjson.dumps({"items": items, "metadata": metadata})
                reported = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(reported.encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()  # the client went, or did not read on

    def read(self) -> tuple[list[str], str] | Answer:
        """Return what a client makes of the list: the names of its objects, and the resourceVersion."""

        async def story() -> tuple[list[str], str] | Answer:
            client = MemberClient(replace(ANYWHERE, answer_bytes=LONGEST))
            server = await asyncio.start_server(self.serve, HOST, 0, limit=100_000)
            where = Target("member1", f"http://{HOST}:{server.sockets[0].getsockname()[1]}")
            try:
                return await client.list(where, CONFIG_MAPS, keep=lambda item: str(item["metadata"]["name"]))
            finally:
                server.close()
                await client.close()

        return asyncio.run(story())


def objects_of(size: int, count: int) -> Page:
    """Return the pages of a list with `count` objects of `size` bytes. As in Kubernetes, limit 0 is no limit."""
    items = [{"metadata": {"name": f"n{number}"}, "data": {"a": "x" * size}} for number in range(count)]

    def page(limit: int, token: str) -> tuple[list[dict[str, Any]], str]:
        begin = int(token or 0)
        end = begin + (limit or count)
        return items[begin:end], str(end) if end < count else ""

    return page


@pytest.mark.parametrize(
    ("size", "count", "limits"),
    [
        (10, 20, [500]),
        (300, 70, [500, 50, 50]),
        (3_000, 7, [500, 50, 5, 5]),
        (10_000, 3, [500, 50, 5, 1, 1, 1]),
    ],
)
def test_a_page_that_is_too_long_is_read_again_in_smaller_ones(size: int, count: int, limits: list[int]) -> None:
    member = Lists(objects_of(size, count))

    assert member.read() == ([f"n{number}" for number in range(count)], "7")
    assert member.limits == limits


def test_an_object_that_is_too_long_alone_is_reported_and_not_asked_for_without_end() -> None:
    member = Lists(objects_of(LONGEST, 3))

    answer = member.read()

    assert isinstance(answer, Answer)
    assert "the answer is larger than" in answer.exceeded
    assert member.limits == [500, 50, 5, 1]


def test_a_continue_token_that_comes_twice_ends_the_list() -> None:
    member = Lists(lambda limit, token: ([], "the same"))

    answer = member.read()

    assert isinstance(answer, Answer)
    assert "a continue token came twice" in answer.exceeded
    assert len(member.limits) == 2


@pytest.mark.parametrize(("length", "read"), [(TOKEN_CHARACTERS, True), (TOKEN_CHARACTERS + 1, False)])
def test_a_continue_token_has_a_longest_length(length: int, read: bool) -> None:
    member = Lists(lambda limit, token: ([], "" if token else "t" * length))

    answer = member.read()

    assert isinstance(answer, Answer) is not read
    assert len(member.limits) == 1 + read
