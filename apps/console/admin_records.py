"""The admin's page of failovers on record: a sentence for each, with the links to what it names."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NamedTuple

from django.http import Http404, HttpRequest
from django.urls import reverse

from apps.console.object_links import binding_url, record_url
from apps.console.records import records_of
from apps.failover.begun import FailoverChoice, begun_page
from controlplane.insight.failover_sentence import begun_sentence, record_sentence

SHOWN: Final = 30  # failovers on a page: 50 take more than 30 ms of CPU on a slow machine
MOST_CHANGES: Final = 200  # newest changes of each binding that are read


class FailoverSummary(NamedTuple):
    """A failover of the list."""

    sentence: str
    reason: str
    at: datetime
    record: str
    binding: str
    is_running: bool


def context(request: HttpRequest) -> dict[str, Any]:
    """Return the variables of the page. The number of queries does not depend on the number of failovers."""
    choice = FailoverChoice(
        cluster=request.GET.get("cluster", "").strip(), namespace=request.GET.get("namespace", "").strip()
    )
    before = request.GET.get("before", "")
    if before and not (before.isascii() and before.isdecimal() and len(before) <= 18):
        raise Http404(f"before={before} is not a version")
    page = begun_page(choice, before=int(before) if before else None, limit=SHOWN)
    records, _ = records_of(page, most_changes=MOST_CHANGES)
    by_name = {record.metadata.name: record for record in records}
    summaries = [
        FailoverSummary(
            record_sentence(by_name[begun.name]) if begun.name in by_name else begun_sentence(begun),
            begun.reason,
            begun.at,
            record_url(begun.name),
            binding_url(begun.binding),
            begun.name in page.running,
        )
        for begun in page.failovers
    ]
    query = request.GET.copy()
    if page.after is not None:
        query["before"] = str(page.after)
    return {
        "title": "Failover records",
        "failovers": summaries,
        "choice": choice,
        "more": f"{reverse('admin:failovers')}?{query.urlencode()}" if page.after is not None else "",
    }
