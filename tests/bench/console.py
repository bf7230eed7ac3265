"""Pages of the console with 100 clusters and 10,000 bindings, and 100 browsers on Situation during an outage."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from datetime import datetime
from time import perf_counter

from msgspec.structs import replace

from apps.development.fleet import Fleet
from apps.objects.store import store
from controlplane.apimachinery.meta import Condition
from controlplane.engine.decision import Decision, Put, Save
from controlplane.engine.state import Actor
from controlplane.kinds.rows import Eviction
from tests.bench.figure import Figure, percentile
from tests.bench.served import Served, exchange, served
from tests.builders.bare import binding
from tests.builders.objects import eviction

CLUSTERS, BINDINGS, DOWN, CHUNK = 100, 10_000, 5, 500
BROWSERS, SECONDS, REQUESTS = 100, 15.0, 30
BY = Actor("bench")
FLEET_STATUS = "/apis/failover.lifeboat.io/v1alpha1/fleetstatuses/fleet"


def run() -> list[Figure]:
    """Ask for pages, then keep streams open while evictions change."""
    names = fill(store().now())
    with served() as server:
        figures = [
            figure
            for path in ("/clusters", f"/clusters/{names[0]}", "/queue", FLEET_STATUS)
            for figure in page(server, path)
        ]
        return [*figures, *streams(server, names)]


def fill(now: datetime) -> list[str]:
    """Store the fleet, of which the first clusters are down, and an eviction for each of their bindings."""
    fleet = Fleet(clusters=CLUSTERS, bindings=1, now=now)
    clusters = [fleet.cluster(number) for number in range(CLUSTERS)]
    names = [one.metadata.name for one in clusters]
    for number, one in enumerate(clusters):
        status = "False" if number < DOWN else "True"
        ready, established = ("Ready", status), ("Established", "True")
        conditions = tuple(Condition(*each, last_transition_time=now) for each in (ready, established))
        store().apply([(None, Decision(changes=(Put(one.with_status(conditions=conditions), None),)))], by=BY)
    for start in range(0, BINDINGS, CHUNK):
        some = range(start, start + CHUNK)
        made = [Put(binding(f"b{one}", names[one % CLUSTERS], names[(one + 7) % CLUSTERS]), None) for one in some]
        store().apply([(None, Decision(changes=(put,))) for put in made], by=BY)
        rows = [queued(one, names) for one in some if one % CLUSTERS < DOWN]
        store().apply([(None, Decision(changes=tuple(map(Save, rows))))], by=BY)
    return names


def queued(number: int, names: list[str]) -> Eviction:
    state = ("Queued", "Held", "Evicted")[number // CLUSTERS % 3]
    return replace(eviction(f"b{number}", names[number % CLUSTERS]), state=state)


def page(server: Served, path: str) -> list[Figure]:
    """Measure one page: the time of an answer, and the processor time of the server for it."""
    request = server.request("GET", path, accept="text/html")
    with server.connect() as connection:
        exchange(connection, request)
        before, times = cpu_seconds(server.pid), list[float]()
        for _ in range(REQUESTS):
            began = perf_counter()
            exchange(connection, request)
            times.append(1000 * (perf_counter() - began))
        spent = 1000 * (cpu_seconds(server.pid) - before) / REQUESTS
    conditions = f"{CLUSTERS} clusters, {BINDINGS} bindings"
    name = f"console {path.split('?')[0].removeprefix('/apis/failover.lifeboat.io/v1alpha1')}"
    return [
        Figure(f"{name} p95", percentile(times, 0.95), "ms", REQUESTS, conditions),
        Figure(f"{name} cpu", spent, "ms", REQUESTS, conditions),
    ]


def streams(server: Served, names: list[str]) -> list[Figure]:
    """Measure the share of a core that open pages cost, while nothing and while much changes."""
    stop, received = threading.Event(), list[int]()
    connections = [stream(server) for _ in range(BROWSERS)]
    readers = [threading.Thread(target=read, args=(one, stop, received)) for one in connections]
    for reader in readers:
        reader.start()
    try:
        quiet = share(server, lambda: None, stop)
        busy = share(server, lambda: change(names), stop)
    finally:
        stop.set()
        for one in connections:
            one.close()
        for reader in readers:
            reader.join()
    conditions = f"{BROWSERS} browsers on Situation, {sum(received) >> 20} MiB sent"
    return [
        Figure("console streams quiet", 100 * quiet, "% of a core", 1, conditions),
        Figure("console streams busy", 100 * busy, "% of a core", 1, conditions),
    ]


def stream(server: Served) -> socket.socket:
    connection = server.connect()
    connection.sendall(server.request("GET", "/stream?page=%2F", accept="text/event-stream"))
    return connection


def read(connection: socket.socket, stop: threading.Event, received: list[int]) -> None:
    connection.settimeout(0.5)
    while not stop.is_set():
        try:
            received.append(len(connection.recv(1 << 18)))
        except TimeoutError:
            continue
        except OSError:
            return


def share(server: Served, act: Callable[[], None], stop: threading.Event) -> float:
    """Return the share of a core that the server uses while `act` is called three times a second."""
    before, began = cpu_seconds(server.pid), perf_counter()
    while perf_counter() - began < SECONDS:
        act()
        stop.wait(1 / 3)
    return (cpu_seconds(server.pid) - before) / (perf_counter() - began)


_changes = iter(range(1 << 30))


def change(names: list[str]) -> None:
    """Change an eviction, as the queue does all the time in an outage."""
    number = next(_changes)
    row = replace(queued(number * CLUSTERS, names), state=("Queued", "Held")[number % 2])
    store().apply([(None, Decision(changes=(Save(row),)))], by=BY)


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
