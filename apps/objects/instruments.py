"""Metrics of one process: what it decided, wrote and asked, and how long that took.

Figures of the whole fleet are not here: one API process serves them, read from the database. So a sum over processes
counts nothing twice. Labels have few values: controllers, clusters, HTTP methods, views and codes.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Final, Protocol

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

from apps.objects.tracing import span
from controlplane.engine.state import Actor

disable_created_metrics()  # one series less for each counter and histogram

USERS: Final = "users"  # the label `writer` of all writes that no controller made
_SHORT: Final = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 1, 5)
_LONG: Final = (0.005, 0.025, 0.1, 0.3, 1, 3, 10, 30)

RECONCILED: Final = Counter(
    "lifeboat_reconciled_objects", "Objects that a controller has decided about.", ["controller"]
)
ERRORS: Final = Counter(
    "lifeboat_reconcile_errors", "Decisions and batches of a controller that raised an exception.", ["controller"]
)
PHASES: Final = Histogram(
    "lifeboat_reconcile_seconds",
    "Seconds that a batch of a controller spent in a phase: load, ask, decide or apply.",
    ["controller", "phase"],
    buckets=_SHORT,
)
CONFLICTS: Final = Counter(
    "lifeboat_write_conflicts", "Decisions that were not stored because an object had changed.", ["writer"]
)
LOCKED: Final = Histogram(
    "lifeboat_write_lock_seconds",
    "Seconds for which a transaction of this process held the write lock.",
    buckets=_SHORT,
)
MEMBER_REQUESTS: Final = Histogram(
    "lifeboat_member_request_seconds",
    "Seconds until a member cluster answered: probe, collect, apply or remove.",
    ["cluster_name", "request"],
    buckets=_LONG,
)
MEMBER_ERRORS: Final = Counter(
    "lifeboat_member_request_errors",
    "Requests that a member cluster did not answer, refused (401, 403) or failed (5xx).",
    ["cluster_name", "request"],
)
REFUSED: Final = Counter("lifeboat_refused_writes", "Requests to write that were refused, by HTTP code.", ["code"])
AUDIT_LEFT_OUT: Final = Counter(
    "lifeboat_audit_left_out",
    "Requests without an audit event: too many were refused at once, or it cannot be stored.",
    ["limit"],
)
NOTICES: Final = Counter("lifeboat_notices", "Messages with notices, by channel and result.", ["channel", "result"])
STREAMS: Final = Gauge(
    "lifeboat_streams",
    "Streams that this process serves: watches, and one for each browser with live pages.",
    ["kind"],
    multiprocess_mode="livesum",
)
TICKS: Final = Counter("lifeboat_ticks", "Ticks that beat has sent, or the broker has refused.", ["result"])

_clusters: set[str] = set()  # clusters that have series


class _Inner(threading.local):
    """For each phase of this thread that has begun: the seconds of phases within it."""

    def __init__(self) -> None:
        self.seconds: list[float] = []


_inner = _Inner()


class Timed(Protocol):
    """A transaction, with the seconds for which it held the write lock."""

    @property
    def locked_seconds(self) -> float: ...


@contextmanager
def phase(controller: str, name: str) -> Iterator[None]:
    """Measure one phase of a batch of a controller. A phase within it counts for itself only."""
    inner, began = _inner.seconds, perf_counter()
    inner.append(0.0)
    try:
        with span(name, controller=controller):
            yield
    finally:
        took = perf_counter() - began
        PHASES.labels(controller, name).observe(took - inner.pop())
        if inner:
            inner[-1] += took


def expect(controllers: Iterable[str]) -> None:
    """Make the series of errors of these controllers begin at 0, so that the first error is seen as an increase."""
    for name in controllers:
        ERRORS.labels(name)


def transaction(timing: Timed) -> None:
    """Count one transaction that wrote objects."""
    LOCKED.observe(timing.locked_seconds)


def conflicts(count: int, *, by: Actor) -> None:
    """Count decisions that were not stored because an object had changed."""
    if count:
        CONFLICTS.labels(by.name if by.controller else USERS).inc(count)


def member_request(cluster: str, request: str, *, seconds: float, failed: bool) -> None:
    """Count one request to a member cluster."""
    _clusters.add(cluster)
    MEMBER_REQUESTS.labels(cluster, request).observe(seconds)
    if failed:
        MEMBER_ERRORS.labels(cluster, request).inc()


def keep_clusters(names: Collection[str]) -> None:
    """Remove the series of clusters that are not among `names`: they were unjoined."""
    for name in [one for one in _clusters if one not in names]:
        _clusters.discard(name)
        for metric in (MEMBER_REQUESTS, MEMBER_ERRORS):
            metric.remove_by_labels({"cluster_name": name})
