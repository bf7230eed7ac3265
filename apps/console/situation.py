"""GET /: Situation, the first page of the console."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.request import Request

from apps.api.discovery import RootView
from apps.console.page import Page
from apps.objects.store import store
from controlplane.kinds import CLUSTER


class SituationPage(Page):
    """The state of the fleet on one page.

    Clients that are no browsers get the paths of the API at this URL, as from any Kubernetes API server.
    """

    title = "Situation"
    template_name = "console/situation.html"
    topics: ClassVar = {"situation": (CLUSTER, "Eviction", "FleetState")}

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if not wants_page(request):
            return RootView.as_view()(request)
        return super().dispatch(request, *args, **kwargs)

    def kubectl(self) -> str:
        return "kubectl get clusters"

    def context(self, request: Request) -> dict[str, Any]:
        return {"clusters": store().list(CLUSTER)}


def wants_page(request: Any) -> bool:
    """Test whether the client is a browser: it accepts HTML, sends no token and asks for no other format."""
    if "format" in request.GET or "Authorization" in request.headers:
        return False
    return "text/html" in request.headers.get("Accept", "") or "HX-Request" in request.headers
