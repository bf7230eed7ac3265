"""Pagination of the browsable API: a list is shown in pages, each with a link to the next page."""

from __future__ import annotations

from typing import Any

import msgspec
from django.template import loader
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.utils.urls import replace_query_param

from apps.api.answer import ListAnswer
from apps.api.query import Listing

PAGE_SIZE = 100  # objects on a page in a browser
COUNTED = 1000  # objects after the page; beyond that the page says "more than"


class ContinuePagination(BasePagination):
    """Pages by the query parameters `limit` and `continue`, as Kubernetes lists have them.

    API clients choose their own limit. Only pages in a browser are limited to PAGE_SIZE objects.
    """

    display_page_controls = False
    template = "api/next_page.html"

    def limited(self, listing: Listing) -> Listing:
        """Return the list options for one page in a browser. What follows is counted up to COUNTED + 1."""
        limit = min(listing.limit or PAGE_SIZE, PAGE_SIZE)
        return msgspec.structs.replace(listing, limit=limit, most_counted=COUNTED + 1)

    def show(self, answer: ListAnswer, request: Request) -> None:
        """Prepare the page controls for a list. A list that ends on this page gets no controls."""
        token = answer.list_meta.get("continue")
        self.display_page_controls = bool(token)
        following = answer.list_meta.get("remainingItemCount", 0)
        self._context = {
            "shown": len(answer.texts),
            "remaining": f"more than {COUNTED:,}" if following > COUNTED else following,
            "next_page": replace_query_param(request.get_full_path(), "continue", token),
        }

    def to_html(self) -> Any:
        """Return the page controls. REST framework's template calls this if `display_page_controls` is true."""
        return loader.get_template(self.template).render(self._context)

    def get_results(self, data: Any) -> Any:
        """Return the objects of a page. REST framework asks for them; filters of querysets are not used here."""
        return data.texts if isinstance(data, ListAnswer) else data
