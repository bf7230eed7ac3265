"""GET /readiness: whether each binding would fail over, what prevents it and what to do about it; also as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple

from django.db.models import QuerySet
from django.http import HttpResponse
from rest_framework.request import Request

from apps.api.authorization import Attributes
from apps.console.object_links import api_url, binding_url
from apps.console.page import Page, namespaced_attributes
from apps.failover.models import BindingReadiness
from apps.failover.readiness import stored_answers
from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.objects.tallies import answers
from controlplane.apimachinery.meta import Ref
from controlplane.controllers.readiness import Readiness
from controlplane.controllers.reads.readiness_state import situation_of
from controlplane.insight.fleet_answer import WAITING, fleet_status
from controlplane.insight.readiness import fleet_obstacles
from controlplane.insight.readiness_row import ATTACHED, BLOCKED, IMPAIRED, READY, VERDICTS
from controlplane.kind import KINDS
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.obstacle import BLOCKS

PAGE: Final = 50  # bindings on a page: 100 take more than 30 ms of CPU
MAX_BINDINGS: Final = 40_000  # in a CSV file
CHUNK: Final = 2000
FILTERS: Final = ("verdict", "obstacle", "cluster", "namespace")
BADGES: Final = {READY: "ok", IMPAIRED: "warn", BLOCKED: "bad", ATTACHED: "info"}
BARS: Final = {READY: "ok", IMPAIRED: "warn", BLOCKED: "bad", ATTACHED: "off"}
COLUMNS: Final = (
    *("namespace", "name", "workload", "verdict", "clusters", "obstacle", "severity", "cluster", "message", "remedy"),
    "since",
)


class ReadinessPage(Page):
    """The stored answers, filtered and page by page. The number of queries does not depend on the bindings."""

    title = "Readiness"
    template_name = "console/readiness.html"
    topics: ClassVar = {"readiness": ("ReadinessRound",), "bindings": ("ReadinessRound",)}
    resource = KINDS[RESOURCE_BINDING].resource

    def attributes(self, request: Request) -> Attributes:
        """Return what a request attempts: to list the bindings of all namespaces, or of the namespace of the filter."""
        return namespaced_attributes(self, request, self.resource)

    def kubectl(self) -> str:
        return "kubectl get fleetreadinesses -o yaml"

    @cached_property
    def chosen(self) -> dict[str, str]:
        """The filters that are set, by name."""
        given = ((name, self.query.get(name, "").strip()) for name in FILTERS)
        return {name: value for name, value in given if value}

    def context(self, request: Request) -> dict[str, Any]:
        summary = {} if self.part == "bindings" else self._summary()
        return {**summary, **self._listed(), "choices": VERDICTS, "chosen": self.chosen}

    def _summary(self) -> dict[str, Any]:
        """Return what the page says about the fleet."""
        reading, settings = store(), configuration().settings()
        fleet_wide = fleet_obstacles(situation_of(reading), settings, now=reading.now())
        status = fleet_status(stored_answers(reading), fleet_wide, switched_on=settings.runs(Readiness.name))
        everywhere = {WAITING.what, *(one.what for one in fleet_wide)}  # obstacles that no row has
        return {
            "fleet": status,
            "stopped": [one for one in fleet_wide if one.severity == BLOCKS],
            "verdicts": [(one.verdict, BADGES[one.verdict], one.bindings) for one in status.verdicts],
            "bar": [(BARS[one.verdict], one.bindings, one.verdict) for one in status.verdicts],
            "names": [line.what for line in status.obstacles if line.what not in everywhere],
            "everywhere": everywhere,
        }

    def _listed(self) -> dict[str, Any]:
        """Return a page of the rows that match the filters, and their number."""
        after = self.query.get("after", "")
        rows: list[Any] = list(self._rows().filter(key__gt=after)[: PAGE + 1])
        if not rows and after:  # the bindings from here on are gone, or have other verdicts, since the link was shown
            after, rows = "", list(self._rows()[: PAGE + 1])
        return {
            "counted": self._counted(rows, after),
            "rows": [_line(row) for row in rows[:PAGE]],
            "next_page": self._url(after=rows[PAGE - 1].key) if len(rows) > PAGE else "",
            "first_page": self._url() if after else "",
            "csv": self._url(path="/readiness.csv"),
        }

    def _counted(self, rows: Sequence[Any], after: str) -> str:
        """Return the number of bindings that match the filters, in words. `rows`: those of this page, and one more.

        There is no table of the bindings of a cluster in a namespace: more than one page of them are not counted.
        """
        if not self.chosen.keys() >= {"cluster", "namespace"}:
            number = answers(**self.chosen)
        elif after or len(rows) > PAGE:
            return f"more than {PAGE} bindings"
        else:
            number = len(rows)
        return f"{number:,} {'binding' if number == 1 else 'bindings'}"

    def _rows(self) -> QuerySet[BindingReadiness]:
        """Return the rows that match the filters, in the order of their references."""
        found, chosen = BindingReadiness.objects.order_by("key"), self.chosen
        if "verdict" in chosen:
            found = found.filter(verdict=chosen["verdict"])
        if "namespace" in chosen:
            found = found.filter(namespace=chosen["namespace"])
        if "cluster" in chosen:
            found = found.filter(clusters__contains=[chosen["cluster"]])
        if "obstacle" in chosen:
            found = found.filter(obstacles__contains=[{"what": chosen["obstacle"]}])
        return found

    def _url(self, *, path: str = "/readiness", **more: str) -> str:
        query = self.query.copy()
        query.clear()
        query.update({**self.chosen, **more})
        return f"{path}?{query.urlencode()}" if query else path


class ReadinessFile(ReadinessPage):
    """The stored answers that match the filters, as CSV: a line for each obstacle, or one line without obstacles.

    A file has at most MAX_BINDINGS bindings, so that it costs less than a second. If more follow, its last line and the
    header Link name the URL of the next file.
    """

    topics: ClassVar = {}

    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(COLUMNS)
        last = ""
        for count, row in enumerate(self._answers()):
            if count == MAX_BINDINGS:
                break
            last = row.key
            obstacles: Sequence[Mapping[str, str]] = row.obstacles or ({},)
            writer.writerows(_cells(row, obstacle) for obstacle in obstacles)
        else:
            last = ""
        response = HttpResponse(content_type="text/csv; charset=utf-8")
        if last:
            following = self._url(path="/readiness.csv", after=last)
            writer.writerow([f"# not complete: this file has {MAX_BINDINGS:,} bindings; the next ones: {following}"])
            response["Link"] = f'<{following}>; rel="next"'
        response.content = text.getvalue()
        response["Content-Disposition"] = f'attachment; filename="readiness{"-part" if last else ""}.csv"'
        response["Cache-Control"] = "no-store"
        return response

    def _answers(self) -> Iterator[_Answer]:
        """Yield the rows after the parameter `after`, read in chunks."""
        after = self.query.get("after", "")
        while True:
            chunk = self._rows().filter(key__gt=after).values_list(*_Answer._fields)[:CHUNK]
            rows = [_Answer(*row) for row in chunk]
            yield from rows
            if len(rows) < CHUNK:
                return
            after = rows[-1].key


class _Answer(NamedTuple):
    """The fields of a BindingReadiness that the file has."""

    key: str
    namespace: str
    name: str
    workload: str
    verdict: str
    clusters: list[str]
    obstacles: list[dict[str, str]]
    since: datetime | None


def _cells(row: _Answer, obstacle: Mapping[str, str]) -> list[str]:
    """Return a line. A spreadsheet would compute a cell that begins with =, so such a cell gets an apostrophe."""
    since = "" if row.since is None else row.since.strftime("%Y-%m-%dT%H:%M:%SZ")
    own = [row.namespace, row.name, row.workload, row.verdict, " ".join(row.clusters)]
    named = [obstacle.get(name, "") for name in ("what", "severity", "cluster", "message", "remedy")]
    return [f"'{cell}" if cell[:1] in ("=", "+", "-", "@") else cell for cell in (*own, *named, since)]


class Line(NamedTuple):
    """A stored answer as the page shows it. `page`: of its binding; `api`: the URL of its readiness in the API."""

    row: Any  # BindingReadiness
    badge: str
    kind: str
    page: str
    api: str


def _line(row: Any) -> Line:
    ref = Ref.parse(row.key)
    kind, badge = row.workload.rpartition("/")[2], BADGES.get(row.verdict, "off")
    return Line(row, badge, kind, binding_url(ref), f"{api_url(ref)}/readiness")
