"""Names of members: a name server that does not answer delays no other member."""

from __future__ import annotations

import asyncio
import os
from collections import Counter

import pytest

from apps.clusters.client import WORK, MemberClient
from apps.objects.address_guard import AddressRefused, CheckedResolver
from apps.simulator.members import Fleet
from controlplane.clusters.questions import Probe, Target
from controlplane.settings import MemberSettings
from tests.apps.name_server import PATIENCE, ZONE, NameServer
from tests.apps.proxies import ANYWHERE

POOL = min(32, (os.cpu_count() or 1) + 4)  # threads that an event loop has for lookups of its own
LOST = POOL + 8
SECONDS = 5.0


def test_names_that_are_not_answered_delay_no_other_member(name_server: NameServer) -> None:
    async def ask() -> None:
        async with Fleet(members=("member1",), ready_after=0.0) as fleet:
            client = MemberClient(ANYWHERE)
            names = [f"lost{number}{ZONE}" for number in range(LOST)]
            lost = [Target(name, f"http://{name}", "token") for name in names]
            waiting = [asyncio.create_task(client.probe(Probe(one, seconds=PATIENCE))) for one in lost]
            waiting += [asyncio.create_task(client.call(one, "GET", "/version", lane=WORK)) for one in lost]
            while name_server.asked.total() < POOL:
                await asyncio.sleep(0.01)
            member = fleet["member1"]
            well = Target("member1", member.url.replace("127.0.0.1", "localhost"), member.config.token)

            found = await client.probe(Probe(well, seconds=SECONDS))

            assert found.code == 200, found.problem
            assert name_server.asked == Counter(names), "each is asked for once, for both requests"
            name_server.answers.set()
            answers = await asyncio.gather(*waiting)
            assert {(one.code, one.problem.partition("lost")[0]) for one in answers} == {(0, "the host name ")}
            await client.close()

    asyncio.run(ask())


def test_a_name_of_refused_addresses_is_refused(name_server: NameServer) -> None:
    async def ask() -> None:
        with pytest.raises(AddressRefused, match=r"localhost is at .* which must not be called"):
            await CheckedResolver(MemberSettings()).resolve("localhost", 443)

    asyncio.run(ask())
