"""Middleware: measures each request by method, view and code, and makes it a span."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from apps.api.clock import ticks
from apps.objects.instruments import API_REQUESTS
from apps.objects.tracing import mark, span

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER: Final = "other"


class RequestMetrics:
    """Measures requests that reach Django. The first middleware, so that it measures the others as well."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        began, method = ticks(), request.method if request.method in _METHODS else OTHER
        with span(f"{method} {request.path}"):
            response = self.get_response(request)
            mark(code=response.status_code)
        API_REQUESTS.labels(method, view_of(request), response.status_code).observe(ticks() - began)
        return response


def view_of(request: HttpRequest) -> str:
    """Return the name of the view that answered: a class of the API, or the module of a library's view."""
    match = request.resolver_match
    if match is None:
        return OTHER
    view = getattr(match.func, "view_class", None) or getattr(match.func, "cls", None)
    if view is not None:
        return str(view.__name__)
    return "admin" if match.app_names == ["admin"] else str(getattr(match.func, "__name__", OTHER))
