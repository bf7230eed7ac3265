"""How an agent follows the objects of its control plane."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from apps.agent import control_plane
from apps.agent.control_plane import ControlPlane
from apps.agent.credentials import Access
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
