"""The choice of a renderer by the header Accept, on all ways in which a request is answered."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import SuspiciousOperation
from django.http import Http404
from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation

ANY = "*/*"


class Negotiation(DefaultContentNegotiation):
    """REST framework's choice, but an empty header counts as absent, and one that cannot be parsed gives 406."""

    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        try:
            return super().select_renderer(request, renderers, format_suffix)
        except (NotAcceptable, Http404, SuspiciousOperation):  # the last: of the query
            raise
        except Exception as error:  # the parser of headers fails with errors of several types
            raise NotAcceptable(available_renderers=renderers) from error

    def get_accept_list(self, request: Any) -> list[str]:
        if not request.headers.get("accept", ANY).strip():
            return [ANY]
        accepted: list[str] = super().get_accept_list(request)
        return accepted
