"""Admin pages of clusters, with the actions cordon, uncordon and fence, and of their latest observations."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import path, reverse

from apps.clusters.forms import FenceForm
from apps.clusters.models import Cluster, Collected, MatchWindow, Observation, Taint
from apps.objects import edits
from apps.objects.access import may
from apps.objects.admin_for import ObjectAdmin, admin_for
from apps.objects.admin_permissions import allowed, is_staff
from apps.objects.changelist import STATES, choices
from apps.objects.rows_admin import RowAdmin
from apps.objects.store import store
from controlplane.apimachinery.errors import StatusError
from controlplane.apimachinery.meta import Ref
from controlplane.clusters.fence import FenceRequest, fence_of, fenced
from controlplane.kinds import CLUSTER, KINDS
from controlplane.kinds.cluster import EFFECTS, NO_SCHEDULE
from controlplane.kinds.cluster import Cluster as FleetMember

UNSCHEDULABLE_KEY = "cluster.karmada.io/unschedulable"
_MODES = (("Push", "Push"), ("Pull", "Pull"))


def cordoned(taints: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the taints of a cordoned cluster: with the one that keeps new workloads away."""
    return [*uncordoned(taints), {"key": UNSCHEDULABLE_KEY, "effect": NO_SCHEDULE}]


def uncordoned(taints: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the taints of a cluster that is not cordoned: without the one that keeps new workloads away."""
    return [taint for taint in taints if (taint.get("key"), taint.get("effect")) != (UNSCHEDULABLE_KEY, NO_SCHEDULE)]


TaintChange = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


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
    def cordon(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._change_all(request, queryset, cordoned, "cordoned")

    @admin.action(description="Uncordon", permissions=["change"])
    def uncordon(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._change_all(request, queryset, uncordoned, "uncordoned")

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        own = [
            path(
                "<path:object_id>/cordon/",
                view(self._taint_view(cordoned, "cordoned")),
                name="clusters_cluster_cordon",
            ),
            path(
                "<path:object_id>/uncordon/",
                view(self._taint_view(uncordoned, "uncordoned")),
                name="clusters_cluster_uncordon",
            ),
            path("<path:object_id>/fence/", view(self._fence_page), name="clusters_cluster_fence"),
        ]
        return own + super().get_urls()

    def more(self, row: Any) -> dict[str, Any]:
        here = {"cluster": row.name}
        links = [
            ("Bindings", _list("resources_binding", here)),
            ("Works", _list("resources_work", here)),
            ("Evictions", _list("failover_eviction", here)),
            ("Leaving", _list("failover_gracefulevictiontask", {"cluster": row.name})),
            ("Fence", self.url("fence", row.pk)),
        ]
        buttons = [("Cordon", self.url("cordon", row.pk)), ("Uncordon", self.url("uncordon", row.pk))]
        return {"links": links, "buttons": buttons}

    def _taint_view(self, change: TaintChange, state: str) -> Callable[[HttpRequest, str], HttpResponse]:
        def view(request: HttpRequest, object_id: str) -> HttpResponse:
            if request.method != "POST":
                return HttpResponseNotAllowed(["POST"])
            row = self._row(request, object_id)
            if not self.has_change_permission(request, row):
                raise PermissionDenied
            self._change_taints(request, row.name, change, state)
            return HttpResponseRedirect(self.url("change", row.pk))

        return view

    def _fence_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show and process the form that confirms that an unreachable cluster is down [directly-unreachable].

        The same page removes such a confirmation.
        """
        row = self._row(request, object_id)
        if not (is_staff(request) and may(request.user, "create", KINDS[CLUSTER], name=row.name, subresource="fence")):
            raise PermissionDenied
        ref = Ref(CLUSTER, "", row.name)
        removes = "_undo" in request.POST
        form = FenceForm(request.POST if request.method == "POST" and not removes else None)
        if removes or form.is_valid():
            fence = FenceRequest() if removes else FenceRequest(**form.cleaned_data)
            try:
                self._fence(ref, fence, request.user.get_username())
            except StatusError as error:
                form.add_errors(error)
            else:
                state = "is no longer fenced" if removes else "is fenced"
                self.message_user(request, f"Cluster {row.name} {state}.", messages.SUCCESS)
                return HttpResponseRedirect(self.url("change", row.pk))
        shown = {
            "title": f"Fence {row.name}",
            "explanation": "An eviction with purge mode Directly waits while its source cluster cannot be reached. "
            "Fence the cluster only if you know that it is down: evictions then start new copies elsewhere, even if "
            "old copies still run on the cluster unseen.",
            "form": form,
            "errors": form.non_field_errors(),
            "verb": "Fence the cluster",
            "undo": "Remove the fence" if fence_of(_cluster(ref)) is not None else "",
        }
        return self._render(request, "admin/objects/act.html", shown)

    def _fence(self, ref: Ref, fence: FenceRequest, user: str) -> None:
        now = store().now()
        edits.act(ref, lambda live: fenced(live, fence, by=user, now=now), rule="Fence", user=user)

    def _change_all(self, request: HttpRequest, rows: QuerySet[Any], change: TaintChange, state: str) -> None:
        for name in rows.values_list("name", flat=True):
            self._change_taints(request, name, change, state)

    def _change_taints(self, request: HttpRequest, name: str, change: TaintChange, state: str) -> None:
        """Change the taints of a cluster as an edit of its manifest would, and report the result to the user."""
        ref = Ref(CLUSTER, "", name)
        if not allowed(request, "update", ref):
            raise PermissionDenied
        try:
            cluster = edits.stored(ref)
            document = edits.document_of(cluster)
            spec = document.setdefault("spec", {})
            spec["taints"] = change(spec.get("taints", []))
            basis = int(cluster.metadata.resource_version)
            done = edits.change(ref, document, basis=basis, user=request.user.get_username())
        except StatusError as error:
            self.message_user(request, f"Cluster {name} could not be {state}: {error.message}", messages.ERROR)
            return
        for warning in done.warnings:
            self.message_user(request, warning, messages.WARNING)
        self.message_user(request, f"Cluster {name} is {state}.", messages.SUCCESS)


def _cluster(ref: Ref) -> FleetMember:
    cluster = edits.stored(ref)
    assert isinstance(cluster, FleetMember), f"{ref} is a cluster"
    return cluster


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
