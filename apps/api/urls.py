"""All URLs of the API. Kinds are found by `target.target_of`, so one route serves them all."""

from django.urls import include, path, re_path

from apps.api import debug, discovery, health
from apps.api.actions import ActionView, RecordsView
from apps.api.evictions import EvictionsView
from apps.api.permissions import without_login
from apps.api.placement import ExplainView, PlacementReviewView
from apps.api.readiness import FleetReadinessView, ReadinessView
from apps.api.reviews import ReviewView
from apps.api.views import NowhereView, ObjectView

_REVIEWS = r"^apis/(?P<group>authentication\.k8s\.io|authorization\.k8s\.io)/v1/(?P<plural>selfsubject[a-z]+)/?$"
_EXPLAIN = (
    r"^apis/work\.karmada\.io/v1alpha2/(?:namespaces/[^/]+/resourcebindings|clusterresourcebindings)/[^/]+/explain/?$"
)
_EVICTIONS = (
    r"^apis/failover\.lifeboat\.io/v1alpha1/(?:namespaces/[^/]+/evictions|evictions|clusterevictions)"
    r"(?:/[^/]+(?:/(?:hold|release|skip|expedite))?)?/?$"
)
_READINESS = r"^apis/work\.karmada\.io/v1alpha2/.+/readiness/?$"
_FLEET = r"^apis/failover\.lifeboat\.io/v1alpha1/fleetreadinesses(?:/(?P<name>[^/]+))?/?$"
_ACTIONS = r"^apis/(?:cluster\.karmada\.io/v1alpha1/clusters/[^/]+/fence|work\.karmada\.io/v1alpha2/.+/revert)/?$"
_RECORDS = (
    r"^apis/failover\.lifeboat\.io/v1alpha1/(?:namespaces/(?P<namespace>[^/]+)/)?"
    r"failoverrecords(?:/(?P<name>[^/]+))?/?$"
)
_PLACEMENT_REVIEWS = r"^apis/failover\.lifeboat\.io/v1alpha1/placementreviews/?$"

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
    re_path(r"^api/?$", discovery.LadderView.as_view(core=True)),
    re_path(r"^apis/?$", discovery.LadderView.as_view()),
    re_path(r"^api/(?P<version>v1)/?$", discovery.VersionsView.as_view()),
    re_path(r"^apis/(?P<group>[^/]+)/?$", discovery.GroupView.as_view()),
    re_path(r"^apis/(?P<group>[^/]+)/(?P<version>[^/]+)/?$", discovery.VersionsView.as_view()),
    re_path(_REVIEWS, ReviewView.as_view()),
    re_path(_PLACEMENT_REVIEWS, PlacementReviewView.as_view()),
    re_path(_READINESS, ReadinessView.as_view()),
    re_path(_FLEET, FleetReadinessView.as_view()),
    re_path(_ACTIONS, ActionView.as_view()),
    re_path(_RECORDS, RecordsView.as_view()),
    re_path(_EXPLAIN, ExplainView.as_view()),
    re_path(_EVICTIONS, EvictionsView.as_view()),
    re_path(r"^apis?/.+$", ObjectView.as_view()),
    path("login/", include("rest_framework.urls")),
    path("", discovery.RootView.as_view()),
    re_path(r"", NowhereView.as_view()),
]
