"""Middleware: what this server says about its users and objects is kept by no shared cache, as in Kubernetes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase

HEADER: Final = "Cache-Control"
PRIVATE: Final = "no-cache, private"


class Caching:
    """Sets the header of answers that say nothing about caches. Stands behind the middleware of static files."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers.setdefault(HEADER, PRIVATE)
        return response
