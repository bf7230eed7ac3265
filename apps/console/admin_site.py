"""The admin: its headings, and its pages about settings and failovers."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import admin
from django.contrib.admin.apps import AdminConfig
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse

HEADINGS: Final = {
    "Fleet": ("clusters.Cluster", "resources.Binding", "resources.Work"),
    "Workloads and policies": (*("policies.Policy", "policies.ClusterTaintPolicy", "objects.Object", "objects.Event"),),
    "Failover": (
        *("failover.Eviction", "failover.GracefulEvictionTask", "failover.BindingReadiness"),
        *("failover.UnhealthyCopies", "failover.Notice"),
    ),
    "Access": ("auth.User", "auth.Group", "api.Token"),
}
"""The tables under each heading, by label, in order. All other tables are under INTERNALS."""
INTERNALS: Final = "Internals"
PAGES: Final = {"Failover": (("Failover records", "failovers"),), "Fleet": (("Settings in force", "settings"),)}
"""Pages that are no tables, under their headings: title and name of the URL."""


class FleetSite(admin.AdminSite):
    """The admin site. Its tables are under a few headings; tables about the inner working are under one of them."""

    site_header = site_title = "Lifeboat"
    index_title = "Fleet"

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[dict[str, Any]]:
        """Return the headings with their tables. `app_label`: only the tables of one app, for the page of that app."""
        apps: list[dict[str, Any]] = super().get_app_list(request, app_label)
        if app_label is not None or not apps:
            return apps
        tables = {table["model"]._meta.label: table for app in apps for table in app["models"]}
        found = []
        for title, labels in HEADINGS.items():
            own = [tables.pop(label) for label in labels if label in tables]
            own += [_page(text, f"admin:{name}") for text, name in PAGES.get(title, ())]
            found.append(_heading(title, own))
        found.append(_heading(INTERNALS, sorted(tables.values(), key=lambda table: str(table["name"]))))
        return [heading for heading in found if heading["models"]]

    def get_urls(self) -> list[Any]:
        from apps.console import admin_records, admin_settings  # here: this module is read before the models

        def page(template: str, context: Any) -> Any:
            def view(request: HttpRequest) -> HttpResponse:
                return TemplateResponse(request, template, {**self.each_context(request), **context(request)})

            return self.admin_view(view)

        own = [
            path("settings/", page("admin/settings.html", admin_settings.context), name="settings"),
            path("failovers/", page("admin/failovers.html", admin_records.context), name="failovers"),
        ]
        return own + super().get_urls()


class FleetAdmin(AdminConfig):
    """Django's admin with our site."""

    default_site = "apps.console.admin_site.FleetSite"


def _heading(title: str, tables: list[Any]) -> dict[str, Any]:
    label = title.lower().replace(" ", "-")
    return {"name": title, "app_label": label, "app_url": reverse("admin:index"), "models": tables}


def _page(text: str, url: str) -> dict[str, Any]:
    return {"name": text, "object_name": text.replace(" ", ""), "admin_url": reverse(url), "view_only": True}
