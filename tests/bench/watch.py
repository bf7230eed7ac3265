"""How long a change takes to everybody who watches: from before the write is sent until the event is read."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import uuid
from time import perf_counter, sleep

from apps.objects.store import store
from controlplane.apimachinery.meta import ObjectMeta, to_seconds
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import Actor
from controlplane.kinds.template import Template
from tests.bench.figure import Figure, percentile
from tests.bench.served import Served, exchange, served
from tests.builders.documents import config_maps
from tests.processes import peak_megabytes

WRITES_PER_SECOND = 20
SECONDS = 5.0
WATCHERS = (100, 1000)
NAME = "watched"


def run() -> list[Figure]:
    """Watch one kind from many connections while somebody writes."""
    now = to_seconds(store().now())
    metadata = ObjectMeta(name=NAME, namespace="default", uid=str(uuid.uuid4()), creation_timestamp=now)
    filling = {"data": {"filling": "x" * 600}}
    with served() as server:
        made = Template("v1", "ConfigMap", metadata, filling)
        store().apply([(None, Decision(changes=(Put(made, None),)))], by=Actor("bench"))
        return [figure for count in WATCHERS for figure in measure(server, count)]


def measure(server: Served, count: int) -> list[Figure]:
    """Return the latencies of delivery to `count` watchers."""
    latencies = asyncio.run(_watch(server, count, since=store().current_version()))
    expected = int(WRITES_PER_SECOND * SECONDS) * count
    conditions = (
        f"{count} watchers, {WRITES_PER_SECOND} writes/s of 0.9 KB, {len(latencies)} of {expected} delivered, "
        f"server peak {peak_megabytes(server.pid):.0f} MB, client on the same cores"
    )
    assert len(latencies) == expected, conditions
    return [
        Figure(f"watch.p50_{count}", percentile(latencies, 0.5) * 1000, "ms", len(latencies), conditions),
        Figure(f"watch.p99_{count}", percentile(latencies, 0.99) * 1000, "ms", len(latencies), conditions),
    ]


class Reader(asyncio.Protocol):
    """One watcher that does as little as it can: it looks for the moments in what arrives."""

    def __init__(self, request: bytes, latencies: list[float]) -> None:
        self.request = request
        self.latencies = latencies
        self.open = asyncio.Event()
        self.seen = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        now = perf_counter()
        self.open.set()
        for sent in _SENT.findall(data):
            self.latencies.append(now - float(sent))
            self.seen += 1


_SENT = re.compile(rb'"sent":"([0-9.]+)"')


async def _watch(server: Served, count: int, *, since: int) -> list[float]:
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    wanted = int(WRITES_PER_SECOND * SECONDS)
    request = server.request("GET", f"{config_maps('default')}?watch=true&resourceVersion={since}")
    transports = []
    for _ in range(count):
        reader = Reader(request, latencies)
        transport, _protocol = await loop.create_connection(lambda: reader, "127.0.0.1", server.port)  # noqa: B023
        transports.append(transport)
        await asyncio.wait_for(reader.open.wait(), 30)
    writer = threading.Thread(target=_write, args=(server, wanted))
    writer.start()
    ends = perf_counter() + SECONDS + 60
    while len(latencies) < wanted * count and perf_counter() < ends:
        await asyncio.sleep(0.1)
    await asyncio.to_thread(writer.join)
    for transport in transports:
        transport.close()
    return latencies


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
