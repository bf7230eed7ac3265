"""The metrics port of API processes: what each did itself, and the figures of the fleet at exactly one of them."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.api.server import SECONDS, Client, Server, free_ports
from tests.apps.test_watched import Collector
from tests.processes import PROJECT, START_SECONDS, Process, Processes, until

FLEET = "lifeboat_resource_version"


def scraped(port: int) -> dict[str, Metric]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as answer:
        return {one.name: one for one in text_string_to_metric_families(answer.read().decode())}


@pytest.fixture
def collector() -> Iterator[Collector]:
    receiving = Collector()
    threading.Thread(target=receiving.serve_forever, daemon=True).start()
    yield receiving
    receiving.shutdown()
    receiving.server_close()


class Running(NamedTuple):
    """An API process with its ports."""

    process: Process
    port: int
    metrics: int


@pytest.fixture
def two(server: Server, collector: Collector) -> Iterator[list[Running]]:
    """Two more API processes beside the server, which has no metrics port."""
    with Processes(server.folder / "more", server.environment) as processes:
        processes.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{collector.server_address[1]}"
        processes.environment["OTEL_BSP_SCHEDULE_DELAY"] = "200"
        started: list[Running] = []
        for _ in range(2):
            port, metrics = free_ports(2)
            processes.environment["LIFEBOAT_METRICS_PORT"] = str(metrics)
            arguments = ["manage.py", "serve", "--port", str(port), "--tls-port", "0"]
            started.append(Running(processes.start("api", arguments), port, metrics))
        for one in started:
            until(lambda one=one: answers(one), within=START_SECONDS, alive=one.process)  # type: ignore[misc]
        yield started


def answers(one: Running) -> bool:
    try:
        return bool(scraped(one.metrics)) and Client(("127.0.0.1", one.port), "").get("/livez").status == 200
    except OSError:
        return False


def serving_fleet(running: Iterable[Running]) -> list[Running]:
    return [one for one in running if FLEET in scraped(one.metrics)]


@pytest.mark.slow
def test_a_process_counts_its_requests_and_one_process_serves_the_fleet(
    server: Server, api: Client, two: list[Running], collector: Collector
) -> None:
    counting = two[0]
    client = Client(("127.0.0.1", counting.port), api.token)
    for path in ("/api/v1/namespaces", "/api/v1/namespaces/missing"):
        client.get(path)
    client.post("/api/v1/namespaces", {"metadata": {"name": "Not A Name"}})
    client.post("/api/v1/namespaces", {"metadata": {"name": "seen-in-a-span"}})
    requests_are_counted_by_method_view_and_status(scraped(counting.metrics))
    written = ("lifeboat-api", "POST /api/v1/namespaces")
    until(lambda: written in collector.spans(having="lifeboat.first_version"), within=SECONDS)

    server.stop()  # it holds the first lease, and no port serves its metrics
    try:
        (first,) = until(lambda: serving_fleet(two), within=SECONDS)
        (second,) = [one for one in two if one is not first]
        assert "process_resident_memory_bytes" in scraped(second.metrics)

        first.process.send_signal(signal.SIGTERM)

        until(lambda: FLEET in scraped(second.metrics), within=SECONDS)
    finally:
        server.start()


def requests_are_counted_by_method_view_and_status(found: dict[str, Metric]) -> None:
    counted = {
        (one.labels["method"], one.labels["view"], one.labels["status"])
        for one in found["django_http_responses_total_by_status_view_method"].samples
    }
    assert {("GET", "ObjectView", "200"), ("GET", "ObjectView", "404"), ("POST", "ObjectView", "422")} <= counted
    assert [one.value for one in found["lifeboat_refused_writes"].samples if one.labels["code"] == "422"] == [1]


def test_a_port_that_is_taken_ends_the_process_with_the_reason(server: Server) -> None:
    taken = {**server.environment, "LIFEBOAT_METRICS_PORT": str(server.port)}

    done = subprocess.run(
        [sys.executable, "manage.py", "serve", "--port", "0", "--tls-port", "0"],
        cwd=PROJECT,
        env=taken,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )

    assert done.returncode == 1
    assert f"LIFEBOAT_METRICS_PORT={server.port}: port {server.port} of 127.0.0.1 cannot be listened on" in done.stderr
