"""Traces with OpenTelemetry, if an endpoint is set: spans of requests, turns, phases of controllers, and of members.

The packages are optional (requirements-tracing.txt). Without an endpoint nothing is imported, and a span costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from config import env
from controlplane.engine.decision import Decision
from controlplane.engine.state import Outcome

PACKAGES: Final = "pip install -r requirements-tracing.txt"
LONGEST_LIST: Final = 20  # causes that a span names
_tracer: Any = None  # None: no endpoint is set
_NOTHING: Final = nullcontext()


def start(process: str) -> None:
    """Export the spans of this process. `process`: api, worker, beat or members. Call it after a fork.

    Raises SystemExit if an endpoint is set and the packages are missing.
    """
    global _tracer
    # Where spans are sent (OTLP over HTTP). The name of the variable is OpenTelemetry's.
    endpoint = env.text("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    if not endpoint or _tracer is not None:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise SystemExit(
            f"OTEL_EXPORTER_OTLP_ENDPOINT={endpoint}: {error}; install the packages ({PACKAGES}), or unset the variable"
        ) from error
    resource = Resource.create({"service.name": f"lifeboat-{process}", "service.namespace": "lifeboat"})
    provider = TracerProvider(resource=resource)
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    _tracer = provider.get_tracer("lifeboat")


def is_on() -> bool:
    """Test whether spans of this process are exported."""
    return _tracer is not None


def span(name: str, **attributes: Any) -> AbstractContextManager[Any]:
    """Return a context manager for one step. Attributes are names, numbers and versions, never contents."""
    if _tracer is None:
        return _NOTHING
    marked = {f"lifeboat.{key}": value for key, value in attributes.items()}
    started: AbstractContextManager[Any] = _tracer.start_as_current_span(name, attributes=marked)
    return started


def mark_written(decisions: Iterable[Decision], outcomes: Iterable[Outcome]) -> None:
    """Add to the present span the versions that were written, and the versions that the decisions reacted to.

    A cause is a version that an earlier span wrote. So the spans of one failover can be put in order.
    """
    if _tracer is None:
        return
    versions = [version for outcome in outcomes for version in outcome.versions if version]
    if versions:
        causes = sorted({decision.cause for decision in decisions if decision.cause})
        mark(first_version=min(versions), last_version=max(versions), causes=causes[:LONGEST_LIST])


def mark(**attributes: Any) -> None:
    """Add attributes to the present span, for example the versions that a step wrote."""
    if _tracer is not None:
        from opentelemetry.trace import get_current_span

        get_current_span().set_attributes({f"lifeboat.{key}": value for key, value in attributes.items()})
