"""GET /records, /records/<name> and the same with .md: failovers on record, their phases as lanes, and the report."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from shlex import quote
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import urlencode

from django.http import HttpResponse, HttpResponseBase
from rest_framework.request import Request

from apps.api.authorization import Attributes
from apps.console.object_links import binding_url, record_url, workload_url
from apps.console.page import Page, namespaced_attributes
from apps.failover.begun import BegunPage, FailoverChoice, begun_page, binding_of, probe_turns
from apps.objects import failovers
from apps.objects.store import store
from controlplane.apimachinery.errors import BadRequest, NotFound
from controlplane.apimachinery.meta import Ref, kind_key
from controlplane.insight.begun import Begun, Outage, outages
from controlplane.insight.lane_chart import chart
from controlplane.insight.lanes import PHASES, lanes
from controlplane.insight.report import report, seconds_text, stamp
from controlplane.kinds import BINDINGS
from controlplane.kinds.failover_record import RESOURCE, RUNNING, FailoverRecord

MOST_CHANGES: Final = 200  # newest changes of each binding that the lanes of a list are made from
MOST_REPORTED: Final = 500  # failovers of one report
_SECOND: Final = timedelta(seconds=1)
MARKDOWN: Final = "text/markdown; charset=utf-8"
STEP_BADGES: Final = {
    "Seen": "bad",
    "Tainted": "warn",
    "WaitedFor": "warn",
    "Decided": "info",
    "Scheduled": "info",
    "Started": "info",
    "Healthy": "ok",
    "Cleared": "ok",
    "Removed": "off",
}


class RecordLine(NamedTuple):
    """A failover of the list."""

    begun: Begun
    url: str
    workload_url: str
    is_running: bool
    took: str


class RecordsPage(Page):
    """The failovers on record, newest first."""

    title = "Records"
    template_name = "console/records.html"
    topics: ClassVar = {"records": BINDINGS}
    resource = RESOURCE

    def attributes(self, request: Request) -> Attributes:
        return namespaced_attributes(self, request, RESOURCE)

    def kubectl(self) -> str:
        namespace = self.query.get("namespace", "")
        return f"kubectl get failoverrecords {f'-n {quote(namespace)}' if namespace else '-A'}"

    def context(self, request: Request) -> dict[str, Any]:
        query, now = request.query_params, store().now()
        choice = choice_of(query)
        before = _before(query.get("before", ""))
        page = begun_page(choice, before=before)
        if before is not None and not page.failovers and page.after is None:  # the change log lost what was older
            page = begun_page(choice)
        records, missing = records_of(page, most_changes=MOST_CHANGES)
        found = lanes(records, turned_at=probe_turns(store(), records), now=now)
        took = {record.metadata.name: record.status.durations.total for record in records}
        return {
            "now": now,
            "filtered": choice != FailoverChoice(),
            "values": {name: query.get(name, "").strip() for name in ("cluster", "namespace", "since", "until")},
            "lines": [
                RecordLine(
                    begun,
                    record_url(begun.name, choice.namespace),
                    binding_url(begun.binding),
                    begun.name in page.running,
                    seconds_text(took.get(begun.name)),
                )
                for begun in page.failovers
            ],
            "outages": [
                {"outage": outage, "query": urlencode(_times(outage, choice.namespace))}
                for outage in outages(page.failovers)
            ],
            "lanes": [(lane, seconds_text(lane.longest_seconds)) for lane in found],
            "phases": PHASES,
            "chart": chart(found, now=now),
            "missing": missing,
            "more": "" if page.after is None else urlencode({**_sent(query), "before": page.after}),
            "markdown": urlencode(_sent(query)),
        }


class RecordsReport(RecordsPage):
    """The report about the failovers that a filter finds, as Markdown."""

    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        choice, now = choice_of(request.query_params), store().now()
        page = begun_page(choice, before=_before(request.query_params.get("before", "")), limit=MOST_REPORTED)
        records, missing = records_of(page, most_changes=MOST_CHANGES)
        omissions = [missing] if missing else []
        if page.after is not None:
            omissions.append(f"Only the {len(page.failovers)} newest failovers are in this report; narrow the times.")
        text = report(
            records, title=_title(choice), turned_at=probe_turns(store(), records), omissions=omissions, now=now
        )
        return markdown(text, name="failovers")


class RecordPage(Page):
    """One failover: its phases and its steps."""

    title = "Record"
    template_name = "console/record.html"
    resource = RESOURCE

    def attributes(self, request: Request) -> Attributes:
        return namespaced_attributes(self, request, RESOURCE)

    def subjects(self) -> dict[str, tuple[str, ...]]:
        ref = binding_of(self.kwargs["name"])
        return {"record": (str(ref),)} if ref is not None else {}

    def context(self, request: Request) -> dict[str, Any]:
        record, now = find_record(self.kwargs["name"], namespace_of(request)), store().now()
        found = lanes([record], turned_at=probe_turns(store(), [record]), now=now)
        status = record.status
        template = Ref(
            kind_key(status.resource.api_version, status.resource.kind), status.resource.namespace, status.resource.name
        )
        return {
            "now": now,
            "title": f"Record {record.metadata.name}",
            "record": record,
            "is_running": status.state == RUNNING,
            "binding_url": binding_url(Ref.parse(status.binding)),
            "workload_url": workload_url(template),
            "kubectl": f"kubectl get failoverrecords -n {record.metadata.namespace} {record.metadata.name} -o yaml",
            "lanes": [(lane, seconds_text(lane.longest_seconds)) for lane in found],
            "phases": PHASES,
            "chart": chart(found, now=now),
            "steps": [(step, STEP_BADGES.get(step.what, "info")) for step in status.steps],
            "total": seconds_text(status.durations.total),
            "markdown": record_url(f"{record.metadata.name}.md", namespace_of(request)),
        }


class RecordReport(RecordPage):
    """The report about one failover as Markdown."""

    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        record, now = find_record(self.kwargs["name"], namespace_of(request)), store().now()
        title = f"Failover {record.metadata.name}"
        text = report([record], title=title, turned_at=probe_turns(store(), [record]), now=now)
        return markdown(text, name=record.metadata.name)


def markdown(text: str, *, name: str) -> HttpResponse:
    """Return a report as an answer that a browser shows, and saves under a name."""
    response = HttpResponse(text, content_type=MARKDOWN)
    response["Content-Disposition"] = f'inline; filename="{name}.md"'
    response["Cache-Control"] = "no-store"
    return response


def namespace_of(request: Request) -> str:
    """Return the namespace that a request is limited to; "": none."""
    return request.query_params.get("namespace", "").strip()


def find_record(name: str, namespace: str) -> FailoverRecord:
    """Return a record by its name, and by its namespace unless that is "". Raises NotFound."""
    ref = binding_of(name)
    for record in failovers.of_binding(ref) if ref is not None else ():
        if record.metadata.name == name and namespace in ("", record.metadata.namespace):
            return record
    raise NotFound.of(RESOURCE.plural, name, group=RESOURCE.group)


def records_of(page: BegunPage, *, most_changes: int) -> tuple[list[FailoverRecord], str]:
    """Return the records of listed failovers, and a sentence about those whose changes are too many ("": none)."""
    names = {begun.name for begun in page.failovers}
    bindings = list(dict.fromkeys(begun.binding for begun in page.failovers))
    found = failovers.of_bindings(bindings, most_changes=most_changes) if bindings else ()
    records = [record for record in found if record.metadata.name in names]
    missing = len(names) - len(records)
    if not missing:
        return records, ""
    return records, (
        f"{missing} of {len(names)} failovers are not in the lanes, because their bindings have more than "
        f"{most_changes} later changes: open their records."
    )


def choice_of(query: Mapping[str, Any]) -> FailoverChoice:
    """Return which failovers a query chooses. Raises BadRequest for a time that cannot be read."""
    return FailoverChoice(
        cluster=query.get("cluster", "").strip(),
        namespace=query.get("namespace", "").strip(),
        since=_time("since", query.get("since", "").strip()),
        until=_time("until", query.get("until", "").strip()),
    )


def _time(name: str, text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):  # the first and the last hours of the calendar are not in every zone
        raise BadRequest(f'{name}: "{text}" is not a time; write it in UTC, as 2026-11-22T03:12:00Z') from None


def _before(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 19 else None


def _sent(query: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: value for name in ("cluster", "namespace", "since", "until") if (value := query.get(name, "").strip())
    }


def _times(outage: Outage, namespace: str) -> dict[str, str]:
    """Return the filter for an outage, to whole seconds around it."""
    place = {"namespace": namespace} if namespace else {}
    until = outage.until.replace(microsecond=0) + _SECOND
    return {"cluster": outage.cluster, **place, "since": stamp(outage.since), "until": stamp(until)}


def _title(choice: FailoverChoice) -> str:
    parts = [f"of cluster {choice.cluster}"] if choice.cluster else []
    parts += [f"in namespace {choice.namespace}"] if choice.namespace else []
    parts += [f"since {stamp(choice.since)}"] if choice.since else []
    parts += [f"until {stamp(choice.until)}"] if choice.until else []
    return " ".join(["Failovers", *parts])
