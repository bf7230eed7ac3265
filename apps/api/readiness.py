"""Failover readiness: whether a binding, or each binding of the fleet, could fail over now. Nothing is stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import pages
from apps.api.answer import Answer, ListAnswer, ObjectAnswer
from apps.api.authorization import Attributes
from apps.api.permissions import Scope, resource_attributes
from apps.api.query import listing_of
from apps.api.views import KubernetesView, TargetView, refuse_watch, warning
from apps.objects import listing
from apps.objects.configuration import configuration
from apps.objects.store import DjangoStore, store
from controlplane import kinds
from controlplane.apimachinery.errors import NotFound
from controlplane.apimachinery.meta import ObjectMeta, to_seconds
from controlplane.controllers.reads.binding_groups import applications, workload_groups
from controlplane.controllers.reads.fleet_state import fleet_state
from controlplane.controllers.reads.workload_labels import workload_labels
from controlplane.eviction.holds import Holds
from controlplane.insight.readiness import Readiness, Situation, dry_run_of, is_attached, readiness, summary
from controlplane.kinds import fleet_readiness
from controlplane.kinds.binding import Binding
from controlplane.kinds.fleet_readiness import NAME, RESOURCE, FleetReadiness
from controlplane.kinds.rows import Eviction
from controlplane.scheduling.ledger import RESERVATION_EXPIRY
from controlplane.settings import Settings

MAX_BINDINGS = 5000  # checked for one answer about the fleet: the first by namespace and name


class ReadinessView(TargetView):
    """Serves GET …/resourcebindings/<name>/readiness."""

    http_method_names = ["get", "head", "options"]

    def get(self, request: Request) -> Response:
        target, resource, ref = self.target, self.target.resource, self.target.ref
        reading, settings = store(), configuration().settings()
        binding = reading.get([ref]).get(ref)
        if binding is None:
            raise NotFound.of(resource.plural, target.name, group=resource.group)
        (answer,) = _readinesses([binding], reading, settings, now=reading.now())
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
        bindings: list[Binding] = []
        for kind in kinds.BINDINGS:
            bindings += reading.list(kind, limit=MAX_BINDINGS - len(bindings)) if len(bindings) < MAX_BINDINGS else ()
        total = sum(listing.count(kind) for kind in kinds.BINDINGS)
        version, now = str(reading.current_version()), reading.now()
        answers = _readinesses(
            [binding for binding in bindings if not is_attached(binding)], reading, settings, now=now
        )
        made = FleetReadiness(
            api_version=RESOURCE.api_version,
            kind=fleet_readiness.RESOURCE.kind,
            metadata=ObjectMeta(name=NAME, resource_version=version, creation_timestamp=to_seconds(now)),
            status=summary(answers, covered=len(bindings), in_all=max(total, len(bindings))),
        )
        text, omitted = msgspec.json.encode(made), [made.status.message] if made.status.message else []
        if name:
            return warning(Response(ObjectAnswer(RESOURCE, text)), omitted)
        chosen = listing_of(request.query_params, RESOURCE, namespace="").choice.takes(msgspec.to_builtins(made))
        return warning(Response(ListAnswer(RESOURCE, [text] if chosen else [], {"resourceVersion": version})), omitted)


def _readinesses(
    bindings: Sequence[Binding], reading: DjangoStore, settings: Settings, *, now: datetime
) -> Iterable[Readiness]:
    """Yield the readiness of each binding. The number of queries does not depend on the number of bindings."""
    situation = _situation(bindings, reading)
    dry_run = dry_run_of(situation, settings)
    rows = reading.rows(Eviction, "binding", [str(binding.ref) for binding in bindings])
    for binding in bindings:
        queued = rows.get(str(binding.ref), ())
        yield readiness(binding, situation, settings, rows=queued, dry_run=dry_run, now=now)


def _situation(bindings: Sequence[Binding], reading: DjangoStore) -> Situation:
    """Return the state of the fleet that the readiness of these bindings depends on."""
    clusters = reading.list(kinds.CLUSTER)
    holds = Holds(tuple(reading.list(kinds.EVICTION_HOLD)), tuple(reading.list(kinds.MAINTENANCE_WINDOW)))
    if holds.needs_labels():
        holds = msgspec.structs.replace(holds, labels=workload_labels(reading, bindings))
    policies = reading.list(kinds.CLUSTER_TAINT_POLICY)
    reserved_capacity, parts = reading.reserved_capacity(within=RESERVATION_EXPIRY), applications(reading, bindings)
    groups = workload_groups(reading, bindings)
    return Situation(clusters, policies, fleet_state(reading), holds, reserved_capacity, parts, groups)
