"""How an agent follows the objects of its control plane."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from apps.agent import control_plane
from apps.agent.control_plane import ControlPlane
from apps.agent.credentials import Access
from controlplane.clusters.questions import Answer
from tests.apps.stack import WITHIN
from tests.apps.test_watch_streams import ENDED_AT_ONCE, Scripted


@pytest.mark.parametrize("ends", ENDED_AT_ONCE.values(), ids=ENDED_AT_ONCE.keys())
def test_a_control_plane_whose_watches_end_at_once_is_asked_again_after_a_pause(
    ends: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_plane, "PAUSE_SECONDS", 0.2)

    async def at_once(writer: asyncio.StreamWriter) -> None:
        writer.write(ends)

    async def ignored(*anything: Any) -> None:
        """Take objects and changes."""

    async def begin_thrice() -> list[float]:
        scripted = Scripted(at_once)
        async with scripted.served() as url:
            plane = ControlPlane(Access(server=url), "edge", tmp_path)
            following = asyncio.create_task(plane.follow("/api/v1/configmaps", ignored, ignored))
            try:
                return [await asyncio.wait_for(scripted.began.get(), WITHIN) for _ in range(3)]
            finally:
                following.cancel()
                await asyncio.wait([following])
                await plane.close()

    first, _, third = asyncio.run(begin_thrice())

    assert third - first > control_plane.PAUSE_SECONDS, "two pauses are expected, less what requests take"


def test_what_the_control_plane_could_not_read_is_listed_again_though_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_plane, "AGAIN_SECONDS", 0.2)
    monkeypatch.setattr(control_plane, "PAUSE_SECONDS", 0.1)

    async def silent(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def follow() -> tuple[int, bool]:
        lists = asyncio.Queue[list[Any]]()
        scripted = Scripted(silent)
        async with scripted.served() as url:
            plane = ControlPlane(Access(server=url), "edge", tmp_path)
            whole = plane.follow("/api/v1/configmaps", lists.put, lists.put, is_whole=lambda: lists.qsize() > 1)
            following = asyncio.create_task(whole)
            try:
                for _ in range(2):
                    await asyncio.wait_for(scripted.began.get(), WITHIN)
                listed = lists.qsize()
                await asyncio.sleep(1.0)
                return listed, lists.qsize() == listed
            finally:
                following.cancel()
                await asyncio.wait([following])
                await plane.close()

    assert asyncio.run(follow()) == (2, True)


@pytest.mark.parametrize("method", ["get", "put", "patch"])
@pytest.mark.parametrize("page", [b"<html>We are back soon</html>", b'{"status": "maintenance"}'], ids=["html", "json"])
def test_the_page_of_a_proxy_is_no_answer_of_the_control_plane(method: str, page: bytes, tmp_path: Path) -> None:
    """Otherwise the agent would end, or count a report or a heartbeat as arrived."""
    kind = b"application/json" if page.startswith(b"{") else b"text/html"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (kind, len(page))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + page)
        await writer.drain()
        writer.close()

    async def answered() -> Answer:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        plane = ControlPlane(Access(server=url), "edge", tmp_path)
        try:
            body = [] if method == "get" else [{"status": {}}]
            found: Answer = await getattr(plane, method)(plane.cluster_path, *body)
            return found
        finally:
            await plane.close()
            server.close()

    answer = asyncio.run(answered())

    assert not answer.ok
    assert "not an object of Kubernetes" in answer.problem
