"""Requests a second over https, beside a bare kube-apiserver: creations, single objects, lists, pages and Tables.

Both servers have the same client, which sends prepared bytes and reads the answer without looking into it. The rounds
alternate between the servers, so that what else the machine does meets both.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from socket import socket
from statistics import median
from time import perf_counter
from typing import NamedTuple

from tests.bench.figure import Figure
from tests.bench.peer import MISSING, peer
from tests.bench.served import Served, exchange, served_twice
from tests.builders.documents import TABLE, config_map, config_maps, deployment, deployments

LISTED, PAGED, PAGE = 500, 10_000, 500  # objects
ROUNDS = 3
SECONDS = 1.5  # of one measurement
FILLERS = 8
FEW, MANY, MADE = "bench-few", "bench-many", f"bench-{uuid.uuid4().hex[:8]}"
PLAIN = "json"
PEER = "kube-apiserver"

Ask = Callable[[socket], None]
"""Sends the requests of one question over a connection and reads their answers."""


class Question(NamedTuple):
    """What is asked, by how many clients at once. `prepare` returns the function that asks a server."""

    name: str
    clients: int
    prepare: Callable[[Served], Ask]


class Rate(NamedTuple):
    """One measurement: answers a second, CPU of the server for each in milliseconds, and cores the client used."""

    rate: float
    server_milliseconds: float
    client_cores: float
    n: int


def run() -> list[Figure]:
    """Ask one API process, one for each core and the peer each question, three times in turn.

    In a run of all benches the processes for each core are left out.
    """
    beside = peer()
    if beside is None:
        print(f"api: {MISSING}")
    several = max(2, os.cpu_count() or 1)
    with ExitStack() as running:
        servers = {"api": running.enter_context(served_twice()).secure}
        if "BENCH_WHOLE" not in os.environ:
            all_ = running.enter_context(served_twice(API_PROCESSES=str(several)))
            servers[f"api.{several}_processes"] = all_.secure
        if beside is not None:
            servers[PEER] = beside
        for name in ("api", PEER):  # all our processes have one database
            if name in servers:
                fill(servers[name])
        figures = [figure for question in QUESTIONS for figure in compare(question, servers)]
        remove([server for name, server in servers.items() if name in ("api", PEER)])
    return figures


def compare(question: Question, servers: dict[str, Served]) -> list[Figure]:
    """Return the median rates of a question with their spread, and the ratios to the peer of the same rounds."""
    rates: dict[str, list[Rate]] = {name: [] for name in servers}
    for number in range(ROUNDS):
        for name in sorted(servers, reverse=bool(number % 2)):
            rates[name].append(measure(question, servers[name]))
    figures = [
        figure for name, found in rates.items() for figure in _figures(f"{name}.{question.name}", question, found)
    ]
    for name in servers.keys() - {PEER} if PEER in servers else ():
        ratios = [ours.rate / its.rate for ours, its in zip(rates[name], rates[PEER], strict=True)]
        spread = f"of {min(ratios):.2f} to {max(ratios):.2f} in {ROUNDS} rounds"
        named = name.replace("api", "ratio")
        figures.append(Figure(f"{named}.{question.name}", median(ratios), "x", ROUNDS, spread))
    return figures


def _figures(name: str, question: Question, rates: list[Rate]) -> Iterator[Figure]:
    found = sorted(rate.rate for rate in rates)
    total = sum(rate.n for rate in rates)
    conditions = (
        f"{question.clients} clients over https; {found[0]:.0f} to {found[-1]:.0f} in {len(rates)} rounds; "
        f"CPU of the server {median(rate.server_milliseconds for rate in rates):.2f} ms each, "
        f"of the client {median(rate.client_cores for rate in rates):.2f} cores"
    )
    yield Figure(name, median(found), "per second", total, conditions)


def measure(question: Question, server: Served) -> Rate:
    """Ask a question for some seconds."""
    ask = question.prepare(server)
    connections = [server.connect() for _ in range(question.clients)]
    for connection in connections:
        ask(connection)  # the first answer may need what a process keeps for later ones
    counts = [0] * question.clients
    before, client_before = cpu_seconds(server.pid), _own_seconds()
    began = perf_counter()
    ends = began + SECONDS

    def work(number: int) -> None:
        while perf_counter() < ends:
            ask(connections[number])
            counts[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(question.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds, total = perf_counter() - began, sum(counts)
    used, client_used = cpu_seconds(server.pid) - before, _own_seconds() - client_before
    for connection in connections:
        connection.close()
    return Rate(total / seconds, used / total * 1000, client_used / seconds, total)


def get_one(server: Served) -> Ask:
    """Read one object."""
    return repeated(server.request("GET", deployments(FEW, "web-001")))


def list_few(server: Served) -> Ask:
    """Read a list in one answer."""
    return repeated(server.request("GET", deployments(FEW)))


def table(server: Served) -> Ask:
    """Read the same list as kubectl does."""
    return repeated(server.request("GET", deployments(FEW), accept=TABLE))


def repeated(request: bytes) -> Ask:
    """Return a function that sends the same request each time."""

    def ask(connection: socket) -> None:
        checked(exchange(connection, request), b"200")

    return ask


def pages(server: Served) -> Ask:
    """Read a long list page by page, as kubectl does."""

    def ask(connection: socket) -> None:
        token, read = "", 0
        while token or not read:
            path = f"{config_maps(MANY)}?limit={PAGE}{token and f'&continue={token}'}"
            answer = exchange(connection, server.request("GET", path))
            checked(answer, b"200")
            read += PAGE
            token = _continues(answer)
        assert read == PAGED, f"{read} objects were read instead of {PAGED}"

    return ask


def _continues(answer: bytes) -> str:
    """Return the `continue` token, which stands before the items; "": the list ends here."""
    _, found, rest = answer[:2000].partition(b'"continue":"')
    return rest.partition(b'"')[0].decode() if found else ""


def create(server: Served) -> Ask:
    """Create objects with new names."""
    head, tail = json.dumps(deployment("NAME", replicas=3, tier="front")).split('"NAME"', 1)
    rest = tail.replace("NAME", "web")
    numbers = count()
    prefix = uuid.uuid4().hex[:8]

    def ask(connection: socket) -> None:
        body = f'{head}"{prefix}-{next(numbers)}"{rest}'.encode()
        request = server.request("POST", deployments(MADE), body=body, type=PLAIN)
        checked(exchange(connection, request), b"201")

    return ask


QUESTIONS = (
    Question("create_1", 1, create),
    Question("create_8", 8, create),
    Question("get_one_1", 1, get_one),
    Question("get_one_8", 8, get_one),
    Question("list_500", 8, list_few),
    Question("list_10000_paged", 1, pages),
    Question("table_500", 8, table),
)


def checked(answer: bytes, code: bytes) -> None:
    """Raise AssertionError if an answer has another status code."""
    assert answer[9:12] == code, answer[:600]


def fill(server: Served) -> None:
    """Create what is read, unless an earlier run has done so."""
    connection = server.connect()
    for name in (FEW, MANY, MADE):
        body = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).encode()
        answer = exchange(connection, server.request("POST", "/api/v1/namespaces", body=body, type=PLAIN))
        assert answer[9:12] in (b"201", b"409"), answer[:600]
    few = [deployment(f"web-{number:03}", replicas=3, tier="front", team="shop") for number in range(LISTED)]
    many = [config_map(f"settings-{number:05}", filling="x" * 600) for number in range(PAGED)]
    for path, documents in ((deployments(FEW), few), (config_maps(MANY), many)):
        last = exchange(connection, server.request("GET", f"{path}/{documents[-1]['metadata']['name']}"))
        if last[9:12] != b"200":
            _create_all(server, path, documents)
    connection.close()


def _create_all(server: Served, path: str, documents: list[dict[str, object]]) -> None:
    waiting = iter(documents)
    lock = threading.Lock()

    def work() -> None:
        connection = server.connect()
        while True:
            with lock:
                document = next(waiting, None)
            if document is None:
                break
            body = json.dumps(document).encode()
            answer = exchange(connection, server.request("POST", path, body=body, type=PLAIN))
            assert answer[9:12] in (b"201", b"409"), answer[:600]
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(FILLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def remove(servers: list[Served]) -> None:
    """Delete what was created to be measured."""
    for server in servers:
        connection = server.connect()
        exchange(connection, server.request("DELETE", deployments(MADE), type=PLAIN))
        exchange(connection, server.request("DELETE", f"/api/v1/namespaces/{MADE}", type=PLAIN))
        connection.close()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process and its children have used."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(_seconds_of(int(one)) for one in [str(pid), *children])


def _seconds_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _own_seconds() -> float:
    used = getrusage(RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
