"""Names of members: a name server that does not answer delays no other member."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from apps.clusters.client import WORK, MemberClient
from apps.objects.address_guard import AddressRefused, CheckedResolver
from apps.simulator.members import Fleet
from controlplane.clusters.questions import Probe, Target
from controlplane.settings import MemberSettings
from tests.apps.proxies import ANYWHERE

POOL = min(32, (os.cpu_count() or 1) + 4)  # threads that an event loop has for lookups of its own
LOST = POOL + 8
SECONDS = 8.0
PATIENCE = 60.0
ZONE = ".lost.example"


class NameServer:
    """Answers for all names but those of one zone. `asked`: how often each of them was asked for."""

    def __init__(self) -> None:
        self.asked = Counter[str]()
        self.answers = threading.Event()
        self._real = socket.getaddrinfo

    def look_up(self, host: Any, *rest: Any, **more: Any) -> Any:
        if not str(host).endswith(ZONE):
            return self._real(host, *rest, **more)
        self.asked[host] += 1
        self.answers.wait(PATIENCE)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    made = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", made.look_up)
    yield made
    made.answers.set()


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
