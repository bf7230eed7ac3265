"""Views: the base of all views of the API, and the view that serves every stored kind."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import orjson
from django.http import HttpResponseBase
from msgspec.structs import replace
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.api import agents, auditing, bodies, error_mapping, pages, reading, renderers
from apps.api.anonymous import anonymous
from apps.api.answer import Answer, ListAnswer, ObjectAnswer
from apps.api.authentication import AUTHENTICATORS
from apps.api.authorization import Attributes, check
from apps.api.beside import READERS
from apps.api.callers import CALLER
from apps.api.confirming import confirmation, kubectl_line, reason_of
from apps.api.impersonation import impersonated
from apps.api.in_force import ConfiguredList, configured
from apps.api.logins import LOGIN_USER
from apps.api.pagination import ContinuePagination
from apps.api.parsers import PARSERS, PATCH_PARSERS
from apps.api.permissions import DeclaredPermission, is_watch, path_attributes, target_attributes
from apps.api.pod_commands import check_pods
from apps.api.query import Listing, dry_run, listing_of, writing_of
from apps.api.streams import watch_response
from apps.api.target import Target, target_of
from apps.api.writing import REASON, RemovedAnswer, RequestWriter, WrittenAnswer
from apps.objects.configuration import configuration
from apps.objects.decision_log import log_refusal
from apps.objects.encryption import Opening, legible
from apps.objects.store import store
from controlplane.apimachinery.causes import required
from controlplane.apimachinery.errors import Invalid, MethodNotAllowed, Unauthorized, UnsupportedMediaType
from controlplane.kinds import FAILOVER_CONFIGURATION
from controlplane.wire import scale
from controlplane.wire.negotiate import media_type_of
from controlplane.wire.patch import APPLY_PATCH
from controlplane.wire.resource import Resource
from controlplane.wire.status import status_of, success
from controlplane.wire.table import include_object_of
from controlplane.wire.warnings import warning_values


class KubernetesView(APIView):
    """Base of all views: authentication, permissions, renderers, pagination, and errors as Status documents."""

    authentication_classes = AUTHENTICATORS
    permission_classes = (DeclaredPermission,)
    throttle_classes = ()
    parser_classes: Any = PARSERS
    renderer_classes: Any = pages.PLAIN
    versioning_class = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        _ = request._request.body  # read now, because the CSRF check would consume the stream
        super().initial(request, *args, **kwargs)
        if isinstance(request.accepted_renderer, renderers.TableRenderer):  # refused before anything is written
            include_object_of(request.query_params.get("includeObject"))

    def perform_authentication(self, request: Request) -> None:
        """Raise Unauthorized for a caller without a login, before permissions are checked."""
        super().perform_authentication(request)
        if not request.user.is_authenticated:
            if (user := anonymous(request)) is not None:
                request.user = user  # type: ignore[assignment]  # has what views ask of a user
                return
            raise Unauthorized("Unauthorized: send a bearer token (manage.py token create), or log in")
        request.META[CALLER] = request.user.get_username()
        _refuse_unknown_encodings(request)
        auditing.note_user(request.user)
        if (user := impersonated(request)) is not None:
            auditing.note_user(request.user, user)
            request.META[LOGIN_USER] = request.user
            request.user = user  # type: ignore[assignment]  # has what views ask of a user

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        final: Any = super().finalize_response(request, response, *args, **kwargs)
        renderer = getattr(final, "accepted_renderer", None)
        if isinstance(renderer, renderers.FormRenderer) and final.content_type is None:
            final.content_type = renderer.content_type or None
        return final

    def handle_exception(self, exc: Exception) -> Response:
        error = error_mapping.status_error(exc)
        if self.request.method not in SAFE_METHODS:
            actor = self.request.META.get(CALLER, "")
            log_refusal(error, actor=actor, way=f"{self.request.method} {self.request.path}")
        response = Response(Answer(status_of(error)), status=error.code, content_type="application/json")
        renderer = getattr(self.request, "accepted_renderer", None)
        if renderer is None:
            self.request.accepted_renderer = renderers.JSONRenderer()
            self.request.accepted_media_type = "application/json"
        elif isinstance(renderer, pages.PageRenderer) and error.code < 500:
            response.content_type = None  # a page shows the Status; after a server error a page might fail as well
        elif not isinstance(renderer, renderers.JSONRenderer):
            self.request.accepted_renderer = renderers.JSONRenderer()
        error_mapping.add_headers(response, error)
        response.exception = True
        return warning(response, error.warnings)

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        raise MethodNotAllowed(f"the server does not allow {request.method} here")

    def get_view_name(self) -> str:
        return "Lifeboat"

    @cached_property
    def paginator(self) -> ContinuePagination:
        """The pagination of this request's page, by the name under which REST framework looks for it."""
        return ContinuePagination()

    def limited(self, listing: Listing) -> Listing:
        """Return the list options for this request. A page in a browser has a limited number of objects."""
        in_browser = isinstance(getattr(self.request, "accepted_renderer", None), pages.PageRenderer)
        return self.paginator.limited(listing) if in_browser else listing


class TargetView(KubernetesView):
    """Base of the views whose URL names a served kind. `target` is set before permissions are checked."""

    target: Target

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        final = super().finalize_response(request, response, *args, **kwargs)
        if hasattr(self, "target"):  # REST framework sets the header before the target is known
            final["Allow"] = ", ".join(self.allowed_methods)
            if self.target.resource.deprecation:
                given = (final.get("Warning"), *warning_values([self.target.resource.deprecation]))
                final["Warning"] = ", ".join(filter(None, given))
        return final

    def check_permissions(self, request: Request) -> None:
        if not hasattr(self, "target"):  # the browsable API checks again for each form it shows
            self.target = target_of(request.path_info.strip("/"))
        super().check_permissions(request)

    def attributes(self, request: Request) -> Attributes:
        return target_attributes(request, self.target)


class NowhereView(KubernetesView):
    """Answers 404 for a URL under which nothing is served. Callers without a login get 401."""

    def attributes(self, request: Request) -> Attributes:
        return path_attributes(request)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise error_mapping.nothing_here()


class ObjectView(TargetView):
    """Serves every stored kind: collections, objects, /status and /scale."""

    renderer_classes = pages.OBJECTS
    http_method_names = ["get", "head", "post", "put", "patch", "delete", "options"]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.parser_classes = PATCH_PARSERS if request.method == "PATCH" else PARSERS

    @property
    def allowed_methods(self) -> list[str]:
        """Return the methods of this URL, as the header Allow names them. The browsable API shows forms for them."""
        target = getattr(self, "target", None)
        if target is None:
            return []
        methods = target.resource.methods(has_name=bool(target.name), subresource=target.subresource)
        return [*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"]

    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        target = self.target
        self._need_verb("GET")
        check_pods(request, target)
        if is_watch(request) and not target.subresource:
            return watch_response(request, target, store(), allowed=self.attributes(request))
        if target.name and target.kind.key == FAILOVER_CONFIGURATION:
            as_table = isinstance(request.accepted_renderer, renderers.TableRenderer)
            return _response(configured(target, as_table=as_table))
        if target.name:
            text = reading.get(target, opening=self._opening)
            if target.subresource == "scale":
                return _response(_scale_of(target.resource, text))
            return _response(ObjectAnswer(target.resource, text, READERS.get(target.kind.key)))
        listing = self.limited(listing_of(request.query_params, target.resource, namespace=target.namespace))
        page = reading.listed(store(), target, replace(listing, opening=self._opening))
        read_beside = READERS.get(target.kind.key)
        if target.kind.key != FAILOVER_CONFIGURATION:
            return _response(ListAnswer(target.resource, page.texts, page.list_meta, read_beside))
        configurations = ConfiguredList(target.resource, page.texts, page.list_meta, read_beside)
        configurations.selected = not listing.choice.is_everything
        return _response(configurations)

    @property
    def _opening(self) -> Opening:
        """How Secrets are decrypted for the answer to a read."""
        no_values = _needs_no_values(self.request, is_list=not self.target.name)
        return legible if no_values else agents.opening_for(self.request.user)

    def post(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if self.target.name:
            raise MethodNotAllowed(f"the server does not allow POST on a {self.target.resource.kind} that has a name")
        body = bodies.decode(request.content_type, request.body)
        check(self.attributes(request)._replace(name=bodies.name_of(body)))
        return self._written(self._writer(request).create(body))

    def put(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        self._need_name("PUT")
        self._need_verb("PUT")
        writer = self._writer(request)
        body = bodies.decode(request.content_type, request.body)
        if self.target.subresource == "scale":
            return self._scaled(writer.scale(lambda current: body.document))
        creation = self.attributes(request)._replace(verb="create")
        return self._written(writer.update(body, check_creation=lambda: check(creation)))

    def patch(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        self._need_name("PATCH")
        self._need_verb("PATCH")
        writer = self._writer(request)
        content_type, raw = request.content_type, request.body
        is_applied = media_type_of(content_type) == APPLY_PATCH
        if is_applied and not request.query_params.get("fieldManager"):
            raise Invalid.of("PatchOptions", "", [required("fieldManager", "is required for apply patch")])
        is_scale = self.target.subresource == "scale"
        if is_scale and not is_applied:
            scale.check_patch_type(content_type)
            return self._scaled(writer.scale(lambda current: scale.patched(content_type, current, raw)))
        creation = self.attributes(request)._replace(verb="create")
        written = writer.patch(content_type, raw, check_creation=lambda: check(creation))
        return self._scaled(written) if is_scale else self._written(written)

    def delete(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if self.target.subresource:
            raise MethodNotAllowed(f"the server does not allow DELETE on {self.target.subresource}")
        options = bodies.delete_options(request.content_type, request.body, request.query_params)
        writer = self._writer(request, options)
        resource = self.target.resource
        if self.target.name:
            done = writer.delete(options)
            if isinstance(done, RemovedAnswer):
                status = success(kind=resource.plural, name=done.name, group=resource.group, uid=done.uid)
                return warning(Response(Answer(status)), done.warnings)
            return warning(_response(ObjectAnswer(resource, done.text)), done.warnings)
        listing = listing_of(request.query_params, resource, namespace=self.target.namespace)
        listed, warnings = writer.delete_all(listing, options)
        return warning(_response(listed), warnings)

    def _need_name(self, method: str) -> None:
        if not self.target.name:
            raise MethodNotAllowed(f"the server does not allow {method} on a collection; name one object in the URL")

    def _need_verb(self, method: str) -> None:
        """Raise MethodNotAllowed for a method that a subresource does not have: finalize, for example, takes only
        PUT."""
        target = self.target
        if target.subresource and method not in target.resource.methods(has_name=True, subresource=target.subresource):
            raise MethodNotAllowed(f"the server does not allow {method} on {target.subresource}")

    def _writer(self, request: Request, options: Any = None) -> RequestWriter:
        writing = writing_of(request.query_params, user_agent=request.headers.get("User-Agent", ""))
        if options is not None:
            writing = writing.__class__(writing.manager, dry_run(request.query_params, options), "Ignore", False)
        name = self.target.name or self.target.resource.plural
        asked = confirmation(request, name, lambda: kubectl_line(request, self.target))
        reason = reason_of(request, REASON)
        return RequestWriter(
            store(),
            configuration().settings(),
            self.target,
            writing,
            user=request.user,
            reason=reason,
            confirmation=asked,
        )

    def _written(self, written: Any) -> Response:
        response = _response(ObjectAnswer(self.target.resource, written.text), status=201 if written.created else 200)
        return warning(response, written.warnings)

    def _scaled(self, written: WrittenAnswer) -> Response:
        return warning(_response(_scale_of(self.target.resource, written.text)), written.warnings)


def _scale_of(resource: Resource, text: bytes) -> ObjectAnswer:
    return ObjectAnswer(scale.RESOURCE, orjson.dumps(scale.scale_of(ObjectAnswer(resource, text).document, resource)))


def warning(response: Response, warnings: Sequence[str]) -> Response:
    """Return the response with the warnings in its Warning header, which kubectl prints."""
    if warnings:
        response["Warning"] = ", ".join(warning_values(warnings))
    return response


def _needs_no_values(request: Request, *, is_list: bool) -> bool:
    """Test whether the answer shows only metadata and columns, as `kubectl get` does without `-o yaml`."""
    renderer = request.accepted_renderer
    if isinstance(renderer, pages.PageRenderer):
        return is_list
    if isinstance(renderer, renderers.TableRenderer):
        return include_object_of(request.query_params.get("includeObject")) != "Object"
    return isinstance(renderer, renderers.MetadataRenderer)


def _response(answer: Answer, *, status: int = 200) -> Response:
    return Response(answer, status=status)


def _refuse_unknown_encodings(request: Request) -> None:
    """Raise UnsupportedMediaType for a body that is compressed in another way than gzip."""
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedMediaType(
            f"Content-Encoding {encoding!r} is not supported; send the body uncompressed, or with gzip"
        )


def refuse_watch(request: Request, resource: Resource, instead: str = "get or list them again") -> None:
    """Raise MethodNotAllowed for a watch on a kind that is computed when it is read. Discovery offers no such watch.

    `instead`: what to do, with the command.
    """
    if is_watch(request):
        raise MethodNotAllowed(
            f"{resource.plural} are computed when they are read and cannot be watched: {instead}",
            kind=resource.plural,
            group=resource.group,
        )
