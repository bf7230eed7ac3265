"""The watches on members: what they told may be told again, for a database that lost it."""

from __future__ import annotations

import asyncio

from apps.clusters.client import MemberClient
from apps.runtime.members.watches import Watches
from apps.simulator.fleet import Fleet
from controlplane.kinds import WORK
from controlplane.members import Ensure, Target
from controlplane.meta import Ref
from controlplane.names import (
    MANAGED_LABEL,
    MANAGED_LABEL_VALUE,
    WORK_NAME_ANNOTATION,
    WORK_NAMESPACE_ANNOTATION,
)

MINE = Ref(WORK, "karmada-es-member1", "settings")
MANIFEST = {
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


def test_fault_17_what_members_told_is_told_again_after_the_database_was_away() -> None:
    asyncio.run(_told_again())


async def _told_again() -> None:
    told: asyncio.Queue[list[Ref]] = asyncio.Queue()
    async with Fleet(members=("member1",), ready_after=0.0) as fleet:
        member, client = fleet["member1"], MemberClient()
        where = Target("member1", member.url, member.config.token)
        watches = Watches(client, told.put_nowait)
        try:
            assert (await client.ensure(Ensure(where, MANIFEST, overwrite=False))).ok
            watches.want({("member1", "v1", "ConfigMap"): where})
            first = await asyncio.wait_for(told.get(), 10)

            watches.tell_again()

            assert first == [MINE]
            assert await asyncio.wait_for(told.get(), 10) == [MINE]
        finally:
            await watches.close()
            await client.close()
