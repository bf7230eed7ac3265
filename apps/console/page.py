"""Page: the base of all pages of the console. Read this before you add a page.

A page is a class in a file of its own:

    class QueuePage(Page):
        title = "Queue"
        template_name = "console/queue.html"          # extends "console/base.html": blocks title, content
        topics = {"queue": ("Eviction", "Cluster")}   # live part → subjects whose change renews it
        resource = eviction.RESOURCE                  # a request attempts to list it; or override attributes(request)

        def kubectl(self) -> str:                     # the line "as kubectl" at the foot of the page
            return "kubectl get evictions -A"

        def context(self, request) -> dict[str, Any]: # self.kwargs: parts of the URL; self.part: "" or a part
            return {"rows": ...}

and a line in `apps/console/urls.py`: `path("queue", QueuePage.as_view(), name="queue")`. A page whose name is in
NAVIGATION (`apps/console/navigation.py`) then appears in the navigation.

- **Login and rights.** A caller without a login is sent to the login. `attributes(request)` declares what a request
  attempts, as in every view of the API; 403 comes before 404. Add a path of the page to
  `tests/apps/test_declared_permissions.py`. For a button, ask `self.may(request, verb, resource, name=..., ...)`.
- **Live parts.** A part is a template `console/parts/<name>.html`. The page shows it with `{% part "queue" %}`, and
  `?part=queue` answers with this part alone. The stream of a browser, which all its tabs share, names the parts whose
  subjects have changed, at most once a second, and htmx then fetches those parts. Subjects are keys of kinds
  (`kinds.CLUSTER`), references as text (`str(ref)`) and the types of row-native values with a trigger ("Eviction",
  "FleetState": a migration such as `apps/failover/migrations/0014_topics.py` adds more). Subjects that depend on the
  URL: override `subjects()`.
  Without JavaScript the page is complete, and the reader reloads it. A part that many watch at once is a SharedPart
  (`apps/console/shared.py`): it is rendered once for all browsers with equal rights.
- **Times.** `{% utc moment %}` shows a time in UTC, with the zone of the reader beside it. `{% age moment %}` shows
  how long ago it was. Every figure has one of them. `{% badge "ok" "Ready" %}` shows a state as an icon with a word:
  ok, warn, bad, info, off.
- **Acts.** A form that changes something is an Act in `apps/console/guard.py`.
- **Policy.** No inline scripts and no inline styles: the Content-Security-Policy refuses them. Charts are SVG with
  classes.

Every page answers with a constant number of queries. `tests/apps/test_console_pages.py` has an example of the test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.contrib.messages import get_messages
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers
from rest_framework.exceptions import PermissionDenied
from rest_framework.parsers import FormParser, MultiPartParser
from rest_framework.request import Request

from apps.api import authorization, error_mapping
from apps.api.authorization import Attributes
from apps.api.permissions import Scope, path_attributes, resource_attributes
from apps.api.renderers import JSONRenderer
from apps.api.views import KubernetesView
from apps.console.board import BOARD
from apps.console.kept_pages import KEPT
from apps.console.navigation import navigation
from apps.console.own_namespaces import pages_of
from apps.console.shared import SharedPart
from apps.objects.store import store
from controlplane.apimachinery.errors import MethodNotAllowed, NotFound
from controlplane.wire.resource import Resource

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "worker-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)


class Page(KubernetesView):
    """Base of the pages of the console. The docstring of this file describes its use."""

    title: ClassVar[str] = ""
    template_name: ClassVar[str] = ""
    topics: ClassVar[Mapping[str, Sequence[str]]] = {}
    resource: ClassVar[Resource | None] = None
    part: str = ""
    query: QueryDict  # of the page, also while its stream is opened

    http_method_names = ["get", "head", "post", "options"]
    parser_classes = (FormParser, MultiPartParser)  # also read by the CSRF check, which looks for the token in a form

    def attributes(self, request: Request) -> Attributes:
        """Return what a request attempts: to read `resource`, or the path of the page if it has none."""
        if self.resource is None:
            return path_attributes(request)
        scope = Scope(namespace=self.kwargs.get("namespace", ""), name=self.kwargs.get("name", ""))
        return resource_attributes(request, self.resource, scope, selects=False)

    def context(self, request: Request) -> dict[str, Any]:
        """Return the variables of the template."""
        return {}

    def kubectl(self) -> str:
        """Return the command that reads the same. "": there is none."""
        return ""

    def subjects(self) -> dict[str, tuple[str, ...]]:
        """Return the live parts of this page, each with its subjects. `self.kwargs` is set."""
        return {part: tuple(subjects) for part, subjects in self.topics.items()}

    def shared_part(self, request: Request) -> SharedPart | None:
        """Return the live part that is rendered once for all browsers with equal rights; None: there is none."""
        return None

    def may(
        self, request: Request, verb: str, resource: Resource, *, namespace: str = "", name: str = "", sub: str = ""
    ) -> bool:
        """Test whether the user may do this, by the same rules as the API."""
        asked = Attributes(request.user, verb, resource.group, resource.plural, sub, namespace, name)
        return authorization.authorize(asked).allowed

    def address_of_form(self, http: HttpRequest) -> str:
        """Return the URL at which a form that was sent to this page is found again, as it was filled in."""
        return http.path

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        self.query = request.query_params
        if BOARD.hangs():  # a request would wait as long as the database hangs, and the reader with it
            raise OperationalError("timeout expired: the last statement of the board")
        super().initial(request, *args, **kwargs)

    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        self.part = request.query_params.get("part", "")
        if self.part and self.part not in self.subjects():
            raise NotFound(f"this page has no part {self.part!r}; it has {', '.join(self.subjects()) or 'none'}")
        return self.show(request, self.context(request))

    def show(self, request: Request, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
        """Return the page, or the part that was asked for, with these variables. Successful pages are kept."""
        shown = {**frame(self, request), **context}
        name = f"console/parts/{self.part}.html" if self.part else self.template_name
        text = render_to_string(name, shown, request=request._request)
        if status == 200 and request.method == "GET" and not self.part:
            KEPT.keep(request._request, text, at=shown["now"])
        return answer(text, status=status)

    # The frame of every request

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        return JSONRenderer(), "text/html"  # a page has a single form, whatever the Accept header contains

    def handle_exception(self, exc: Exception) -> Any:
        """Return an error as a page. Callers without a login are sent to the login."""
        http: HttpRequest = self.request._request
        away = error_mapping.is_away(exc)
        error = error_mapping.status_error(exc)
        if error.code == 401:
            return _to_login(self, http)
        if away:
            http.user = AnonymousUser()  # so that no middleware looks for the user in the database
        if away and http.method == "GET" and "part" not in http.GET and (kept := KEPT.find(http)) is not None:
            return answer(kept.text_with(error.message), status=200)
        shown: dict[str, Any] = {"error": error, "away": away, "title": error.reason}
        shown |= {"navigation": navigation(http.path_info), "wrote": http.method == "POST"}
        shown["is_home"] = http.path_info == "/"
        if isinstance(exc, PermissionDenied) and str(exc.detail).startswith("CSRF"):
            shown["again"] = self.address_of_form(http)
        if error.code == 403 and http.method == "GET" and "part" not in http.GET:
            shown["namespaces"] = pages_of(self.request.user)
        text = render_to_string("console/error.html", shown)
        response = answer(text, status=error.code)
        error_mapping.add_headers(response, error)
        return response

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        raise MethodNotAllowed(f"{request.method} is not possible on this page")


def namespaced_attributes(page: Page, request: Request, resource: Resource) -> Attributes:
    """Return what a request for a list attempts, if the parameter `namespace` of the page limits it to a namespace.

    So users with rights in one namespace may read the list of this namespace.
    """
    query = getattr(page, "query", request.query_params)
    scope = Scope(namespace=query.get("namespace", "").strip(), name=page.kwargs.get("name", ""))
    return resource_attributes(request, resource, scope, selects=False)


def offset_of(query: QueryDict, size: int) -> int:
    """Return the number of the first row of the page that `offset` names, for pages of `size` rows."""
    text = query.get("offset", "")
    return int(text) // size * size if text.isdecimal() and len(text) < 8 else 0


def within(offset: int, count: int, size: int) -> int:
    """Return the first row of a page, or of the last page if the list has become shorter and ends before the row."""
    return min(offset, max(0, count - 1) // size * size)


def frame(page: Page, request: Request) -> dict[str, Any]:
    """Return the variables that `console/base.html` needs."""
    now: datetime = store().now()
    return {
        "page": page,
        "title": page.title,
        "now": now,
        "kubectl": page.kubectl(),
        "navigation": navigation(request.path_info),
        "user": request.user,
        "development": settings.DEVELOPMENT,
        "notices": get_messages(request._request) if not page.part else (),
        "stream": request._request.get_full_path() if page.subjects() else "",
    }


def answer(text: str, *, status: int = 200) -> HttpResponse:
    """Return a text as an HTML answer that no cache keeps, with the policy of the console."""
    response = HttpResponse(text, status=status, content_type="text/html; charset=utf-8")
    response["Content-Security-Policy"] = POLICY
    response["Cache-Control"] = "no-store"
    patch_vary_headers(response, ("Accept", "Cookie"))
    return response


def _to_login(page: Page, request: HttpRequest) -> HttpResponse:
    """Return the redirect to the login. A part is fetched by a script, which cannot follow it: it gets 401."""
    wanted = _address_of_page(request) if request.method in ("GET", "HEAD") else page.address_of_form(request)
    login = f"{settings.LOGIN_URL}?{urlencode({'next': wanted})}"
    if "part" in request.GET:
        response = HttpResponse(status=401)
        response["HX-Redirect"] = login
        return response
    redirect = HttpResponse(status=302)
    redirect["Location"] = login
    return redirect


def _address_of_page(request: HttpRequest) -> str:
    """Return the URL of the page that a request shows, or of which it shows a part."""
    query = request.GET.copy()
    query.pop("part", None)
    return f"{request.path}?{query.urlencode()}" if query else request.path
