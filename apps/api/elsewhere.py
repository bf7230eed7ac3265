"""What only members have: streams of pods, and metrics. Requests for them are refused with the way to the member."""

from __future__ import annotations

from django.urls import re_path
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authorization import Attributes
from apps.api.permissions import Scope, resource_attributes
from apps.api.pod_commands import refused
from apps.api.views import KubernetesView
from controlplane.apimachinery.errors import BadRequest
from controlplane.propagation import pods
from controlplane.wire.resource import SUBRESOURCE_METHODS, Resource

# The group is served, because kubectl top asks for it first; its resources are not, because nothing is measured here.
METRICS = Resource("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", "pod", True, verbs=())


class PodStreamView(KubernetesView):
    """Refuses logs, commands and forwarded ports of pods."""

    http_method_names = ["get", "post", "options"]

    def attributes(self, request: Request) -> Attributes:
        verb = SUBRESOURCE_METHODS.get(request.method or "", "get")
        place, name = self.kwargs["namespace"], self.kwargs["name"]
        return Attributes(request.user, verb, "", "pods", self.kwargs["stream"], place, name, request.path_info)

    def get(self, request: Request, namespace: str, name: str, stream: str) -> Response:
        raise refused(request, pods.SUBRESOURCES[stream], namespace, name)

    post = get


class MetricsElsewhereView(KubernetesView):
    """Refuses the metrics of pods and nodes."""

    http_method_names = ["get", "options"]

    def attributes(self, request: Request) -> Attributes:
        kwargs = self.kwargs
        resource = Resource(METRICS.group, METRICS.version, "", kwargs["plural"], "", True)
        return resource_attributes(request, resource, Scope(kwargs.get("namespace", ""), kwargs.get("name", "")))

    def get(self, request: Request, plural: str, namespace: str = "", name: str = "") -> Response:
        server = request.build_absolute_uri("/").rstrip("/")
        proxy = f"kubectl --server {server}/apis/cluster.karmada.io/v1alpha1/clusters/CLUSTER/proxy"
        raise BadRequest(
            f"the control plane runs no pods and has no nodes, so it measures none: each member measures its own. Use: "
            f"{proxy} top {plural}{f' -n {namespace}' if namespace else ''}; kubectl get clusters names the clusters",
            kind=plural,
            group=METRICS.group,
        )


urlpatterns = [
    re_path(
        rf"^api/v1/namespaces/(?P<namespace>[^/]+)/pods/(?P<name>[^/]+)/(?P<stream>{'|'.join(pods.SUBRESOURCES)})/?$",
        PodStreamView.as_view(),
    ),
    re_path(
        r"^apis/metrics\.k8s\.io/v1beta1/(?:namespaces/(?P<namespace>[^/]+)/)?(?P<plural>pods|nodes)"
        r"(?:/(?P<name>[^/]+))?/?$",
        MetricsElsewhereView.as_view(),
    ),
]
