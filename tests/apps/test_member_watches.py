"""The watches on members: what they reported may be reported again, for a database that lost it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest
import yaml

from apps.clusters.client import MemberClient
from apps.clusters.response_reader import TooMuch
from apps.members.watches import Key, Watches
from apps.simulator.members import Fleet
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import (
    MANAGED_LABEL,
    MANAGED_LABEL_VALUE,
    WORK_NAME_ANNOTATION,
    WORK_NAMESPACE_ANNOTATION,
)
from controlplane.clusters.questions import Ensure, Observe, Target
from controlplane.kind import KINDS, Kind
from controlplane.kinds import WORK
from controlplane.propagation.definitions import kinds_of
from controlplane.settings import Settings
from tests import flink
from tests.apps.proxies import ANYWHERE
from tests.builders.objects import START
from tests.simulation.manifests import admitted

MINE = Ref(WORK, "karmada-es-member1", "settings")
MANIFEST: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {
        "name": "settings",
        "namespace": "default",
        "labels": {MANAGED_LABEL: MANAGED_LABEL_VALUE},
        "annotations": {WORK_NAMESPACE_ANNOTATION: MINE.namespace, WORK_NAME_ANNOTATION: MINE.name},
    },
    "data": {"colour": "green"},
}


def test_what_members_reported_is_reported_again_after_the_database_was_away() -> None:
    asyncio.run(_reported_again())


async def _reported_again() -> None:
    reported: asyncio.Queue[list[Ref]] = asyncio.Queue()
    async with Fleet(members=("member1",), ready_after=0.0) as fleet:
        member, client = fleet["member1"], MemberClient(ANYWHERE)
        where = Target("member1", member.url, member.config.token)
        watches = Watches(client, reported.put_nowait)
        try:
            assert (await client.ensure(Ensure(where, MANIFEST, overwrite=False))).ok
            watches.want({("member1", "v1", "ConfigMap"): where})
            first = await asyncio.wait_for(reported.get(), 60)

            watches.report_all_changed()

            assert first == [MINE]
            assert await asyncio.wait_for(reported.get(), 60) == [MINE]
        finally:
            await watches.close()
            await client.close()


def test_what_was_read_whole_is_reported_and_what_is_not_there_is_gone() -> None:
    """It may have been removed while it was not watched: no change of the member will ever report it."""
    asyncio.run(_read_whole())


async def _read_whole() -> None:
    read: asyncio.Queue[Key] = asyncio.Queue()
    key, brought = ("member1", "v1", "ConfigMap"), ("member1", flink.GROUP_VERSION, "FlinkDeployment")
    KINDS.set_custom(kinds_of([admitted(flink.DEFINITION, Settings(), now=START)]))
    async with Fleet(members=("member1",), ready_after=0.0) as fleet:
        client = MemberClient(ANYWHERE)
        where = Target("member1", fleet["member1"].url, fleet["member1"].config.token)
        watches = Watches(client, lambda works: None, read.put_nowait)
        try:
            watches.want({key: where, brought: where})

            reported = {await asyncio.wait_for(read.get(), 60) for _ in range(2)}

            assert reported == {key, brought}  # of a kind the member does not serve it holds nothing
            job = yaml.safe_load(flink.APP) | {"metadata": {**MANIFEST["metadata"], "name": "flink-app"}}
            assert {watches.observe(Observe("member1", one)).code for one in (MANIFEST, job)} == {404}
        finally:
            await watches.close()
            await client.close()
            KINDS.set_custom(())


def test_a_kind_that_becomes_known_later_is_watched_from_then_on() -> None:
    brought = list(kinds_of([admitted(flink.DEFINITION, Settings(), now=START)]))
    try:
        asyncio.run(_known_later(brought))
    finally:
        KINDS.set_custom(())


async def _known_later(brought: Sequence[Kind]) -> None:
    reported: asyncio.Queue[list[Ref]] = asyncio.Queue()
    job = yaml.safe_load(flink.APP)
    job["metadata"] |= {**MANIFEST["metadata"], "name": "flink-app"}
    key = ("member1", flink.GROUP_VERSION, "FlinkDeployment")
    async with Fleet(members=("member1",), ready_after=0.0) as fleet:
        member, client = fleet["member1"], MemberClient(ANYWHERE)
        where = Target("member1", member.url, member.config.token)
        watches = Watches(client, reported.put_nowait)
        try:
            KINDS.set_custom(brought)
            for manifest in (yaml.safe_load(flink.DEFINITION), job):
                answer = await client.ensure(Ensure(where, manifest, overwrite=True))
                assert answer.ok, answer.problem
            KINDS.set_custom(())
            watches.want({key: where})
            await asyncio.sleep(0)  # it looks for the kind's URL, and there is none

            KINDS.set_custom(brought)
            watches.want({key: where})

            assert await asyncio.wait_for(reported.get(), 60) == [MINE]
        finally:
            await watches.close()
            await client.close()


def test_a_report_of_a_member_costs_as_much_among_200_members_as_alone() -> None:
    """The bytes that a member's objects take were summed up among the watches of all members, for each object."""
    assert asyncio.run(_instructions_of_a_report(200)) == asyncio.run(_instructions_of_a_report(1))


async def _instructions_of_a_report(members: int) -> int:
    """Return how many instructions of Python run while an answer of one of so many members is cached."""
    client = MemberClient(ANYWHERE)
    watches = Watches(client, lambda works: None)
    targets = {
        f"member{number}": Target(f"member{number}", "https://127.0.0.1:1", "") for number in range(1, members + 1)
    }
    instructions = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal instructions
        frame.f_trace_opcodes = True
        instructions += event == "opcode"
        return count

    try:
        watches.want({(name, "v1", kind): where for name, where in targets.items() for kind in ("ConfigMap", "Secret")})
        item = {**MANIFEST, "metadata": {**MANIFEST["metadata"], "resourceVersion": "7"}}
        watches.add(targets["member1"], MANIFEST, item)
        before = sys.gettrace()
        sys.settrace(count)
        watches.add(targets["member1"], MANIFEST, item)
        sys.settrace(before)
    finally:
        await watches.close()
        await client.close()
    assert instructions > 100
    return instructions


def test_the_objects_of_a_member_that_is_not_watched_any_more_take_no_room() -> None:
    asyncio.run(_room_again())


async def _room_again() -> None:
    client = MemberClient(ANYWHERE)
    watches = Watches(client, lambda works: None, longest=3000)
    where = Target("member1", "https://127.0.0.1:1", "")
    large = {**MANIFEST, "data": {"text": "x" * 1200}, "metadata": {**MANIFEST["metadata"], "resourceVersion": "7"}}
    other = {**large, "kind": "Secret"}
    try:
        watches.add(where, large, large)
        with pytest.raises(TooMuch):
            watches.add(where, other, other)
        watches.want({("member1", "v1", "Secret"): where})
        watches.add(where, other, other)
        assert watches.cached("member1", other) is not None
    finally:
        await watches.close()
        await client.close()


def test_the_copy_of_another_name_of_the_member_is_not_taken_for_the_own() -> None:
    """It would be reported healthy under both names, and an eviction from one would count on the other."""
    asyncio.run(_another_name())


async def _another_name() -> None:
    read: asyncio.Queue[Key] = asyncio.Queue()
    async with Fleet(members=("member1",), ready_after=0.0) as fleet:
        client = MemberClient(ANYWHERE)
        names = ("member1", "again")
        where = {name: Target(name, fleet["member1"].url, fleet["member1"].config.token) for name in names}
        watches = Watches(client, lambda works: None, read.put_nowait)
        try:
            assert (await client.ensure(Ensure(where["member1"], MANIFEST, overwrite=False))).ok
            watches.want({(name, "v1", "ConfigMap"): where[name] for name in names})
            for _ in names:
                await asyncio.wait_for(read.get(), 60)

            assert [watches.observe(Observe(name, MANIFEST)).code for name in names] == [200, 404]
        finally:
            await watches.close()
            await client.close()
