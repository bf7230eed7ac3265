"""The admin: its headings, and its pages about settings and failovers."""

from __future__ import annotations

from functools import lru_cache, wraps
from typing import Any, Final, NamedTuple

from django.contrib import admin
from django.contrib.admin.apps import AdminConfig
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import TO_FIELD_VAR
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import get_script_prefix, path, reverse
from django.utils.functional import SimpleLazyObject
from django.utils.text import capfirst

from controlplane.authorization.attributes import Request
from controlplane.kinds import FAILOVER_CONFIGURATION, KINDS
from controlplane.kinds.failover_record import RESOURCE as RECORDS
from controlplane.wire.resource import Resource

HEADINGS: Final = {
    "Fleet": ("clusters.Cluster", "resources.Binding", "resources.Work"),
    "Workloads and policies": (*("policies.Policy", "policies.ClusterTaintPolicy", "objects.Object", "objects.Event"),),
    "Failover": (
        *("failover.Eviction", "failover.GracefulEvictionTask", "failover.BindingReadiness"),
        *("failover.UnhealthyCopies", "failover.Notice"),
    ),
    "Access": ("auth.User", "auth.Group", "api.Token", "objects.AuditEvent"),
}
"""The tables under each heading, by label, in order. All other tables are under INTERNALS."""
INTERNALS: Final = "Internals"
_PATTERNS: Final = ("__regex", "__iregex")


class PageOf(NamedTuple):
    """A page of the admin that is no table, for users who may list a resource. `name`: of its URL."""

    title: str
    name: str
    resource: Resource

    def may_be_read(self, request: HttpRequest) -> bool:
        """Test whether the user may list the resource, by the same rules as in the API."""
        from apps.objects.access import authorize  # here: models are loaded after this module

        return authorize(request.user, Request("list", self.resource.group, self.resource.plural)).allowed


PAGES: Final = {
    "Fleet": (PageOf("Settings in force", "settings", KINDS[FAILOVER_CONFIGURATION].resource),),
    "Failover": (PageOf("Failover records", "failovers", RECORDS),),
}
"""Pages that are no tables, under their headings."""


class FleetSite(admin.AdminSite):
    """The admin site. Its tables are under a few headings; tables about the inner working are under one of them."""

    site_header = site_title = "Lifeboat"
    index_title = "Fleet"

    def has_permission(self, request: HttpRequest) -> bool:
        """Test whether the user may log in to the admin. From now on the request has the user itself instead of
        Django's lazy object, because a page asks 150 times for rights."""
        from django.contrib.auth.middleware import get_user  # here: this module is read before the models

        if isinstance(request.user, SimpleLazyObject):
            request.user = get_user(request)
        return super().has_permission(request)

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[dict[str, Any]]:
        """Return the headings with their tables. `app_label`: only the tables of one app, for the page of that app."""
        if app_label is not None:
            apps: list[dict[str, Any]] = super().get_app_list(request, app_label)
            return apps
        tables = {model._meta.label: table for model in self._registry if (table := self._table(request, model))}
        found = []
        for title, labels in HEADINGS.items():
            own = [tables.pop(label) for label in labels if label in tables]
            own += [_entry(page) for page in PAGES.get(title, ()) if page.may_be_read(request)]
            found.append(_heading(title, own))
        found.append(_heading(INTERNALS, sorted(tables.values(), key=lambda table: str(table["name"]))))
        return [heading for heading in found if heading["models"]]

    def _table(self, request: HttpRequest, model: type[Any]) -> dict[str, Any] | None:
        """Return the entry of a table as Django makes it, without what our pages do not show. None: the user may not
        see the table."""
        page, meta = self._registry[model], model._meta
        if not page.has_module_permission(request):
            return None
        may_change = page.has_change_permission(request)
        may_read, may_add = may_change or page.has_view_permission(request), page.has_add_permission(request)
        listed, added = _urls_of(meta.app_label, meta.model_name, get_script_prefix())
        if not (may_read or may_add or page.has_delete_permission(request)):
            return None
        return {
            "model": model,
            "name": capfirst(meta.verbose_name_plural),
            "object_name": meta.object_name,
            "admin_url": listed if may_read else None,
            "add_url": added if may_add else None,
            "view_only": not may_change,
        }

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Return the view for users of the admin. A request that chooses rows by a malformed key is answered 400."""
        return super().admin_view(_with_keys(view), cacheable)

    def get_urls(self) -> list[Any]:
        from apps.console import admin_records, admin_settings  # here: this module is read before the models

        contexts = {"settings": admin_settings.context, "failovers": admin_records.context}

        def view_of(page: PageOf) -> Any:
            def view(request: HttpRequest) -> HttpResponse:
                if not page.may_be_read(request):
                    raise PermissionDenied
                shown = {**self.each_context(request), **contexts[page.name](request)}
                return TemplateResponse(request, f"admin/{page.name}.html", shown)

            return self.admin_view(view)

        pages = [page for some in PAGES.values() for page in some]
        own = [path(f"{page.name}/", view_of(page), name=page.name) for page in pages]
        return own + super().get_urls()


class FleetAdmin(AdminConfig):
    """Django's admin with our site."""

    default_site = "apps.console.admin_site.FleetSite"


def _with_keys(view: Any) -> Any:
    """Return a view that reads only keys that the rows of its table can have, and no patterns in its URL.

    Django answers 500 otherwise, and PostgreSQL would search a whole table with a pattern of a user.
    """
    table = getattr(view, "__self__", None)
    if not isinstance(table, admin.ModelAdmin):
        return view

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        for key in request.POST.getlist(ACTION_CHECKBOX_NAME):
            try:
                table.model._meta.pk.to_python(key)
            except ValidationError:
                raise BadRequest(f'"{key[:100]}" is not the key of a row') from None
        for name in request.GET:
            if name.endswith(_PATTERNS):
                raise BadRequest(f'"{name[:100]}": rows cannot be chosen by a pattern; use the field for searching')
        for given in (request.GET, request.POST):
            if given.get(TO_FIELD_VAR) == "":
                raise BadRequest(f"{TO_FIELD_VAR} is empty: name the field that the key belongs to, or leave it out")
        return view(request, *args, **kwargs)

    return checked


@lru_cache(maxsize=256)
def _urls_of(app: str, model: str, prefix: str) -> tuple[str, str]:
    """Return the URLs of a table and of the form for a new row. `prefix`: of all URLs of this process."""
    return reverse(f"admin:{app}_{model}_changelist"), reverse(f"admin:{app}_{model}_add")


def _heading(title: str, tables: list[Any]) -> dict[str, Any]:
    label = title.lower().replace(" ", "-")
    return {"name": title, "app_label": label, "app_url": reverse("admin:index"), "models": tables}


def _entry(page: PageOf) -> dict[str, Any]:
    name = page.title.replace(" ", "")
    return {"name": page.title, "object_name": name, "admin_url": reverse(f"admin:{page.name}"), "view_only": True}
