"""How long a change takes to everybody who watches, beside a bare kube-apiserver: from the write until the event.

The additional memory of the server is what its processes have more with the watches open and after all events.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import uuid
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any, NamedTuple

import uvloop

from tests.bench.figure import Figure, percentile
from tests.bench.peer import MISSING, peer
from tests.bench.served import Served, exchange, served_twice
from tests.builders.documents import config_map, config_maps

WRITES_PER_SECOND = 20
SECONDS = 5.0
WATCHERS = 1000
ROUNDS = 3
NAME = f"watched-{uuid.uuid4().hex[:8]}"


class Round(NamedTuple):
    """One measurement: seconds of each delivery, and the megabytes that the server has more."""

    latencies: list[float]
    megabytes: float


def run() -> list[Figure]:
    """Watch one object over many connections while it is written, at each server in turn."""
    beside = peer()
    if beside is None:
        print(f"watch: {MISSING}")
    with served_twice() as ports:
        servers = {"watch.http": ports.plain, "watch.https": ports.secure}
        if beside is not None:
            servers["kube-apiserver.watch.https"] = beside
        for server in (ports.plain, beside):
            if server is not None:
                _exchanged(server, "POST", config_maps("default"), config_map(NAME, filling="x" * 600))
        rounds: dict[str, list[Round]] = {name: [] for name in servers}
        for _ in range(ROUNDS):
            for name, server in servers.items():
                rounds[name].append(measure(server))
        if beside is not None:
            _exchanged(beside, "DELETE", config_maps("default", NAME))
    return [figure for name, found in rounds.items() for figure in _figures(name, found)]


def _figures(name: str, rounds: list[Round]) -> list[Figure]:
    count = sum(len(each.latencies) for each in rounds)
    conditions = f"{WATCHERS} watchers, {WRITES_PER_SECOND} writes/s of 0.9 KB, client on the same cores"
    figures = []
    for share in (0.5, 0.99):
        found = sorted(percentile(each.latencies, share) * 1000 for each in rounds)
        spread = f"{found[0]:.0f} to {found[-1]:.0f} in {len(found)} rounds; {conditions}"
        figures.append(Figure(f"{name}.p{share * 100:.0f}", median(found), "ms", count, spread))
    memory = [each.megabytes for each in rounds]
    spread = f"each round {', '.join(f'{each:.0f}' for each in memory)}; the first opens what later ones use again"
    return [*figures, Figure(f"{name}.memory", max(memory), "MB more", len(memory), spread)]


def measure(server: Served) -> Round:
    """Return the latencies of all deliveries, and the additional memory."""
    before = megabytes(server.pid)
    version = _exchanged(server, "GET", config_maps("default", NAME))["metadata"]["resourceVersion"]
    latencies, after = uvloop.run(_watch(server, since=version))  # a client that costs little: it has the same cores
    expected = int(WRITES_PER_SECOND * SECONDS) * WATCHERS
    assert len(latencies) == expected, f"{len(latencies)} of {expected} events were delivered"
    return Round(latencies, after - before)


def megabytes(pid: int) -> float:
    """Return the resident memory of a process and its children, in MB."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    statuses = (Path(f"/proc/{one}/status").read_text() for one in (pid, *children))
    found = (re.search(r"^VmRSS:\s+(\d+)", status, re.MULTILINE) for status in statuses)
    return sum(int(each[1]) / 1024 for each in found if each)


class Reader(asyncio.Protocol):
    """One watcher that does as little as it can: it looks for the moments in what arrives."""

    def __init__(self, request: bytes, latencies: list[float]) -> None:
        self.request = request
        self.latencies = latencies
        self.open = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        now = perf_counter()
        self.open.set()
        for sent in _SENT.findall(data):
            self.latencies.append(now - float(sent))


_SENT = re.compile(rb'"data":\{[^}]*"sent":"([0-9.]+)"')  # not the copy in managedFields


async def _watch(server: Served, *, since: str) -> tuple[list[float], float]:
    """Return the latencies, and the megabytes of the server while the watches are open."""
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    wanted = int(WRITES_PER_SECOND * SECONDS)
    query = f"watch=true&resourceVersion={since}&fieldSelector=metadata.name={NAME}"
    request = server.request("GET", f"{config_maps('default')}?{query}")
    transports = []
    for _ in range(WATCHERS):
        reader = Reader(request, latencies)
        transport, _protocol = await loop.create_connection(
            lambda: reader,  # noqa: B023
            "127.0.0.1",
            server.port,
            ssl=server.tls,
        )
        transports.append(transport)
        await asyncio.wait_for(reader.open.wait(), 30)
    writer = threading.Thread(target=_write, args=(server, wanted))
    writer.start()
    ends = perf_counter() + SECONDS + 60
    while len(latencies) < wanted * WATCHERS and perf_counter() < ends:
        await asyncio.sleep(0.1)
    await asyncio.to_thread(writer.join)
    memory = megabytes(server.pid)
    for transport in transports:
        transport.close()
    return latencies, memory


def _write(server: Served, count: int) -> None:
    connection = server.connect()
    path = config_maps("default", NAME)
    began = perf_counter()
    for number in range(count):
        sleep(max(0.0, began + number / WRITES_PER_SECOND - perf_counter()))
        body = json.dumps({"data": {"sent": f"{perf_counter():.6f}"}}).encode()
        answer = exchange(connection, server.request("PATCH", path, body=body))
        assert answer.startswith(b"HTTP/1.1 200"), answer[:300]
    connection.close()


def _exchanged(server: Served, method: str, path: str, body: object = None) -> dict[str, dict[str, str]]:
    connection = server.connect()
    raw = b"" if body is None else json.dumps(body).encode()
    answer = exchange(connection, server.request(method, path, body=raw, type="json"))
    connection.close()
    assert answer[9:11] == b"20", answer[:400]
    document: dict[str, dict[str, str]] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return document
