"""Admin of bindings and Works."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, ClassVar

import msgspec
import orjson
from django.contrib import admin
from django.urls import reverse

from apps.objects import history
from apps.objects.admin_for import ObjectAdmin, admin_for
from apps.objects.changelist import STATES, choices, cluster_names
from apps.objects.rows_admin import RowAdmin
from apps.objects.store import store
from apps.resources.models import Binding, TargetCluster, Work
from controlplane.apimachinery.meta import Ref
from controlplane.kinds import CLUSTER, WORK
from controlplane.kinds.binding import columns as binding_columns
from controlplane.kinds.rows import Collected, FleetNames, PlacementNote
from controlplane.scheduling import explanation_text
from controlplane.wire.resource import age

SHOWN_CHANGES = 40


class BindingAdmin(ObjectAdmin):
    """Where templates run, and what they are leaving."""

    list_display = (
        *("namespace", "name", "targets", "healthy", "leaving", "eviction", "scheduled", "replicas"),
        *("resource_kind", "priority", "last_known"),
    )
    list_display_links = ("name",)
    relations: ClassVar = ("targets", "eviction_tasks")

    def attach(self, rows: Sequence[Any]) -> None:
        """Give the rows of a page their documents as well; one query for all of them."""
        super().attach(rows)
        found = Binding.objects.filter(pk__in=[row.pk for row in rows]).values_list("pk", "doc")
        documents = {key: orjson.loads(text) for key, text in found}
        now = store().now()
        for row in rows:
            cells = {one.name: one.cell(documents.get(row.pk, {}), now) for one in binding_columns.COLUMNS}
            row.__dict__["cells"] = cells

    @admin.display(description="healthy")
    def healthy(self, row: Binding) -> str:
        return _cell(row, "Healthy")

    @admin.display(description="eviction")
    def eviction(self, row: Binding) -> str:
        return _cell(row, "Eviction")

    @admin.display(description="out of reach, waiting")
    def last_known(self, row: Binding) -> str:
        return _cell(row, "Message")

    @admin.display(description="targets")
    def targets(self, row: Binding) -> str:
        targets = sorted(row.targets.all(), key=attrgetter("pk"))
        return ", ".join(f"{one.cluster}:{one.replicas}" if one.replicas else one.cluster for one in targets)

    @admin.display(description="leaving")
    def leaving(self, row: Binding) -> str:
        return ", ".join(task.from_cluster for task in sorted(row.eviction_tasks.all(), key=attrgetter("pk")))

    def more(self, row: Any) -> dict[str, Any]:
        """Return links, and the timeline of the binding together with its Works': one failover in one table."""
        ref = Ref(row.kind, row.namespace, row.name)
        works = store().by_index(WORK, "binding", [str(ref)]).get(str(ref), ())
        links = [
            ("Works", reverse("admin:resources_work_changelist", query={"binding": str(ref)})),
            ("Evictions", reverse("admin:failover_eviction_changelist", query={"q": str(ref)})),
        ]
        changes = history.timeline([ref, *(work.ref for work in works)], limit=SHOWN_CHANGES)
        return {"links": links, "deeds": [], "changes": changes, "with_objects": True, "why": why_there(ref)}


def _cell(row: Binding, name: str) -> str:
    return str(row.__dict__.get("cells", {}).get(name, ""))


def why_there(ref: Ref) -> str:
    """Return in sentences why a binding is where it is; "" where nothing was decided about it."""
    notes = store().rows(PlacementNote, "key", [str(ref)]).get(str(ref), ())
    if not notes:
        return ""
    fleets = store().rows(FleetNames, "key", [notes[0].fleet]).get(notes[0].fleet, ())
    fleet = fleets[0] if fleets else None
    names = () if fleet is None else msgspec.json.decode(fleet.names, type=tuple[str, ...])
    read = store().rows(Collected, "key", names)
    reported_at = {name: rows[0].at for name, rows in read.items() if rows[0].at is not None}
    return explanation_text.text(explanation_text.explained(ref, notes[0], fleet, reported_at))


class WorkAdmin(ObjectAdmin):
    """What members get."""

    list_display = ("cluster", "name", "manifest_kind", "applied", "last_known", "created_at")
    list_display_links = ("name",)

    def attach(self, rows: Sequence[Any]) -> None:
        """Give the rows of a page what is known of their clusters as well; two queries for all of them."""
        super().attach(rows)
        reading = store()
        found = reading.get([Ref(CLUSTER, "", name) for name in {row.cluster for row in rows}])
        now = reading.now()
        for row in rows:
            cluster = found.get(Ref(CLUSTER, "", row.cluster))
            since = None if cluster is None else cluster.out_of_reach_since
            row.__dict__["last_known"] = "" if since is None else f"last known: out of reach for {age(since, now)}"

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
