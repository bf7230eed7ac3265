"""Admin pages of bindings and Works."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import orjson
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse

from apps.objects import failovers, history
from apps.objects.admin_for import ObjectAdmin, admin_for
from apps.objects.changelist import STATES, choices, cluster_names
from apps.objects.rows_admin import RowAdmin
from apps.objects.store import store
from apps.resources.models import Binding, TargetCluster, Work
from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.insight.failover_sentence import record_sentence
from controlplane.kinds import CLUSTER, WORK
from controlplane.kinds.binding import columns as binding_columns
from controlplane.kinds.rows import Collected, FleetNames, PlacementNote
from controlplane.kinds.work import columns as work_columns
from controlplane.scheduling import placement_explanation
from controlplane.wire.table import Beside

SHOWN_CHANGES = 40
SHOWN_FAILOVERS = 5
_SHOWN = tuple(column for column in binding_columns.COLUMNS if column.name in ("Healthy", "Eviction", "Message"))


class BindingAdmin(ObjectAdmin):
    """Bindings: the clusters on which templates run, and the clusters from which they are evicted."""

    list_display = (
        *("workload", "targets", "healthy", "leaving", "eviction", "message", "scheduled", "replicas"),
        *("priority", "namespace", "name"),
    )
    list_display_links = ("workload",)

    def attach(self, rows: Sequence[Any]) -> None:
        """Set on each row its spec, its workload and the columns that kubectl shows too; one query for all rows."""
        super().attach(rows)
        texts = Binding.objects.filter(pk__in=[row.pk for row in rows]).values_list("pk", "doc")
        documents = {key: orjson.loads(text) for key, text in texts}
        now = store().now()
        for row in rows:
            document = documents.get(row.pk, {})
            spec = document.get("spec", {})
            row.__dict__["spec"] = spec
            row.__dict__["cells"] = {column.name: column.cell(document, now) for column in _SHOWN}
            resource = spec.get("resource", {})
            place = f"{resource['namespace']}/" if resource.get("namespace") else ""
            row.__dict__["workload"] = f"{resource.get('kind', '')} {place}{resource.get('name', '')}"

    @admin.display(ordering="name")
    def workload(self, row: Binding) -> str:
        return str(row.__dict__.get("workload", row.name))

    @admin.display(description="healthy")
    def healthy(self, row: Binding) -> str:
        return _cell(row, "Healthy")

    @admin.display(description="eviction")
    def eviction(self, row: Binding) -> str:
        return _cell(row, "Eviction")

    @admin.display(description="out of reach, waiting")
    def message(self, row: Binding) -> str:
        return _cell(row, "Message")

    @admin.display(description="targets")
    def targets(self, row: Binding) -> str:
        targets = _spec(row).get("clusters", ())
        return ", ".join(f"{at['name']}:{at['replicas']}" if at.get("replicas") else at["name"] for at in targets)

    @admin.display(description="leaving")
    def leaving(self, row: Binding) -> str:
        return ", ".join(task["fromCluster"] for task in _spec(row).get("gracefulEvictionTasks", ()))

    def more(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return links, and the timeline of the binding with its Works, so that one table shows a whole failover."""
        ref = Ref(row.kind, row.namespace, row.name)
        works = store().by_index(WORK, "binding", [str(ref)]).get(str(ref), ())
        links = [
            ("Works", reverse("admin:resources_work_changelist", query={"binding": str(ref)})),
            ("Evictions", reverse("admin:failover_eviction_changelist", query={"q": str(ref)})),
        ]
        changes = history.timeline([ref, *(work.ref for work in works)], limit=SHOWN_CHANGES)
        sentences = [record_sentence(record) for record in reversed(failovers.of_binding(ref)[-SHOWN_FAILOVERS:])]
        return {"links": links, "buttons": [], "changes": changes, "failovers": sentences, "why": why_there(ref, works)}


def _spec(row: Binding) -> dict[str, Any]:
    spec: dict[str, Any] = row.__dict__.get("spec", {})
    return spec


def _cell(row: Binding, name: str) -> str:
    return str(row.__dict__.get("cells", {}).get(name, ""))


def why_there(ref: Ref, works: Sequence[kinds.work.Work]) -> str:
    """Return why a binding is placed where it is, and which override policies change its copies, as sentences.

    "": the scheduler has not decided about it.
    """
    binding = store().get([ref]).get(ref)
    notes = store().rows(PlacementNote, "key", [str(ref)]).get(str(ref), ())
    if not notes or binding is None:
        return ""
    fleets = store().rows(FleetNames, "key", [notes[0].fleet]).get(notes[0].fleet, ())
    fleet = fleets[0] if fleets else None
    names = () if fleet is None else msgspec.json.decode(fleet.names, type=tuple[str, ...])
    collected = store().rows(Collected, "key", names)
    reported_at = {name: rows[0].at for name, rows in collected.items() if rows[0].at is not None}
    explanation = placement_explanation.explained(ref, notes[0], fleet, reported_at)
    return placement_explanation.text(placement_explanation.with_overrides(explanation, binding, works))


class WorkAdmin(ObjectAdmin):
    """Works: the manifests that clusters get."""

    list_display = ("cluster", "name", "manifest_kind", "applied_now", "last_known", "created_at")
    list_display_links = ("name",)

    def attach(self, rows: Sequence[Any]) -> None:
        """Set on each row the cells Applied and Last known. Two queries for all rows.

        They depend on since when its cluster cannot be reached.
        """
        super().attach(rows)
        clusters = store().get([Ref(CLUSTER, "", name) for name in {row.cluster for row in rows}])
        now = store().now()
        for row in rows:
            cluster = clusters.get(Ref(CLUSTER, "", row.cluster))
            since = None if cluster is None else cluster.out_of_reach_since
            row.__dict__["applied_now"] = work_columns.applied(row.applied, since)
            row.__dict__["last_known"] = work_columns.last_known(row.applied, since, now=now)

    def beside(self) -> Beside:
        return work_columns.beside(store().list(CLUSTER))

    @admin.display(description="applied", ordering="applied")
    def applied_now(self, row: Work) -> str:
        return str(row.__dict__.get("applied_now", row.applied))

    @admin.display(description="last known")
    def last_known(self, row: Work) -> str:
        return str(row.__dict__.get("last_known", ""))


admin.site.register(
    Binding,
    admin_for(
        Binding,
        page=BindingAdmin,
        filters=(
            choices("scheduled", "Scheduled", STATES),
            choices("cluster", "cluster", cluster_names, index="placed"),
            choices("leaving", "leaving", cluster_names, index="leaving"),
        ),
    ),
)
admin.site.register(
    Work,
    admin_for(
        Work,
        page=WorkAdmin,
        filters=(
            choices("applied", "Applied", STATES),
            choices("cluster", "cluster", cluster_names),
            choices("binding", "binding", index="binding"),
        ),
    ),
)
admin.site.register(TargetCluster, RowAdmin)
