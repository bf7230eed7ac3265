"""Permissions of views: every view says what a request attempts, and a view that does not say is refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from apps.api import authorization
from apps.api.auditing import note_decision
from apps.api.authorization import Attributes
from apps.api.target import Target
from controlplane.apimachinery.errors import Forbidden
from controlplane.apimachinery.selectors import SelectorError, parse_field_selector
from controlplane.wire.negotiate import go_bool
from controlplane.wire.resource import COLLECTION_METHODS, SUBRESOURCE_METHODS, Resource

log = logging.getLogger(__name__)


class Scope(NamedTuple):
    """Which objects of a resource a URL names. `name` "" is a collection."""

    namespace: str = ""
    name: str = ""
    subresource: str = ""


class DeclaredPermission(BasePermission):
    """Allows a request if its view declares what the request attempts and the user may do that.

    A view declares by its method `attributes(request)`, which returns Attributes. None, or no such method, is refused
    with 403. The log names the view and the method; the client learns only that the URL is not open.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        declare: Callable[[Request], Attributes | None] | None = getattr(view, "attributes", None)
        attributes = None if declare is None else declare(request)
        if attributes is None:
            log.error(
                "refused %s %s: %s.%s declares no attributes for this method",
                *(request.method, request.path_info, type(view).__module__, type(view).__qualname__),
            )
            raise PermissionDenied(f"{request.method} {request.path_info} is forbidden: no permission opens this URL")
        decision = authorization.authorize(attributes)
        note_decision(attributes, decision)
        authorization.check(attributes, decision)
        return True


def path_attributes(request: Request) -> Attributes:
    """Return the attributes of a request for a URL that is not a resource."""
    return Attributes(request.user, _path_verb(request.method), path=request.path_info)


def resource_attributes(request: Request, resource: Resource, scope: Scope, *, selects: bool = True) -> Attributes:
    """Return the attributes of a request for a resource, with the verbs that Kubernetes derives from methods.

    `selects`: the answer has only objects that the query parameter `fieldSelector` selects. The answer of a page has
    others too, so its request is about all of them, whatever that parameter says. Raises BadRequest if the query
    parameter `watch` is not a boolean.
    """
    verb = _resource_verb(request, has_name=bool(scope.name))
    name = scope.name or (_selected_name(request, verb) if selects else "")
    return Attributes(
        request.user, verb, resource.group, resource.plural, scope.subresource, scope.namespace, name, request.path_info
    )


def target_attributes(request: Request, target: Target) -> Attributes:
    """Return the attributes of a request for the objects that a target names."""
    return resource_attributes(request, target.resource, Scope(target.namespace, target.name, target.subresource))


def is_watch(request: Request) -> bool:
    """Test whether a GET asks for a stream of changes. Raises BadRequest if `watch` is not a boolean."""
    return request.method == "GET" and go_bool("watch", request.query_params.get("watch"))


def check_probe(method: str, path: str) -> None:
    """Raise Forbidden unless a caller without a login may send this request.

    For health checks, which are answered before anybody is authenticated.
    """
    authorization.check(Attributes(AnonymousUser(), _path_verb(method), path=path))


def without_login(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Return a function view that is authorised for callers without a login, and answers 403 otherwise."""

    @wraps(view)
    def checked(request: HttpRequest) -> HttpResponse:
        try:
            check_probe(request.method or "", request.path_info)
        except Forbidden as error:
            return HttpResponse(f"{error}\n", status=403, content_type="text/plain; charset=utf-8")
        return view(request)

    checked.is_authorized = True  # type: ignore[attr-defined]  # read by the test that enumerates the URLs
    return checked


def _path_verb(method: str | None) -> str:
    """Return the verb of a non-resource request. HEAD and OPTIONS count as reading."""
    verb = (method or "").lower()
    return "get" if verb in ("head", "options") else verb


def _resource_verb(request: Request, *, has_name: bool) -> str:
    """Return the verb of a request. A method that no resource has counts as reading, and is answered with 405 later."""
    if is_watch(request):
        return "watch"
    methods = SUBRESOURCE_METHODS if has_name else {**SUBRESOURCE_METHODS, **COLLECTION_METHODS}
    return methods.get(request.method or "", methods["GET"])


def _selected_name(request: Request, verb: str) -> str:
    """Return the only name that a list or watch selects by `fieldSelector=metadata.name=…`, or "".

    Kubernetes authorises such a request by this name, whatever else it selects by, so that a user may watch a single
    object. A selector that cannot be parsed names nothing; it is refused later.
    """
    if verb not in ("list", "watch"):
        return ""
    try:
        terms = parse_field_selector(request.query_params.get("fieldSelector", ""))
    except SelectorError:
        return ""
    return next((term.value for term in terms if term.field == "metadata.name" and term.equal), "")
