"""Requests a second, and what one costs the server: one object, a list of 500, the same list as a table."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from time import perf_counter

from apps.objects.store import store
from controlplane.apimachinery.meta import ObjectMeta, to_seconds
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import Actor
from controlplane.kinds.template import Template
from tests.bench.figure import Figure
from tests.bench.served import Served, exchange, served
from tests.builders.documents import TABLE, deployment, deployments

OBJECTS = 500
CONNECTIONS = 8
SECONDS = 4.0
PATH = deployments("default")


def fill() -> None:
    """Store the Deployments that are asked for."""
    now = to_seconds(store().now())
    decisions = []
    for number in range(OBJECTS):
        body = deployment(f"web-{number:03}", replicas=3, tier="front", team="shop")
        metadata = ObjectMeta(
            name=f"web-{number:03}",
            namespace="default",
            uid=str(uuid.uuid4()),
            generation=1,
            creation_timestamp=now,
            labels=body["metadata"]["labels"],
        )
        status = {"replicas": 3, "readyReplicas": 3, "updatedReplicas": 3, "availableReplicas": 3}
        made = Template("apps/v1", "Deployment", metadata, {"spec": body["spec"]}, status)
        decisions.append((None, Decision(changes=(Put(made, None),))))
    store().apply(decisions, by=Actor("bench"))


def run() -> list[Figure]:
    """Ask each question from several connections for some seconds."""
    fill()
    with served() as server:
        figures = measure(server, "api.get_one", server.request("GET", f"{PATH}/web-001"))
        figures += measure(server, "api.list_500", server.request("GET", PATH))
        figures += measure(server, "api.table_500", server.request("GET", PATH, accept=TABLE))
        return figures


def measure(server: Served, name: str, request: bytes) -> list[Figure]:
    """Return requests a second and CPU milliseconds of the server per request."""
    answer = exchange(server.connect(), request)
    assert answer.startswith(b"HTTP/1.1 200"), answer[:400]
    counts = [0] * CONNECTIONS
    ends = perf_counter() + SECONDS

    def ask(number: int) -> None:
        connection = server.connect()
        while perf_counter() < ends:
            exchange(connection, request)
            counts[number] += 1
        connection.close()

    before = cpu_seconds(server.pid)
    began = perf_counter()
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds, total = perf_counter() - began, sum(counts)
    conditions = f"{len(answer):,} B, {CONNECTIONS} connections, one process, client on the same cores"
    return [
        Figure(name, total / seconds, "requests/s", total, conditions),
        Figure(f"{name}_cpu", (cpu_seconds(server.pid) - before) / total * 1000, "ms", total, "CPU of the server each"),
    ]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
