"""The state of controllers, leases and queues: /metrics for Prometheus, /debug/controllers for operators.

The figures are at most one second old.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import msgspec
from django.db import connection
from django.http import HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.answer import Answer
from apps.api.authorization import Attributes
from apps.api.clock import ticks
from apps.api.cluster_metrics import ClusterCollector
from apps.api.eviction_metrics import EvictionCollector
from apps.api.permissions import path_attributes
from apps.api.views import KubernetesView
from apps.objects import due
from apps.objects.configuration import base
from apps.objects.outbox import channels
from controlplane.controllers import CONTROLLERS

FRESH_SECONDS = 1.0

_DUE = f"""
    SELECT controller, sum({due.OBJECTS})::bigint,
           coalesce(sum({due.OBJECTS}) FILTER (WHERE due_at <= clock_timestamp()), 0)::bigint,
           count(*) FILTER (WHERE lease_until > clock_timestamp()),
           coalesce(extract(epoch FROM clock_timestamp() - min(due_at) FILTER (WHERE due_at <= clock_timestamp())), 0)
    FROM objects_due GROUP BY controller"""
_LEASES = """
    SELECT name, shard, holder, epoch, extract(epoch FROM until - clock_timestamp()) FROM objects_lease
    ORDER BY name, shard"""
_QUEUE = """
    SELECT state, count(*), greatest(0, extract(epoch FROM clock_timestamp() - min(greatest(queued_at, due_at))))
    FROM failover_eviction WHERE due_at IS NOT NULL GROUP BY state"""
_CLUSTERS = "SELECT CASE ready WHEN '' THEN 'Unknown' ELSE ready END, count(*) FROM clusters_cluster GROUP BY 1"
_NOTICES = """
    SELECT channel, extract(epoch FROM clock_timestamp() - min(at)) FROM failover_notice
    WHERE sent_at IS NULL GROUP BY channel"""
_VERSION = """
    SELECT c.version, o.held_since IS NOT NULL FROM objects_counter c LEFT JOIN objects_origin o ON o.id = 1
    WHERE c.id = 1"""


class Work(msgspec.Struct, frozen=True, rename="camel"):
    """How many objects one controller has in due rows. `due`: are due now. `claimed`: are being worked on."""

    rows: int = 0
    due: int = 0
    claimed: int = 0
    oldest_seconds: float = 0.0


class Figures(msgspec.Struct, frozen=True):
    """All figures, read at one moment."""

    work: dict[str, Work]
    leases: list[tuple[str, int, str, int, float]]
    queue: dict[str, tuple[int, float]]
    clusters: dict[str, int]
    version: int
    held: bool  # nothing is written to members until a person confirms the restored database
    notices: dict[str, float]  # by channel that is set: how long the oldest notice waits; 0: none waits


_lock = Lock()
_last: tuple[float, Figures] | None = None


def figures() -> Figures:
    """Return figures that are at most one second old."""
    global _last
    with _lock:
        if _last is None or ticks() - _last[0] > FRESH_SECONDS:
            _last = (ticks(), _read())
        return _last[1]


def _read() -> Figures:
    with connection.cursor() as cursor:
        cursor.execute(_DUE)
        work = {name: Work(rows, due, claimed, float(age)) for name, rows, due, claimed, age in cursor.fetchall()}
        cursor.execute(_LEASES)
        leases = [(name, shard, holder, epoch, float(left)) for name, shard, holder, epoch, left in cursor.fetchall()]
        cursor.execute(_QUEUE)
        queue = {state: (count, float(age)) for state, count, age in cursor.fetchall()}
        cursor.execute(_CLUSTERS)
        clusters = dict(cursor.fetchall())
        cursor.execute(_NOTICES)
        waiting = {channel: float(age) for channel, age in cursor.fetchall()}
        cursor.execute(_VERSION)
        row = cursor.fetchone()
    version, held = row or (0, False)
    notices = {channel: waiting.get(channel, 0.0) for channel in channels()}
    return Figures(work, leases, queue, clusters, version, held, notices)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=labels)


class FleetCollector(Collector):
    """The figures as Prometheus metrics."""

    def collect(self) -> Any:
        found = figures()
        depth = _gauge("lifeboat_due_objects", "Objects that are due for a controller now.", "controller")
        age = _gauge(
            "lifeboat_due_oldest_seconds",
            "Age in seconds of the oldest object that is due for a controller.",
            "controller",
        )
        settings = base()
        for controller in CONTROLLERS:
            work = found.work.get(controller.name, Work())
            depth.add_metric([controller.name], work.due)
            # What is due for a controller that is disabled waits on purpose.
            age.add_metric([controller.name], work.oldest_seconds if settings.runs(controller.name) else 0.0)
        held = _gauge(
            "lifeboat_lease_held", "1 while the lease of a controller group is held.", "group", "shard", "holder"
        )
        for name, shard, holder, _, left in found.leases:
            held.add_metric([name, str(shard), holder], float(left > 0))
        queue = _gauge("lifeboat_evictions", "Evictions in the queue, by state.", "state")
        oldest = _gauge(
            "lifeboat_evictions_oldest_seconds",
            "Seconds for which the oldest eviction in the queue has waited since it was due, by state.",
            "state",
        )
        for state, (count, seconds) in found.queue.items():
            queue.add_metric([state], count)
            oldest.add_metric([state], seconds)
        clusters = _gauge("lifeboat_clusters", "Clusters, by status of their Ready condition.", "ready")
        for ready, count in found.clusters.items():
            clusters.add_metric([ready], count)
        version = GaugeMetricFamily(
            "lifeboat_resource_version", "The newest resourceVersion that was written.", value=found.version
        )
        text = "1 while nothing is written to members after a restore of the database, until an operator confirms it."
        restore = GaugeMetricFamily("lifeboat_restore_held", text, value=float(found.held))
        notices = _gauge(
            "lifeboat_notices_oldest_seconds", "Age in seconds of the oldest notice that was not sent yet.", "channel"
        )
        for channel, seconds in found.notices.items():
            notices.add_metric([channel], seconds)
        return [depth, age, held, queue, oldest, clusters, version, restore, notices]

    def describe(self) -> list[Any]:
        """Return nothing at registration, when the database may not be reachable yet."""
        return []


FLEET = CollectorRegistry()
for _collector in (FleetCollector(), EvictionCollector(), ClusterCollector()):
    FLEET.register(_collector)


class MetricsView(KubernetesView):
    """Serves the metrics of the fleet for Prometheus.

    Every API process answers with the same figures. At the metrics ports only one process has them
    (`apps.api.fleet_metrics`), beside what each process does itself.
    """

    http_method_names = ["get", "head"]

    def attributes(self, request: Request) -> Attributes:
        return path_attributes(request)

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """Accept any Accept header, because scrapers name formats for which REST framework has no renderer."""
        return super().perform_content_negotiation(request, force=True)

    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(generate_latest(FLEET), content_type=CONTENT_TYPE_LATEST)


class ControllersView(KubernetesView):
    """Serves, for each controller, its due objects, their age and the holders of its lease."""

    http_method_names = ["get", "head", "options"]

    def attributes(self, request: Request) -> Attributes:
        return path_attributes(request)

    def get(self, request: Request) -> Response:
        now = figures()
        controllers = []
        for controller in CONTROLLERS:
            holders = [
                {"shard": shard, "holder": holder, "epoch": epoch, "secondsLeft": round(left, 1)}
                for name, shard, holder, epoch, left in now.leases
                if name == controller.group
            ]
            work = now.work.get(controller.name, Work())
            controllers.append(
                {
                    "name": controller.name,
                    "group": controller.group,
                    "keys": list(controller.keys),
                    **msgspec.to_builtins(work),
                    "leases": holders,
                }
            )
        return Response(Answer({"resourceVersion": str(now.version), "controllers": controllers}))
