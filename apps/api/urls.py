"""All URLs of the API.

One route serves all kinds (ObjectView, which finds the kind by `target.target_of`). Kinds and subresources with a view
of their own have routes before it, derived from their Resource declarations.
"""

from django.urls import include, path, re_path

from apps.api import debug, discovery, elsewhere, health, token_requests
from apps.api.actions import ACTIONS, ActionView, RecordsView
from apps.api.credentials import CredentialsView
from apps.api.evictions import EvictionsView
from apps.api.fleet_status import FleetStatusView
from apps.api.interpretation import InterpretationView
from apps.api.permissions import without_login
from apps.api.placement import ExplainView, PlacementReviewView
from apps.api.proxy import PATTERN, ProxyView
from apps.api.readiness import FleetReadinessView, ReadinessView
from apps.api.reviews import ReviewView
from apps.api.token_requests import TokenRequestView, TokenReviewView
from apps.api.views import NowhereView, ObjectView
from apps.api.what_if import WhatIfView
from controlplane.kinds import (
    EVICTIONS,
    KINDS,
    credential,
    failover_record,
    fleet_readiness,
    fleet_status,
    interpretation,
    placement_review,
    what_if,
)
from controlplane.wire import url_patterns

RESOURCES = tuple(kind.resource for kind in KINDS)  # kinds that users define have no URLs of their own
ACTED_ON = {subresource for _, subresource in ACTIONS}

urlpatterns = [
    re_path(r"^livez/?$", without_login(health.livez)),
    re_path(r"^healthz/?$", without_login(health.livez)),
    re_path(r"^readyz/?$", without_login(health.readyz)),
    re_path(r"^metrics/?$", debug.MetricsView.as_view()),
    re_path(r"^debug/controllers/?$", debug.ControllersView.as_view()),
    re_path(r"^version/?$", discovery.VersionView.as_view()),
    re_path(r"^openapi/v2/?$", discovery.OldOpenAPIView.as_view()),
    re_path(r"^openapi/v3/?$", discovery.OpenAPIView.as_view()),
    re_path(r"^openapi/v3/(?P<path>apis?/.+?)/?$", discovery.OpenAPIView.as_view()),
    re_path(r"^api/?$", discovery.RootsView.as_view(core=True)),
    re_path(r"^apis/?$", discovery.RootsView.as_view()),
    re_path(r"^api/(?P<version>v1)/?$", discovery.VersionsView.as_view()),
    re_path(r"^apis/(?P<group>[^/]+)/?$", discovery.GroupView.as_view()),
    re_path(r"^apis/(?P<group>[^/]+)/(?P<version>[^/]+)/?$", discovery.VersionsView.as_view()),
    re_path(url_patterns.review_urls(discovery.ACCESS_REVIEWS), ReviewView.as_view()),
    re_path(url_patterns.object_urls(interpretation.RESOURCE), InterpretationView.as_view()),
    re_path(url_patterns.object_urls(placement_review.RESOURCE), PlacementReviewView.as_view()),
    re_path(url_patterns.object_urls(what_if.RESOURCE), WhatIfView.as_view()),
    re_path(PATTERN, ProxyView.as_view()),
    *elsewhere.urlpatterns,
    re_path(url_patterns.subresource_urls(RESOURCES, ["readiness"]), ReadinessView.as_view()),
    re_path(url_patterns.object_urls(fleet_readiness.RESOURCE), FleetReadinessView.as_view()),
    re_path(url_patterns.object_urls(fleet_status.RESOURCE), FleetStatusView.as_view()),
    re_path(url_patterns.subresource_urls(RESOURCES, sorted(ACTED_ON)), ActionView.as_view()),
    re_path(url_patterns.object_urls(failover_record.RESOURCE), RecordsView.as_view()),
    re_path(url_patterns.object_urls(credential.RESOURCE), CredentialsView.as_view()),
    re_path(url_patterns.object_urls(token_requests.RESOURCE), TokenReviewView.as_view()),
    re_path(url_patterns.subresource_urls(RESOURCES, ["token"]), TokenRequestView.as_view()),
    re_path(url_patterns.subresource_urls(RESOURCES, ["explain"]), ExplainView.as_view()),
    re_path(url_patterns.all_urls(KINDS[kind].resource for kind in EVICTIONS), EvictionsView.as_view()),
    re_path(r"^apis?/[\s\S]+$", ObjectView.as_view()),  # names of roles and bindings may contain a line end
    path("login/", include("rest_framework.urls")),
    path("", discovery.RootView.as_view()),
    re_path(r"", NowhereView.as_view()),
]
