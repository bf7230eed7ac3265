"""Admin pages of clusters and of their latest observations. Acts besides cordon and uncordon are on the console."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import path, reverse

from apps.clusters.models import Cluster, Collected, MatchWindow, Observation, Taint
from apps.objects import edits
from apps.objects.access import may
from apps.objects.admin_for import ObjectAdmin, admin_for
from apps.objects.admin_guard import Question, confirmed, show_where_to_watch
from apps.objects.admin_permissions import allowed
from apps.objects.changelist import STATES, choices
from apps.objects.preview import Preview
from apps.objects.rows_admin import RowAdmin
from controlplane.apimachinery.errors import StatusError
from controlplane.apimachinery.meta import Ref
from controlplane.kinds import CLUSTER, KINDS
from controlplane.kinds.cluster import EFFECTS, NO_SCHEDULE
from controlplane.kinds.drain import DRAIN
from controlplane.kinds.failback import FAILBACK

ON_THE_CONSOLE = {
    "fence": ("create", CLUSTER, "fence"),
    "drain": ("create", DRAIN, ""),
    "failback": ("create", FAILBACK, ""),
    "taint": ("patch", CLUSTER, ""),
    "unjoin": ("delete", CLUSTER, ""),
}
"""Acts whose pages ask for more: verb, kind and subresource of the right that each needs."""
UNSCHEDULABLE_KEY = "cluster.karmada.io/unschedulable"
_MODES = (("Push", "Push"), ("Pull", "Pull"))


def cordoned(taints: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the taints with the taint of a cordoned cluster, which keeps new workloads away."""
    return [*uncordoned(taints), {"key": UNSCHEDULABLE_KEY, "effect": NO_SCHEDULE}]


def uncordoned(taints: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the taints without the taint of a cordoned cluster."""
    return [taint for taint in taints if (taint.get("key"), taint.get("effect")) != (UNSCHEDULABLE_KEY, NO_SCHEDULE)]


class TaintAct(NamedTuple):
    """A change of a cluster's taints: its verb, what the cluster is afterwards, and the taints that it leaves."""

    verb: str
    state: str
    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


CORDON = TaintAct("cordon", "cordoned", cordoned)
UNCORDON = TaintAct("uncordon", "uncordoned", uncordoned)


class ClusterAdmin(ObjectAdmin):
    """Member clusters."""

    list_display = ("name", "ready", "taints", "sync_mode", "region", "provider", "kubernetes_version", "created_at")
    list_display_links = ("name",)
    relations: ClassVar = ("taints",)
    actions = ("cordon", "uncordon", "delete_selected")

    @admin.display(description="taints")
    def taints(self, row: Cluster) -> str:
        found = sorted(row.taints.all(), key=attrgetter("pk"))
        return ", ".join(f"{taint.key.rpartition('/')[2]}:{taint.effect}" for taint in found)

    @admin.action(description="Cordon: no new workloads", permissions=["change"])
    def cordon(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._change_all(request, list(queryset.values_list("name", flat=True)), CORDON)

    @admin.action(description="Uncordon", permissions=["change"])
    def uncordon(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._change_all(request, list(queryset.values_list("name", flat=True)), UNCORDON)

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        own = [
            path(
                "<path:object_id>/cordon/",
                view(self._taint_view(CORDON)),
                name="clusters_cluster_cordon",
            ),
            path(
                "<path:object_id>/uncordon/",
                view(self._taint_view(UNCORDON)),
                name="clusters_cluster_uncordon",
            ),
        ]
        return own + super().get_urls()

    def more(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        here = {"cluster": row.name}
        acts = [act for act, right in ON_THE_CONSOLE.items() if _may(request, *right, cluster=row.name)]
        links = [
            ("Bindings", _list("resources_binding", here)),
            ("Works", _list("resources_work", here)),
            ("Evictions", _list("failover_eviction", here)),
            ("Leaving", _list("failover_gracefulevictiontask", {"cluster": row.name})),
            *((act.capitalize(), f"/clusters/{row.name}/{act}") for act in acts),
        ]
        is_cordoned = any(taint.key == UNSCHEDULABLE_KEY for taint in row.taints.all())
        verb = (UNCORDON if is_cordoned else CORDON).verb
        may_change = self.has_change_permission(request, row)
        return {"links": links, "buttons": [(verb.capitalize(), self.url(verb, row.pk))] if may_change else []}

    def _taint_view(self, act: TaintAct) -> Callable[[HttpRequest, str], HttpResponse]:
        def view(request: HttpRequest, object_id: str) -> HttpResponse:
            if request.method != "POST":
                return HttpResponseNotAllowed(["POST"])
            row = self._row(request, object_id)
            if not self.has_change_permission(request, row):
                raise PermissionDenied
            asked = self._change_all(request, [row.name], act)
            return HttpResponseRedirect(self.url("change", row.pk)) if asked is None else asked

        return view

    def _change_all(self, request: HttpRequest, names: Sequence[str], act: TaintAct) -> HttpResponse | None:
        """Change the taints of clusters. Return the page that asks to confirm it; None: it is done, or refused."""
        if not names:
            self.message_user(request, "None of the chosen clusters exists any more.", messages.WARNING)
            return None
        if not all(allowed(request, "update", Ref(CLUSTER, "", name)) for name in names):
            raise PermissionDenied
        by = edits.By(request.user.get_username(), dry_run=True)
        question = Question(
            title=f"{act.verb.capitalize()} {', '.join(names)}?",
            button=f"{act.verb.capitalize()} {'it' if len(names) == 1 else 'them'}",
            subject=names[0] if len(names) == 1 else act.verb,
            kubectl=" && ".join(f"kubectl lifeboat {act.verb} {name}" for name in names),
            trial=lambda: _together(_with_taints(name, act, by).preview for name in names),
            chosen=names,
        )
        try:
            reason = confirmed(question, request, self._context(request))
        except StatusError as error:
            self.message_user(request, f"Nothing could be {act.state}: {error.message}", messages.ERROR)
            return None
        if isinstance(reason, HttpResponse):
            return reason
        for name in names:
            self._change_taints(request, name, act, edits.By(request.user.get_username(), reason))
        if reason:
            show_where_to_watch(request)
        return None

    def _change_taints(self, request: HttpRequest, name: str, act: TaintAct, by: edits.By) -> None:
        """Change the taints of a cluster as an edit of its manifest would, and report the result to the user."""
        try:
            done = _with_taints(name, act, by)
        except StatusError as error:
            self.message_user(request, f"Cluster {name} could not be {act.state}: {error.message}", messages.ERROR)
            return
        for warning in done.warnings:
            self.message_user(request, warning, messages.WARNING)
        self.message_user(request, f"Cluster {name} is {act.state}.", messages.SUCCESS)


def _with_taints(name: str, act: TaintAct, by: edits.By) -> edits.Edited:
    """Store a cluster with the taints that an act leaves. Raises StatusError."""
    ref = Ref(CLUSTER, "", name)
    cluster = edits.stored(ref)
    document = edits.document_of(cluster)
    spec = document.setdefault("spec", {})
    spec["taints"] = act.change(spec.get("taints", []))
    return edits.change(ref, document, by, basis=int(cluster.metadata.resource_version))


def _together(previews: Iterable[Preview]) -> Preview:
    found = list(previews)
    return Preview(tuple(text for one in found for text in one.texts), sum(one.concerned for one in found))


def _may(request: HttpRequest, verb: str, kind: str, subresource: str, *, cluster: str) -> bool:
    """Test whether the user may do an act of ON_THE_CONSOLE, by the same rules as in the API."""
    name = cluster if kind == CLUSTER else ""
    return may(request.user, verb, KINDS[kind], name=name, subresource=subresource)


def _list(name: str, query: dict[str, str]) -> str:
    return reverse(f"admin:{name}_changelist", query=query)


class MatchWindowAdmin(RowAdmin):
    """Match windows: since when cluster taint policies match clusters."""

    search_fields = ("key",)


admin.site.register(
    Cluster,
    admin_for(
        Cluster,
        page=ClusterAdmin,
        filters=(
            choices("ready", "Ready", STATES),
            choices("taint", "taint effect", [(effect, effect) for effect in EFFECTS], index="taint"),
            choices("sync_mode", "mode", _MODES),
        ),
    ),
)
admin.site.register(Observation, RowAdmin)
admin.site.register(Collected, RowAdmin)
admin.site.register(MatchWindow, MatchWindowAdmin)
admin.site.register(Taint, RowAdmin)
