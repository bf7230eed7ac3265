"""What operators see of a failover from outside: log lines, metrics of every process, spans; on one running product."""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client import Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis

from apps.api.debug import FLEET
from tests.api.server import free_ports
from tests.apps.stack import LEAVE_WHERE_NOT_READY, WITHIN, Stack, deployment, policy, stack
from tests.apps.test_notices import Hook
from tests.processes import PROJECT, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

WORKLOADS = 3


class Collector(ThreadingHTTPServer):
    """Receives spans as an OpenTelemetry collector does."""

    def __init__(self) -> None:
        received: list[bytes] = []
        self.received = received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                received.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    def spans(self, *, having: str = "") -> set[tuple[str, str]]:
        """Return (process, name) of all spans so far; `having`: of those with this attribute."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        def counts(span: Any) -> bool:
            return not having or having in {one.key for one in span.attributes}

        found: set[tuple[str, str]] = set()
        for body in list(self.received):
            for spans in ExportTraceServiceRequest.FromString(body).resource_spans:
                named = {one.key: one.value.string_value for one in spans.resource.attributes}
                for scope in spans.scope_spans:
                    found |= {(named["service.name"], span.name) for span in scope.spans if counts(span)}
        return found


class Watched(NamedTuple):
    """The product after a failover, with the ports of its processes and the collector of its spans."""

    running: Stack
    ports: dict[str, int]
    logs: Path
    collector: Collector
    hook: Hook


@pytest.fixture
def watched(tmp_path: Path, redis_url: str, redis_client: Redis) -> Iterator[Watched]:
    collector, ports = Collector(), dict(zip(("worker", "beat", "members"), free_ports(3), strict=True))
    hook = Hook()
    for server in (collector, hook):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    with stack(tmp_path, redis_url, "member1", "member2", log_format="json") as running:
        given = running.processes.environment
        given["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{collector.server_address[1]}"
        given["OTEL_BSP_SCHEDULE_DELAY"] = "200"
        given["LIFEBOAT_NOTIFY_WEBHOOK"] = f"http://127.0.0.1:{hook.server_address[1]}/"
        for name, port in ports.items():
            given["LIFEBOAT_METRICS_PORT"] = str(port)
            getattr(running.processes, name)()
        fail_over(running)
        yield Watched(running, ports, tmp_path / "logs", collector, hook)
    for server in (collector, hook):
        server.shutdown()
        server.server_close()


def fail_over(running: Stack) -> None:
    """Run workloads on member1, and take member1 down until all of them are on member2."""
    running.join("member1", "member2")
    running.create(LEAVE_WHERE_NOT_READY)
    running.create(policy("member1", "member2", groups=1))
    names = [f"web{number}" for number in range(WORKLOADS)]
    running.create("\n---\n".join(map(deployment, names)))
    until(lambda: all(running.healthy(name) for name in names), within=WITHIN)
    lost = min(running.placed(names[0]))
    assert running.fleet is not None
    running.fleet.set_fault(lost, "down")
    until(lambda: all((placed := running.placed(name)) and lost not in placed for name in names), within=WITHIN)


def scraped(port: int) -> dict[str, Metric]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WITHIN) as answer:
        return {one.name: one for one in text_string_to_metric_families(answer.read().decode())}


def lines(watched: Watched, process: str) -> list[dict[str, Any]]:
    texts = [path.read_text() for path in watched.logs.glob(f"{process}-*.log")]
    return [json.loads(line) for text in texts for line in text.splitlines() if line.startswith("{")]


def total(metric: Metric, **labels: str) -> float:
    found = [one for one in metric.samples if one.name.endswith(("_total", "_count"))]
    return sum(one.value for one in found if labels.items() <= one.labels.items())


def every_eviction_has_a_line_of_the_worker_with_its_rule_and_versions(watched: Watched) -> None:
    decided = [one for one in lines(watched, "worker") if one["logger"] == "lifeboat.decisions"]
    evicted = [
        one
        for one in decided
        if one["controller"] == "evictions" and "EvictWorkloadFromClusterSucceed" in one["events"]
    ]

    stored = [one for one in watched.running.changes() if one.actor == "evictions" and one.ref.kind.endswith("Binding")]

    assert {version for one in evicted for version in one["versions"]} >= {one.version for one in stored}
    assert all(one["reason"] and one["ref"] and one["ms"] > 0 for one in evicted)


def ordinary_expired_ticks_leave_no_line(watched: Watched) -> None:
    assert [one for one in lines(watched, "worker") if "Discarding" in one["message"]] == []


def every_process_serves_what_it_did(watched: Watched) -> None:
    found = {name: scraped(port) for name, port in watched.ports.items()}

    worker, members = found["worker"], found["members"]
    assert total(worker["lifeboat_reconciled_objects"], controller="scheduler") >= WORKLOADS
    for phase in ("load", "ask", "decide", "apply"):
        assert total(worker["lifeboat_reconcile_seconds"], controller="scheduler", phase=phase) > 0
    assert total(worker["lifeboat_write_lock_seconds"]) > 0
    assert total(worker["lifeboat_reconcile_errors"]) == 0
    assert total(members["lifeboat_reconciled_objects"], controller="execution") >= WORKLOADS
    for request in ("probe", "apply", "collect"):
        assert total(members["lifeboat_member_request_seconds"], request=request) > 0
    named = {one.labels["cluster_name"] for one in members["lifeboat_member_request_seconds"].samples}
    assert named == {"member1", "member2"}
    assert total(members["lifeboat_member_request_errors"], request="probe") > 0, "one member was down"
    assert total(found["beat"]["lifeboat_ticks"], result="sent") > 0


def fleet_metrics() -> set[str]:
    return {one.name for one in text_string_to_metric_families(generate_latest(FLEET).decode())}


def beat_is_seen_and_the_pool_shares_its_metrics_in_a_folder_of_our_own(watched: Watched) -> None:
    until(lambda: "beat" in watched.running.holders(), within=WITHIN)
    assert list((watched.logs.parent / "metrics" / str(watched.ports["worker"])).glob("histogram_*.db"))


def a_sum_over_processes_counts_nothing_of_the_fleet_twice(watched: Watched) -> None:
    """Figures of the fleet are read from the database, so only `/metrics` of the API may have them."""
    for port in watched.ports.values():
        assert not fleet_metrics() & set(scraped(port))


def turns_phases_and_requests_to_members_are_spans(watched: Watched) -> None:
    wanted = {
        *(("lifeboat-worker", name) for name in ("turn", "load", "decide", "apply")),
        *(("lifeboat-members", name) for name in ("member probe", "member apply")),
    }

    until(lambda: wanted <= watched.collector.spans(), within=WITHIN)
    assert ("lifeboat-worker", "apply") in watched.collector.spans(having="lifeboat.first_version")


def every_metric_is_in_the_manual(watched: Watched) -> None:
    text = (PROJECT / "docs" / "operating.md").read_text()
    served = fleet_metrics().union(*(scraped(port) for port in watched.ports.values()))

    undocumented = {
        name
        for name in served
        if not name.startswith(("process_", "python_")) and not re.search(rf"`{name}(_total)?[`{{]", text)
    }

    assert undocumented == set()


def the_webhook_is_sent_that_the_cluster_is_down_once(watched: Watched) -> None:
    def topics() -> list[str]:
        return [notice["topic"] for _, body in watched.hook.received for notice in body["notices"]]

    until(lambda: "ClusterDown" in topics(), within=WITHIN)

    assert topics().count("ClusterDown") == 1


def test_a_failover_is_seen_in_log_lines_in_metrics_of_every_process_and_in_spans(watched: Watched) -> None:
    """One failover for all claims, because starting the product takes longest."""
    every_eviction_has_a_line_of_the_worker_with_its_rule_and_versions(watched)
    ordinary_expired_ticks_leave_no_line(watched)
    every_process_serves_what_it_did(watched)
    beat_is_seen_and_the_pool_shares_its_metrics_in_a_folder_of_our_own(watched)
    a_sum_over_processes_counts_nothing_of_the_fleet_twice(watched)
    the_webhook_is_sent_that_the_cluster_is_down_once(watched)
    every_metric_is_in_the_manual(watched)
    turns_phases_and_requests_to_members_are_spans(watched)
