"""What the machinery is doing: /metrics for scrapers, /debug/controllers for people; at most a second old."""

from __future__ import annotations

from threading import Lock
from typing import Any

import msgspec
from django.db import connection
from django.http import HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
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
from controlplane.controllers import CONTROLLERS

FRESH_SECONDS = 1.0

_DUE = """
    SELECT controller, count(*),
           count(*) FILTER (WHERE due_at <= clock_timestamp()),
           count(*) FILTER (WHERE lease_until > clock_timestamp()),
           coalesce(extract(epoch FROM clock_timestamp() - min(due_at) FILTER (WHERE due_at <= clock_timestamp())), 0)
    FROM objects_due GROUP BY controller"""
_LEASES = """
    SELECT name, shard, holder, epoch, extract(epoch FROM until - clock_timestamp()) FROM objects_lease
    ORDER BY name, shard"""
_QUEUE = """
    SELECT state, count(*), coalesce(extract(epoch FROM clock_timestamp() - min(queued_at)), 0)
    FROM failover_eviction WHERE due_at IS NOT NULL GROUP BY state"""
_CLUSTERS = "SELECT CASE ready WHEN '' THEN 'Unknown' ELSE ready END, count(*) FROM clusters_cluster GROUP BY 1"
_VERSION = """
    SELECT c.version, o.held_since IS NOT NULL FROM objects_counter c LEFT JOIN objects_origin o ON o.id = 1
    WHERE c.id = 1"""


class Work(msgspec.Struct, frozen=True, rename="camel"):
    """What waits for one controller."""

    rows: int = 0
    due: int = 0
    claimed: int = 0
    oldest_seconds: float = 0.0


class Figures(msgspec.Struct, frozen=True):
    """One look at the machinery."""

    work: dict[str, Work]
    leases: list[tuple[str, int, str, int, float]]
    queue: dict[str, tuple[int, float]]
    clusters: dict[str, int]
    version: int
    held: bool  # members are left alone after a restore


_lock = Lock()
_last: tuple[float, Figures] | None = None


def figures() -> Figures:
    """Return figures not older than a second."""
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
        cursor.execute(_VERSION)
        row = cursor.fetchone()
    version, held = row or (0, False)
    return Figures(work, leases, queue, clusters, version, held)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=labels)


class FleetCollector(Collector):
    """The figures as Prometheus metrics."""

    def collect(self) -> Any:
        found = figures()
        depth = _gauge("lifeboat_due_objects", "Objects a controller has to look at now.", "controller")
        age = _gauge("lifeboat_due_oldest_seconds", "How long the oldest of them waits.", "controller")
        for controller in CONTROLLERS:
            work = found.work.get(controller.name, Work())
            depth.add_metric([controller.name], work.due)
            age.add_metric([controller.name], work.oldest_seconds)
        held = _gauge("lifeboat_lease_held", "1 while the lease is held.", "group", "shard", "holder")
        for name, shard, holder, _, left in found.leases:
            held.add_metric([name, str(shard), holder], float(left > 0))
        queue = _gauge("lifeboat_evictions", "Evictions by state.", "state")
        oldest = _gauge("lifeboat_evictions_oldest_seconds", "Age of the oldest, by state.", "state")
        for state, (count, seconds) in found.queue.items():
            queue.add_metric([state], count)
            oldest.add_metric([state], seconds)
        clusters = _gauge("lifeboat_clusters", "Clusters by their Ready condition.", "ready")
        for ready, count in found.clusters.items():
            clusters.add_metric([ready], count)
        version = GaugeMetricFamily("lifeboat_resource_version", "The newest resourceVersion.", value=found.version)
        told = "1 while members are left alone after a restore, until a person confirms."
        restore = GaugeMetricFamily("lifeboat_restore_held", told, value=float(found.held))
        return [depth, age, held, queue, oldest, clusters, version, restore]

    def describe(self) -> list[Any]:
        """Say nothing when registered: the database may not be there yet."""
        return []


REGISTRY.register(FleetCollector())
REGISTRY.register(EvictionCollector())
REGISTRY.register(ClusterCollector())


class MetricsView(KubernetesView):
    """Everything Prometheus wants to know."""

    http_method_names = ["get", "head"]

    def attributes(self, request: Request) -> Attributes:
        return path_attributes(request)

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """Take any Accept: scrapers name formats REST framework has no renderer for."""
        return super().perform_content_negotiation(request, force=True)

    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(generate_latest(REGISTRY), content_type=CONTENT_TYPE_LATEST)


class ControllersView(KubernetesView):
    """Per controller: what waits, how long, who works on it."""

    http_method_names = ["get", "head", "options"]

    def attributes(self, request: Request) -> Attributes:
        return path_attributes(request)

    def get(self, request: Request) -> Response:
        found = figures()
        shown = []
        for controller in CONTROLLERS:
            holders = [
                {"shard": shard, "holder": holder, "epoch": epoch, "secondsLeft": round(left, 1)}
                for name, shard, holder, epoch, left in found.leases
                if name == controller.group
            ]
            work = found.work.get(controller.name, Work())
            shown.append(
                {
                    "name": controller.name,
                    "group": controller.group,
                    "keys": list(controller.keys),
                    **msgspec.to_builtins(work),
                    "leases": holders,
                }
            )
        return Response(Answer({"resourceVersion": str(found.version), "controllers": shown}))
