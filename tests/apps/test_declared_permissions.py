"""Every URL says what a request attempts; a URL that does not say is refused."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.test import Client, RequestFactory
from django.urls import URLPattern, URLResolver, get_resolver, resolve
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.api.authorization import Attributes, authorize
from apps.api.permissions import DeclaredPermission

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
# One path for every route of the API and the console.
PATHS = (
    *("/", "/livez", "/healthz", "/readyz", "/metrics", "/debug/controllers", "/version", "/openapi/v2"),
    *("/openapi/v3", "/openapi/v3/apis/apps/v1", "/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1"),
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/authentication.k8s.io/v1/tokenreviews",
    "/api/v1/namespaces/default/serviceaccounts/ci/token",
    "/apis/failover.lifeboat.io/v1alpha1/interpretations",
    "/apis/failover.lifeboat.io/v1alpha1/placementreviews",
    "/apis/identity.lifeboat.io/v1alpha1/credentials",
    "/apis/failover.lifeboat.io/v1alpha1/whatifs",
    "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/web/readiness",
    "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/web/explain",
    "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/web/revert",
    "/apis/failover.lifeboat.io/v1alpha1/fleetreadinesses",
    "/apis/failover.lifeboat.io/v1alpha1/fleetstatuses",
    "/apis/failover.lifeboat.io/v1alpha1/failoverrecords",
    "/apis/failover.lifeboat.io/v1alpha1/namespaces/default/evictions/web/hold",
    "/api/v1/namespaces/default/configmaps/settings",
    "/apis/cluster.karmada.io/v1alpha1/clusters/member1/proxy/api/v1/pods",
    "/api/v1/namespaces/default/pods/web-1/log",
    "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods",
    *("/bindings/shop/web-deployment", "/workloads/apps/Deployment/shop/web"),
    *("/bindings/shop/web-deployment/revert", "/bindings/shop/web-deployment/rebalance", "/queue/gate/on"),
    *("/records", "/records.md", "/records/web.7", "/records/web.7.md"),
    *("/stream", "/queue", "/queue/order", "/queue/rates"),
    *("/readiness", "/readiness.csv"),
    *("/what-if", "/what-if/1a2b"),
    *("/clusters", "/clusters/member1", "/orders/drains/member1-abc/stop"),
    *(
        f"/clusters/member1/{act}"
        for act in (
            *("cordon", "uncordon", "taint", "untaint", "drain", "maintenance", "fence", "unfence", "failback"),
            "unjoin",
        )
    ),
    *("/drills", "/drills/start", "/drills/october", "/drills/october/stop"),
    *("/pause", "/resume/pause-1", "/development/member1/down"),
    "/nothing/is/served/here",
)
# Logins and logout. They read no stored object.
LOGIN = {"login/login/", "login/logout/", "login/oidc", "login/oidc/callback"}


def _routes(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each route below a resolver, spelled as `resolve` spells it, with its callback."""
    for entry in resolver.url_patterns:
        route = prefix + str(entry.pattern)
        if isinstance(entry, URLPattern):
            yield route, entry.callback
        else:
            yield from _routes(entry, route)


def _request(method: str, path: str, user: Any) -> Request:
    request = Request(RequestFactory().generic(method, path))
    request._request.path_info = path
    request.user = user
    return request


def _declared(path: str, method: str, user: Any) -> Attributes | None:
    """Return what a view declares for a request; None: nothing."""
    match = resolve(path)
    view = match.func.cls(**match.func.initkwargs)
    view.args, view.kwargs, view.request = match.args, match.kwargs, _request(method, path, user)
    asked: list[Attributes] = []

    class Recorder(DeclaredPermission):
        def has_permission(self, request: Request, view: Any) -> bool:
            asked.append(view.attributes(request))
            return True

    assert view.permission_classes == (DeclaredPermission,), f"{path}: its view has permissions of its own"
    view.permission_classes = (Recorder,)
    view.check_permissions(view.request)
    return asked[0]


def test_every_route_has_an_example_here() -> None:
    routes = dict(_routes(get_resolver()))
    covered = {resolve(path).route for path in PATHS}

    left = [route for route in routes if route not in covered | LOGIN and not route.startswith("admin/")]

    assert left == [], "add a path of the route to PATHS"


@pytest.mark.parametrize("path", PATHS)
def test_every_view_declares_what_each_method_attempts(path: str) -> None:
    callback = resolve(path).func
    if not hasattr(callback, "cls"):
        assert getattr(callback, "is_authorized", False), f"wrap {path} in permissions.without_login"
        return

    for method in METHODS:
        attributes = _declared(path, method, User(username="reader"))

        assert attributes is not None, f"{method} {path} declares nothing"
        assert attributes.verb
        assert attributes.resource or attributes.path == path


def test_a_view_that_declares_nothing_is_refused_and_only_the_log_says_what_is_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Forgetful(APIView):
        authentication_classes = ()

        def get(self, request: Request) -> None:
            raise AssertionError("this view must not be reached")

    with caplog.at_level(logging.ERROR, logger="apps.api.permissions"):
        response = Forgetful.as_view()(RequestFactory().get("/forgotten"))
        response.render()

    assert response.status_code == 403
    assert b"Forgetful" not in response.content
    assert "Forgetful declares no attributes for this method" in caplog.text


def test_every_page_of_the_admin_sends_callers_without_a_login_to_the_login() -> None:
    client = Client()
    routes = [route for route, _ in _routes(get_resolver()) if route.startswith("admin/")]
    assert len(routes) > 50

    for route in routes:
        path = re.sub(r"<[^>]+>", "1", route).replace(r"\Z", "")
        if path in ("admin/login/",) or not re.fullmatch(r"[\w/.-]+", path):
            continue
        response = client.get(f"/{path}")
        location = response.headers.get("Location", "")
        assert response.status_code == 302, path
        assert location == "/admin/" or location.startswith("/admin/login/"), path  # "/admin/": after the logout


@pytest.mark.django_db
def test_what_no_rule_allows_is_refused() -> None:
    reader, nobody = User.objects.create_user("reader"), AnonymousUser()

    assert not authorize(Attributes(reader, "", "apps", "deployments")).allowed
    assert not authorize(Attributes(reader, "post", path="/metrics")).allowed
    assert not authorize(Attributes(nobody, "get", path="/metrics")).allowed
    assert not authorize(Attributes(nobody, "post", path="/livez")).allowed
    assert authorize(Attributes(nobody, "get", path="/livez")).allowed
    assert not authorize(Attributes(reader, "get", "apps", "deployments")).allowed
    assert authorize(Attributes(User.objects.create_superuser("root"), "delete", "", "secrets")).allowed
