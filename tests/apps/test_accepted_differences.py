"""What an object has right after an apply is no drift, also for a process that has not applied it [member-drift]."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from apps.agent.disk import Disk
from apps.agent.process import MemoryHost
from apps.agent.store import AgentStore
from apps.members.answers import Answers
from apps.simulator.members import Fleet
from controlplane.clusters.questions import Answer, Discard, Ensure, Observe, Target
from controlplane.settings import Settings
from tests.apps.proxies import ANYWHERE
from tests.apps.stack import WITHIN
from tests.apps.test_member_watches import MANIFEST

LIMITS: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {**MANIFEST["metadata"], "name": "limits"},
    "spec": {"limits": [{"type": "Container", "default": {"memory": "1.5Gi"}}]},  # the member writes 1536Mi
}
CHANGED = {**LIMITS, "spec": {"limits": [{"type": "Container", "default": {"memory": "2Gi"}}]}}
OBSERVE = Observe("member1", LIMITS, asks=True)


@asynccontextmanager
async def process(target: Target, folder: Any) -> AsyncIterator[Answers]:
    """Yield the answers of a new process that watches LimitRanges, once it has listed them."""
    read = asyncio.Event()
    host = MemoryHost(AgentStore((), Disk(folder)), Settings(), lambda names: None)
    found = Answers(host, ANYWHERE, changed=lambda works: None, read=lambda key: read.set())
    try:
        found.watches.want({("member1", "v1", "LimitRange"): target})
        await asyncio.wait_for(read.wait(), WITHIN)
        yield found
    finally:
        await found.close()
        host.close()


def observed_after_a_restart(folder: Any, *, by_others: dict[str, Any] | None) -> tuple[Sequence[Answer], list[str]]:
    """Apply LIMITS, change it as another user, and observe it twice in a new process.

    Return the answers, and the methods of the requests for the object itself in that process.
    """

    async def run() -> tuple[Sequence[Answer], list[str]]:
        async with Fleet(members=("member1",), ready_after=0.0) as fleet:
            member = fleet["member1"]
            target = Target("member1", member.url, member.config.token)
            async with process(target, folder) as first:
                assert (await first.answer(Ensure(target, LIMITS, overwrite=False))).ok
                if by_others is not None:
                    path = "/api/v1/namespaces/default/limitranges/limits"
                    assert (await first.client.call(target, "PUT", path, body=by_others)).ok
            async with process(target, folder) as second:
                member.requests.clear()
                answers = [await second.answer(OBSERVE) for _ in range(2)]
                asked = [
                    one["method"] for one in member.requests.entries() if one["path"].split("?")[0].endswith("/limits")
                ]
            return answers, asked

    return asyncio.run(run())


def test_a_new_process_takes_what_a_member_writes_in_its_way_for_no_drift(tmp_path: Any) -> None:
    answers, asked = observed_after_a_restart(tmp_path, by_others=None)

    assert [answer.drift for answer in answers] == ["", ""]
    assert asked == ["GET", "PATCH"], "the member is asked once, by a dry run"


def test_a_new_process_finds_a_change_and_asks_once_about_it(tmp_path: Any) -> None:
    answers, asked = observed_after_a_restart(tmp_path, by_others=CHANGED)

    assert [answer.drift for answer in answers] == ["spec.limits[Container].default.memory is 2Gi instead of 1.5Gi"] * 2
    assert asked == ["GET", "PATCH"]


def test_nothing_is_remembered_about_an_object_that_was_removed(tmp_path: Any) -> None:
    async def run() -> None:
        async with Fleet(members=("member1",), ready_after=0.0) as fleet:
            member = fleet["member1"]
            target = Target("member1", member.url, member.config.token)
            async with process(target, tmp_path) as found:
                assert (await found.answer(Ensure(target, LIMITS, overwrite=False))).ok
                assert found._accepted
                await found.answer(Discard(target, LIMITS))
                assert not found._accepted
                assert not found._changed

    asyncio.run(run())
