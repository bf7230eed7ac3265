"""Middleware: measures each request by method, view and status with django-prometheus, and makes it a span.

django-prometheus has about thirty metric families. Two of them are kept, because nothing reads the others.
"""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django_prometheus.conf import NAMESPACE, PROMETHEUS_LATENCY_BUCKETS
from django_prometheus.middleware import Metrics, PrometheusAfterMiddleware
from django_prometheus.utils import Time, TimeSince
from prometheus_client import Counter, Histogram

from apps.objects.tracing import mark, span

OTHER: Final = "other"


class KeptMetrics(Metrics):
    """The number of answers by status, and the time that requests took, both by view and method."""

    def register(self) -> None:
        self.responses_by_status_view_method = self.register_metric(
            Counter,
            "django_http_responses_total_by_status_view_method",
            "Answers of the API and the admin.",
            ["status", "view", "method"],
            namespace=NAMESPACE,
        )
        self.requests_latency_by_view_method = self.register_metric(
            Histogram,
            "django_http_requests_latency_seconds_by_view_method",
            "Seconds until the API or the admin answered a request; of a watch, until it began.",
            ["view", "method"],
            buckets=PROMETHEUS_LATENCY_BUCKETS,
            namespace=NAMESPACE,
        )


def measure(view: type, method: str, status: int, seconds: float) -> None:
    """Count a request that a view answered without this middleware."""
    metrics, labels = KeptMetrics.get_instance(), {"view": view.__name__, "method": method}
    metrics.responses_by_status_view_method.labels(status=str(status), **labels).inc()
    metrics.requests_latency_by_view_method.labels(**labels).observe(seconds)


class RequestMetrics(PrometheusAfterMiddleware):
    """Measures requests that reach Django. The first middleware, so that it measures the others as well."""

    metrics_cls = KeptMetrics

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with span(f"{self._method(request)} {request.path}"):
            response: HttpResponseBase = super().__call__(request)
            mark(code=response.status_code)
        return response

    def process_request(self, request: Any) -> None:
        request.prometheus_after_middleware_event = Time()

    def process_view(self, *arguments: Any, **more: Any) -> None:
        """Measure nothing: the families by view alone are not kept."""

    def process_template_response(self, request: Any, response: Any) -> Any:
        return response

    def process_exception(self, request: Any, exception: Any) -> None:
        """Measure nothing: the answer to an exception is counted as every answer."""

    def process_response(self, request: Any, response: HttpResponseBase) -> HttpResponseBase:
        view, method = self._get_view_name(request), self._method(request)
        labels = {"status": str(response.status_code), "view": view, "method": method}
        self.label_metric(self.metrics.responses_by_status_view_method, request, response, **labels).inc()
        took = TimeSince(request.prometheus_after_middleware_event)
        latency = self.metrics.requests_latency_by_view_method
        self.label_metric(latency, request, response, view=view, method=method).observe(took)
        return response

    def _get_view_name(self, request: HttpRequest) -> str:
        """Return the name of the view that answered: a class of the API, or the module of a library's view."""
        match = request.resolver_match
        if match is None:
            return OTHER
        view = getattr(match.func, "view_class", None) or getattr(match.func, "cls", None)
        if view is not None:
            return str(view.__name__)
        return "admin" if match.app_names == ["admin"] else str(getattr(match.func, "__name__", OTHER))
