"""The address at which Prometheus scrapes one process (LIFEBOAT_METRICS_PORT). It needs no login."""

from __future__ import annotations

from django.conf import settings
from prometheus_client import REGISTRY, CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from config.metrics_folder import is_shared


def serve_metrics(*more: Collector, port: int | None = None) -> None:
    """Serve the metrics of this process, of the processes of its pool, and of `more`, in a thread. Port 0: do not.

    `port` None: LIFEBOAT_METRICS_PORT.
    Raises SystemExit if the port cannot be opened: what was asked for must not be missing unnoticed.
    """
    port = settings.METRICS_PORT if port is None else port
    if not port:
        return
    registry = _registry()
    for collector in more:
        registry.register(collector)
    try:
        start_http_server(port, addr=settings.METRICS_HOST, registry=registry)
    except OSError as error:
        raise SystemExit(
            f"LIFEBOAT_METRICS_PORT={settings.METRICS_PORT}: port {port} of {settings.METRICS_HOST} cannot be listened "
            f"on: {error}; "
            "give each process of a host a port of its own, or 0 for none"
        ) from error


def _registry() -> CollectorRegistry:
    if not is_shared():
        return REGISTRY
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    ProcessCollector(registry=registry)
    return registry
