"""Reports that the control plane refuses for a while: they delay no others, and arrive in the end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from apps.agent import reports
from apps.agent.control_plane import ControlPlane
from apps.agent.reports import Reports
from controlplane.clusters.questions import Answer
from controlplane.engine.decision import Decision, Put
from tests.agent.test_agent_parts import APPLIED, BY, store, work


class Refusing(ControlPlane):
    """A control plane that cannot store the status of one Work for a while."""

    def __init__(self) -> None:
        self.cluster = "edge"
        self.refuses = True
        self.arrived: list[str] = []
        self.tries = 0

    async def patch(self, path: str, body: Any, *, content_type: str = "", **query: str) -> Answer:
        name = path.split("/")[-2]
        if name == "bad":
            self.tries += 1
            if self.refuses:
                return Answer(500, problem="an admission webhook does not answer")
        self.arrived.append(name)
        return Answer(200, {"metadata": {}})


def test_other_reports_arrive_while_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "PAUSE_SECONDS", 0.05)
    plane, kept = Refusing(), store(tmp_path)
    for name in ("bad", "web"):
        kept.mirror(work(name))

    async def in_thread(function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    def applied(name: str) -> None:
        old = work(name)
        known: Any = kept.objects[old.ref]
        new = known.with_status(conditions=APPLIED.conditions)
        kept.apply([(None, Decision(changes=(Put(new, known),), reason="Applied"))], by=BY)

    async def story() -> float:
        sending = Reports(kept, plane, in_thread=in_thread)
        running = asyncio.create_task(sending.run())
        applied("bad")
        sending.wake.set()
        while plane.tries < 6:  # the next pause is 1.6 s long
            await asyncio.sleep(0.01)
        loop = asyncio.get_running_loop()
        began = loop.time()
        applied("web")
        sending.wake.set()
        while "web" not in plane.arrived:
            await asyncio.sleep(0.01)
        took = loop.time() - began
        tries = plane.tries
        plane.refuses = False
        while "bad" not in plane.arrived:
            await asyncio.sleep(0.01)
        assert plane.tries == tries + 1, "it keeps its own pause"
        running.cancel()
        await asyncio.wait([running])
        return took

    assert asyncio.run(asyncio.wait_for(story(), 30)) < 0.6


class Silent(ControlPlane):
    """A control plane that is away for a while. `freed`: the finalizers that Works keep."""

    def __init__(self) -> None:
        self.cluster = "edge"
        self.is_away = True
        self.freed: list[Any] = []

    async def patch(self, path: str, body: Any, *, content_type: str = "", **query: str) -> Answer:
        if self.is_away:
            return Answer(0, problem="no route to host")
        self.freed.append(body["metadata"]["finalizers"])
        return Answer(200, {"metadata": {}})


@pytest.mark.parametrize("later", [None, ()], ids=["", "another-one-follows"])
def test_a_removed_work_whose_release_did_not_arrive_is_released_later(tmp_path: Path, later: Any) -> None:
    """Otherwise the Work would be there for ever, and its binding and its cluster could not go."""
    plane, kept = Silent(), store(tmp_path)

    async def in_thread(function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    async def story() -> None:
        sending = Reports(kept, plane, in_thread=in_thread)
        kept.released[work().ref] = ("example.com/another",)
        assert not await sending._send()
        if later is not None:
            kept.released[work().ref] = later

        plane.is_away = False
        sending.retry()
        assert await sending._send()
        sending.retry()
        assert await sending._send()

    asyncio.run(story())

    assert plane.freed == [["example.com/another"] if later is None else []], "once, with what is known last"
