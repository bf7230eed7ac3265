"""Rights on admin pages: the roles and bindings that also decide requests to the API."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.http import HttpRequest

from apps.objects.access import authorize, may
from controlplane.apimachinery.meta import Ref
from controlplane.authorization.attributes import Request
from controlplane.kind import KINDS, Kind


class KindPermissions:
    """Permissions of the pages of one table, asked for the kind, namespace and name of each object.

    Only staff may log in to the admin. What they may do there is decided as for a request to the API.
    """

    model: Any

    def kinds(self) -> list[Kind]:
        """Return the kinds whose objects the table keeps, kinds defined by users included."""
        return _kinds_of(self.model._meta.label, KINDS.revision)

    def listed(self, request: HttpRequest) -> list[str]:
        """Return the kinds of the table that the user may list in all namespaces."""
        return [kind.key for kind in self.kinds() if is_staff(request) and may(request.user, "list", kind)]

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(self.listed(request))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(self.listed(request)) if obj is None else allowed(request, "get", _ref(obj))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self._some(request, "create")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._some(request, "update") if obj is None else allowed(request, "update", _ref(obj))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._some(request, "delete") if obj is None else allowed(request, "delete", _ref(obj))

    def _some(self, request: HttpRequest, verb: str) -> bool:
        """Test whether the user may do this with some kind of the table, in all namespaces."""
        return is_staff(request) and any(may(request.user, verb, kind) for kind in self.kinds())


@lru_cache(maxsize=128)
def _kinds_of(table: str, revision: int) -> list[Kind]:
    """Return the kinds of a table. `revision`: of the registry, which is searched again when users define kinds."""
    return [kind for kind in KINDS if kind.table == table]


def is_staff(request: HttpRequest) -> bool:
    """Test whether the user may log in to the admin."""
    return bool(request.user.is_active and request.user.is_staff)


def allowed(request: HttpRequest, verb: str, ref: Ref) -> bool:
    """Test whether the user may do this with an object. Objects of kinds that are no longer served can only be read,
    by users who may read every kind."""
    if not is_staff(request):
        return False
    kind = KINDS.get(ref.kind)
    if kind is None:
        return verb == "get" and authorize(request.user, Request("get", "*", "*")).allowed
    return may(request.user, verb, kind, namespace=ref.namespace, name=ref.name)


def may_read_path(request: HttpRequest, path: str) -> bool:
    """Test whether the user may read a URL of the API that is not a resource."""
    return is_staff(request) and authorize(request.user, Request("get", path=path)).allowed


def _ref(row: Any) -> Ref:
    return Ref(row.kind, row.namespace, row.name)
