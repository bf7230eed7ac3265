"""The whole program of an agent that starts: what it does before it knows what is wanted and how its member is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from aiohttp import web
from msgspec.structs import replace

from apps.agent.credentials import Access
from apps.agent.process import Agent, Options
from apps.simulator.members import Fleet
from controlplane.kind import text_of
from controlplane.kinds import WORK
from controlplane.kinds.cluster import Cluster
from tests.agent.site import QUICK
from tests.agent.test_agent_parts import store, work
from tests.apps.stack import WITHIN
from tests.builders.objects import cluster

OBJECT = "/api/v1/namespaces/default/configmaps/gone"


class Plane:
    """A control plane with one Cluster and no Works. It lists these when `lists` is set.

    `noted`: what the agent has done, in order: "read" for its Cluster, "beat", and each Ready that it reports.
    """

    def __init__(self, present: Cluster) -> None:
        self.present = orjson.loads(text_of(present))
        self.lists, self.ends = asyncio.Event(), asyncio.Event()
        self.watched: set[str] = set()
        self.noted: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        what = request.path.rpartition("/")[2]
        if "watch" in request.query:
            self.watched.add(what)
            await self.ends.wait()
            return web.Response()
        if request.method != "GET":
            return web.json_response(self._written(what, json.loads(await request.text())))
        if what == self.present["metadata"]["name"]:
            self.noted.append("read")
            return web.json_response(self.present)
        if what == "works":
            await self.lists.wait()
        return web.json_response({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []})

    def _written(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        if body.get("kind") == "Lease":
            self.noted.append("beat")
        elif what == "status" and body.get("kind") == "Cluster":
            self.noted += [one["status"] for one in body["status"]["conditions"] if one["type"] == "Ready"]
            self.present = body
        return {"metadata": {}, **body}

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Yield the URL."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            self.lists.set()
            self.ends.set()
            await runner.cleanup()


@asynccontextmanager
async def started(folder: Path, plane: Plane, member: Access, **settings: float) -> AsyncIterator[Agent]:
    """Run an agent with this folder."""
    async with plane.served() as url:
        options = Options("edge", folder, Access(url), lambda: member, lasts=timedelta(1), renew_at=0.5, expected={})
        agent = Agent(options, replace(QUICK, **settings))
        running = asyncio.create_task(agent.run())
        try:
            yield agent
        finally:
            running.cancel()
            await asyncio.wait([running])


async def until(holds: Any) -> None:
    async with asyncio.timeout(WITHIN):
        while not holds():
            await asyncio.sleep(0.02)


def test_a_work_that_an_old_disk_has_and_the_control_plane_has_not_is_never_applied(tmp_path: Path) -> None:
    """The control plane takes a while to list the Works, and the agent knows meanwhile that its member is well."""
    before = store(tmp_path)
    before.mirror(work("gone"))
    before.disk.close()

    async def story() -> None:
        async with Fleet(members=("edge",), ready_after=0.0) as fleet:
            plane, member = Plane(cluster("edge", ready="Unknown")), fleet["edge"]
            access = Access(member.url, token=member.config.token)
            async with started(tmp_path, plane, access) as agent:
                await until(lambda: "beat" in plane.noted)
                plane.lists.set()
                await until(lambda: "works" in plane.watched)

                assert agent.store.list(WORK) == ()
                headers = {"Authorization": f"Bearer {member.config.token}"}
                async with aiohttp.ClientSession(headers=headers) as session:
                    assert (await session.get(member.url + OBJECT)).status == 404

    asyncio.run(story())


def test_an_agent_whose_member_failed_with_it_sends_no_heartbeat_before_it_reports_that(tmp_path: Path) -> None:
    """Its disk says that the cluster is Ready. A heartbeat would let the cluster be Ready again."""
    before = store(tmp_path)
    before.mirror(cluster("edge", ready="True"))
    before.disk.close()

    async def story() -> list[str]:
        plane = Plane(cluster("edge", ready="Unknown"))
        away = Access("http://127.0.0.1:1", token="any")
        async with started(tmp_path, plane, away, cluster_failure_threshold=3.0):
            await until(lambda: "beat" in plane.noted)
            return plane.noted

    noted = asyncio.run(story())

    assert [one for one in noted if one != "read"] == ["False", "beat"]
    assert noted.index("False") > 1, "it has read its Cluster before"
