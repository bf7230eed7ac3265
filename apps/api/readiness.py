"""Failover readiness: whether a binding would fail over now, computed at once; and the fleet, from stored answers."""

from __future__ import annotations

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import pages
from apps.api.answer import Answer, ListAnswer, ObjectAnswer
from apps.api.authorization import Attributes
from apps.api.permissions import Scope, resource_attributes
from apps.api.query import listing_of
from apps.api.views import KubernetesView, TargetView, refuse_watch, warning
from apps.failover.readiness import stored_answers
from apps.objects.configuration import configuration
from apps.objects.store import store
from controlplane.apimachinery.errors import NotFound
from controlplane.apimachinery.meta import ObjectMeta, to_seconds
from controlplane.controllers.readiness import Readiness
from controlplane.controllers.reads.readiness_state import situation_of
from controlplane.insight.failure_outlook import FailureOutlook
from controlplane.insight.fleet_answer import fleet_status
from controlplane.insight.readiness import fleet_obstacles, readiness
from controlplane.kinds import fleet_readiness
from controlplane.kinds.fleet_readiness import NAME, RESOURCE, FleetReadiness
from controlplane.kinds.rows import Eviction


class ReadinessView(TargetView):
    """Serves GET …/resourcebindings/<name>/readiness."""

    http_method_names = ["get", "head", "options"]

    def get(self, request: Request) -> Response:
        target, resource, ref = self.target, self.target.resource, self.target.ref
        reading, settings = store(), configuration().settings()
        binding = reading.get([ref]).get(ref)
        if binding is None:
            raise NotFound.of(resource.plural, target.name, group=resource.group)
        rows = reading.rows(Eviction, "binding", [str(ref)]).get(str(ref), ())
        outlook = FailureOutlook(situation_of(reading, [binding]), settings, now=reading.now())
        answer = readiness(binding, outlook, rows=rows)
        head = {"kind": "Readiness", "apiVersion": RESOURCE.api_version}
        return Response(Answer({**head, **msgspec.to_builtins(answer)}))


class FleetReadinessView(KubernetesView):
    """Serves GET of fleetreadinesses: one object about all bindings that are scheduled themselves.

    Bindings that follow another binding as dependencies are left out.
    """

    http_method_names = ["get", "head", "options"]
    renderer_classes = pages.OBJECTS

    def attributes(self, request: Request) -> Attributes:
        return resource_attributes(request, RESOURCE, Scope(name=self.kwargs.get("name") or ""))

    def get(self, request: Request, name: str | None = None) -> Response:
        refuse_watch(request, RESOURCE)
        if name not in (None, NAME):
            raise NotFound.of(RESOURCE.plural, name or "", group=RESOURCE.group)
        reading, settings = store(), configuration().settings()
        version, now = str(reading.current_version()), reading.now()
        fleet_wide = fleet_obstacles(situation_of(reading), settings, now=now)
        made = FleetReadiness(
            api_version=RESOURCE.api_version,
            kind=fleet_readiness.RESOURCE.kind,
            metadata=ObjectMeta(name=NAME, resource_version=version, creation_timestamp=to_seconds(now)),
            status=fleet_status(stored_answers(reading), fleet_wide, switched_on=settings.runs(Readiness.name)),
        )
        text, omitted = msgspec.json.encode(made), [made.status.message] if made.status.message else []
        if name:
            return warning(Response(ObjectAnswer(RESOURCE, text)), omitted)
        chosen = listing_of(request.query_params, RESOURCE, namespace="").choice.takes(msgspec.to_builtins(made))
        return warning(Response(ListAnswer(RESOURCE, [text] if chosen else [], {"resourceVersion": version})), omitted)
