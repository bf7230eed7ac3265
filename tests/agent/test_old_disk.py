"""The disk of an agent may be out of date when it starts: what it lost, or what an older copy of it has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from apps.agent.control_plane import ControlPlane
from apps.agent.credentials import Access
from apps.agent.mirror import Mirror
from apps.agent.store import AgentStore
from controlplane.apimachinery.meta import Ref
from controlplane.kind import text_of
from controlplane.kinds import CLUSTER, WORK
from tests.agent.site import Site
from tests.agent.test_agent_parts import APPLIED, Listing, store, work
from tests.agent.test_member_faults import config_map, held

AWAY = "http://127.0.0.1:1"


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


@pytest.fixture
def started(tmp_path: Path) -> AgentStore:
    """The store of an agent that starts with two Works on its disk."""
    before = store(tmp_path)
    for name in ("web", "gone"):
        before.mirror(work(name, status=APPLIED))
    before.disk.close()
    return store(tmp_path)


def test_a_work_that_is_on_disk_only_is_forgotten_before_anything_is_done_about_it(
    started: AgentStore, tmp_path: Path
) -> None:
    async def begins() -> None:
        plane = Listing(tmp_path, {"works": [[orjson.loads(text_of(work("web")))]]})
        await Mirror(started, plane, Access(server=AWAY), in_thread=in_thread).works()
        await plane.close()

    assert started.list(WORK) == ()
    asyncio.run(begins())

    assert [found.metadata.name for found in started.list(WORK)] == ["web"]
    assert started.list(WORK)[0].status == work(status=APPLIED).status, "what was done is on disk"


def test_an_agent_works_from_its_disk_while_the_control_plane_is_away(started: AgentStore, tmp_path: Path) -> None:
    async def begins() -> None:
        plane = ControlPlane(Access(server=AWAY), "edge", tmp_path)
        following = asyncio.create_task(Mirror(started, plane, Access(server=AWAY), in_thread=in_thread).works())
        try:
            while not started.list(WORK):
                await asyncio.sleep(0.02)
        finally:
            following.cancel()
            await asyncio.wait([following])
            await plane.close()

    asyncio.run(asyncio.wait_for(begins(), 30))

    assert [found.metadata.name for found in started.list(WORK)] == ["gone", "web"]


def test_an_agent_starts_although_a_later_release_has_written_to_its_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was tried and given up. What cannot be read comes from the control plane, and all else from the disk."""
    later = store(tmp_path)
    for name in ("web", "db"):
        later.mirror(work(name, status=APPLIED))
    later.disk.keep(work("web").ref, b'{"metadata":{"name":"web"},"spec":{"workload":"in another form"}}')
    later.disk.keep(Ref(CLUSTER, "", "edge"), b'{"metadata":{"name":"edge"},"spec":{"taints":{"in":"another form"}}}')
    later.disk.close()

    earlier = store(tmp_path)
    for kind in (CLUSTER, WORK):
        earlier.load(kind)

    assert [found.metadata.name for found in earlier.list(WORK)] == ["db"]
    assert f"{CLUSTER}:edge is on disk and cannot be read" in caplog.text
    earlier.mirror(work("web"))
    assert [found.metadata.name for found in earlier.list(WORK)] == ["db", "web"]


def test_an_object_that_was_removed_is_not_applied_again_because_the_disk_has_its_work(tmp_path: Path) -> None:
    async def first() -> None:
        await site.join("member", mode="Pull")
        ref = await site.want("member", config_map("web", "1"))
        await site.until(lambda: site.said(ref).status == "True")

    async def second() -> None:
        plane = Listing(tmp_path, {"works": [[]]})
        await Mirror(site.store, plane, Access(server=AWAY), in_thread=site.core.in_thread).works()
        await plane.close()
        await site.join("member", mode="Pull")
        other = await site.want("member", config_map("other", "1"))
        await site.until(lambda: site.said(other).status == "True")
        assert await held(site, "web") is None

    with Site(tmp_path) as site:
        site.run(first())
    with Site(tmp_path) as site:  # its members are new and have no objects
        site.run(second())
