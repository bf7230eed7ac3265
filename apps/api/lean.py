"""The lean way: stored objects are served to bearer tokens without Django's middlewares and REST framework.

`ObjectView` answers both ways, with the same rights, audit, metrics and errors. What only browsers and rare requests
need goes the full way: sessions, pages, watches, impersonation, other views. A request without a valid token, or one
that is forbidden, goes the full way as well. So callers are refused in one place only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from time import perf_counter
from typing import Any, Final, NamedTuple

from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.db import close_old_connections
from django.http import QueryDict
from django.http.request import split_domain_port, validate_host
from django.urls import Resolver404, resolve
from rest_framework.exceptions import NotAcceptable
from rest_framework.response import Response

from apps.api import auditing, authorization, bootstrap_tokens, error_mapping, pages, renderers
from apps.api.answer import Answer
from apps.api.bearer import Credential, credential_of
from apps.api.caching import HEADER, PRIVATE
from apps.api.callers import CALLER
from apps.api.incoming import IMPERSONATION
from apps.api.negotiation import Negotiation
from apps.api.outgoing import Headers
from apps.api.permissions import target_attributes
from apps.api.remembered import REMEMBERED
from apps.api.request_metrics import measure
from apps.api.target import target_of
from apps.api.views import ObjectView, warning
from apps.objects import audit
from apps.objects.decision_log import log_refusal
from apps.objects.tracing import mark, span
from controlplane.apimachinery.errors import StatusError
from controlplane.authorization.audit_event import Answered
from controlplane.wire.request import parse_path
from controlplane.wire.status import status_of
from controlplane.wire.table import include_object_of
from controlplane.wire.warnings import warning_values

METHODS: Final = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE"))
SUBRESOURCES: Final = frozenset(("", "status", "scale"))
MOST_KEPT: Final = 512  # hosts, Accept headers and kinds of URLs about which a process remembers something
_PATH: Final = re.compile(r"/apis?/[A-Za-z0-9._/-]+")  # names with other characters are rare
_RARE: Final = frozenset(("HTTP_COOKIE", "HTTP_CONTENT_ENCODING", "HTTP_KUBECTL_COMMAND", IMPERSONATION))
_STREAM_OR_FORM: Final = frozenset(("watch", "format"))  # query parameters
_JSON: Final = "application/json"


class LeanReply(NamedTuple):
    """A complete answer, and the name of the user who asked ("": not known, because the database is away)."""

    status: int
    headers: Headers
    body: bytes
    user: str


class _Headers:
    """The headers of a WSGI environment."""

    __slots__ = ("_environ",)

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self._environ = environ

    def get(self, name: str, default: Any = None) -> Any:
        return self._environ.get(f"HTTP_{name.upper().replace('-', '_')}", default)


class LeanRequest:
    """What `ObjectView` and the permissions read of a request, straight from its WSGI environment."""

    auth: Any = None
    user: Any = None

    def __init__(self, environ: dict[str, Any], query: Mapping[str, str], renderer: renderers.FormRenderer) -> None:
        self.META = environ
        self.method: str = environ["REQUEST_METHOD"]
        self.path = self.path_info = environ["PATH_INFO"]
        self.query_params = query
        self.headers = _Headers(environ)
        self.content_type: str = environ.get("CONTENT_TYPE", "")
        self.accepted_renderer = renderer

    @property
    def body(self) -> bytes:
        """The whole body."""
        content: bytes = self.META["wsgi.input"].getvalue()
        return content


def answer(environ: dict[str, Any]) -> LeanReply | None:
    """Return the answer to a request; None: it goes the full way, and nothing has been done."""
    request = _eligible(environ)
    if request is None:
        return None
    began = perf_counter()
    trail = auditing.trail_of(environ)
    audit.begin(trail)
    try:
        with span(f"{request.method} {request.path}"):
            reply = _answered(request, trail)
            if reply is not None:
                mark(code=reply.status)
    finally:
        audit.begin(None)
        close_old_connections()
    if reply is not None:
        measure(ObjectView, request.method, reply.status, perf_counter() - began)
    return reply


def _eligible(environ: dict[str, Any]) -> LeanRequest | None:
    """Return the request; None: it goes the full way. Reads nothing but the environment."""
    scheme, _, secret = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "bearer" or bootstrap_tokens.is_one(secret.strip()):
        return None
    if environ["REQUEST_METHOD"] not in METHODS or not _RARE.isdisjoint(environ):
        return None
    if not is_allowed_host(environ.get("HTTP_HOST", "")) or not is_served(environ["PATH_INFO"]):
        return None
    query, renderer = query_of(environ["QUERY_STRING"]), renderer_of(environ.get("HTTP_ACCEPT", "*/*"))
    if query is None or renderer is None or not _STREAM_OR_FORM.isdisjoint(query):
        return None
    return LeanRequest(environ, query, renderer)


def query_of(text: str) -> Mapping[str, str] | None:
    """Return the parameters of a query; None: Django refuses their number, and so does the full way."""
    try:
        return QueryDict(text) if text else {}
    except SuspiciousOperation:
        return None


@lru_cache(maxsize=MOST_KEPT)
def is_allowed_host(host: str) -> bool:
    """Test whether requests for a host are served."""
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def is_served(path: str) -> bool:
    """Test whether `ObjectView` serves a path. Names decide nothing about that, so the answer is kept without them."""
    place = parse_path(path[1:].split("/")) if _PATH.fullmatch(path) else None
    if place is None or place.subresource not in SUBRESOURCES:
        return False
    shape = (place.group, place.version, place.plural, bool(place.namespace), bool(place.name), place.subresource)
    served = _SHAPES.get(shape)
    if served is None:
        served = _is_of_object_view(path)
        if len(_SHAPES) < MOST_KEPT:
            _SHAPES[shape] = served
    return served


_SHAPES: Final[dict[tuple[Any, ...], bool]] = {}


def _is_of_object_view(path: str) -> bool:
    try:
        return getattr(resolve(path).func, "view_class", None) is ObjectView
    except Resolver404:
        return False


class _Accepting:
    """What REST framework's negotiation reads of a request."""

    def __init__(self, accept: str) -> None:
        self.headers = {"accept": accept}
        self.query_params: dict[str, str] = {}


@lru_cache(maxsize=MOST_KEPT)
def renderer_of(accept: str) -> renderers.FormRenderer | None:
    """Return the renderer that REST framework chooses for a header Accept; None: a page, or no renderer fits."""
    asked: Any = _Accepting(accept)
    try:
        chosen, _ = Negotiation().select_renderer(asked, [each() for each in pages.OBJECTS])
    except NotAcceptable:
        return None
    return chosen if isinstance(chosen, renderers.FormRenderer) else None


def _answered(request: Any, trail: audit.Trail) -> LeanReply | None:
    """Return the answer; None: the caller has no valid token or no right, or nothing is served here."""
    view = ObjectView()
    try:
        credential = _credential(request)
        if credential is None:
            return None
        request.user, request.auth = credential
        view.request, view.target = request, target_of(request.path[1:])
        attributes = target_attributes(request, view.target)
        decision = authorization.authorize(attributes)
        authorization.check(attributes, decision)
        if isinstance(request.accepted_renderer, renderers.TableRenderer):
            include_object_of(request.query_params.get("includeObject"))
    except StatusError:
        return None
    except Exception as error:  # noqa: BLE001  # the answer to any error is a Status
        return refused(request, (), error, trail)
    request.META[CALLER] = request.user.get_username()
    auditing.note_user(request.user)
    auditing.note_decision(attributes, decision)
    return _handled(request, view, trail)


def _credential(request: Any) -> Credential | None:
    """Return the credential of a request as it was found half a second ago at most; None: the token is not valid."""
    header = request.META["HTTP_AUTHORIZATION"]
    if (checked := REMEMBERED.find(header)) is not None:
        return checked.credential
    return REMEMBERED.check(header, lambda: credential_of(header.partition(" ")[2].strip(), request))


def _handled(request: Any, view: ObjectView, trail: audit.Trail) -> LeanReply:
    """Return what the view answers, or its error as a Status."""
    fixed = [(b"allow", ", ".join(view.allowed_methods).encode())]
    fixed += [(b"warning", value.encode()) for value in warning_values([view.target.resource.deprecation])]
    try:
        response: Any = getattr(view, request.method.lower())(request)
        renderer = request.accepted_renderer
        body = renderer.encode(response.data, {"request": request})
    except Exception as error:  # noqa: BLE001  # the same
        return refused(request, tuple(fixed), error, trail)
    if not trail.stored:
        auditing.record(trail, Answered(response.status_code))
    content_type = renderer.content_type or renderer.media_type
    return _reply(request, trail, response, body, ((b"content-type", content_type.encode()), *fixed))


def refused(request: Any, headers: tuple[tuple[bytes, bytes], ...], error: Exception, trail: audit.Trail) -> LeanReply:
    """Return an error as a Status, logged and recorded as the full way does."""
    failure = error_mapping.status_error(error)
    if request.method != "GET":
        log_refusal(failure, actor=request.META.get(CALLER, ""), way=f"{request.method} {request.path}")
    response = warning(Response(status=failure.code), failure.warnings)
    error_mapping.add_headers(response, failure)
    if not trail.stored:
        auditing.record(trail, auditing.refusal(failure))
    body = Answer(status_of(failure)).text
    return _reply(request, trail, response, body, ((b"content-type", _JSON.encode()), *headers))


def _reply(
    request: Any, trail: audit.Trail, response: Any, body: bytes, headers: tuple[tuple[bytes, bytes], ...]
) -> LeanReply:
    more = [(name.lower().encode(), value.encode("latin-1")) for name, value in _own_headers(response)]
    whole = [
        *headers,
        *headers_of_every_answer(request.META["wsgi.url_scheme"]),
        (b"content-length", str(len(body)).encode()),
        (b"audit-id", trail.audit_id.encode()),
        *more,
    ]
    return LeanReply(response.status_code, whole, body, request.META.get(CALLER, ""))


def _own_headers(response: Any) -> Iterator[tuple[str, str]]:
    """Yield the headers that the view or an error has set."""
    return ((name, value) for name, value in response.items() if name != "Content-Type")


def json_renderer() -> renderers.FormRenderer:
    """Return the renderer of plain JSON."""
    return renderers.JSONRenderer()


@lru_cache(maxsize=2)
def headers_of_every_answer(scheme: str) -> Headers:
    """Return the headers that Django's middlewares set, by the same settings."""
    headers = [
        (b"vary", b"Accept"),
        (HEADER.lower().encode(), PRIVATE.encode()),
        (b"x-frame-options", settings.X_FRAME_OPTIONS.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", settings.SECURE_REFERRER_POLICY.encode()),
        (b"cross-origin-opener-policy", settings.SECURE_CROSS_ORIGIN_OPENER_POLICY.encode()),
    ]
    if scheme == "https" and settings.SECURE_HSTS_SECONDS:
        headers.append((b"strict-transport-security", f"max-age={settings.SECURE_HSTS_SECONDS}".encode()))
    return headers
