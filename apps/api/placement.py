"""Questions about placement: why a binding is where it is, and where something would go. Nothing is written."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import bodies, pages, renderers
from apps.api.answer import Answer
from apps.api.authorization import Attributes
from apps.api.permissions import Scope, resource_attributes
from apps.api.query import writing_of
from apps.api.views import KubernetesView, TargetView, warning
from apps.objects.configuration import configuration
from apps.objects.store import store
from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import BadRequest, Invalid, NotFound
from controlplane.controllers.reads.binding_groups import applications, workload_groups
from controlplane.insight import placement_review
from controlplane.kinds import CLUSTER
from controlplane.kinds.binding import Binding
from controlplane.kinds.placement_review import KIND, RESOURCE
from controlplane.kinds.rows import Collected, FleetNames, PlacementNote
from controlplane.scheduling import explanation_text
from controlplane.scheduling.dry_run import Around
from controlplane.scheduling.ledger import RESERVATION_EXPIRY
from controlplane.wire.prune import validate_fields


class Explained(Answer):
    """A PlacementExplanation, and the same as sentences."""

    def __init__(self, explanation: explanation_text.PlacementExplanation) -> None:
        super().__init__(msgspec.to_builtins(explanation))
        self.sentences = explanation_text.text(explanation)


class SentencesRenderer(renderers.FormRenderer):
    """Sentences for people."""

    media_type = "text/plain"
    format = "text"
    content_type = "text/plain; charset=utf-8"

    def encode(self, answer: Answer, context: Any) -> bytes:
        return answer.sentences.encode() if isinstance(answer, Explained) else answer.text


class ExplainView(TargetView):
    """GET …/resourcebindings/<name>/explain: why the last decision was made, cluster by cluster."""

    http_method_names = ["get", "head", "options"]
    renderer_classes = (renderers.JSONRenderer, renderers.YAMLRenderer, SentencesRenderer, pages.PageRenderer)

    def get(self, request: Request) -> Response:
        target, resource, ref = self.target, self.target.resource, self.target.ref
        reading = store()
        if not reading.get([ref]):
            raise NotFound.of(resource.plural, target.name, group=resource.group)
        note = _one(reading.rows(PlacementNote, "key", [str(ref)]))
        if note is None:
            raise NotFound(
                f'nothing has been decided about {resource.plural} "{target.name}" yet: the scheduler looks at it when '
                "it has a placement and is not suspended",
                kind=resource.plural,
                group=resource.group,
                name=target.name,
            )
        fleet = _one(reading.rows(FleetNames, "key", [note.fleet]))
        names = () if fleet is None else msgspec.json.decode(fleet.names, type=tuple[str, ...])
        return Response(Explained(explanation_text.explained(ref, note, fleet, _reported_at(names))))


class PlacementReviewView(KubernetesView):
    """POST a PlacementReview, have it back with its answer."""

    http_method_names = ["post", "options"]

    def attributes(self, request: Request) -> Attributes:
        return resource_attributes(request, RESOURCE, Scope())

    def post(self, request: Request) -> Response:
        writing = writing_of(request.query_params, user_agent=request.headers.get("User-Agent", ""))
        document, duplicates = bodies.decode(request.content_type, request.body)
        if not isinstance(document, dict):
            raise BadRequest("the body has to be a PlacementReview")
        unknown = [] if writing.validation == "Ignore" else validate_fields(document, KIND.schema())
        warnings = bodies.complaints_or_warnings(RESOURCE, [*duplicates, *unknown], writing)
        reading, settings = store(), configuration().settings()
        now = reading.now()
        review = placement_review.decode_review(document, settings=settings, now=now)
        clusters = reading.list(CLUSTER)
        names = [one.metadata.name for one in clusters]
        status = placement_review.answer_review(
            review,
            clusters,
            binding=_binding(review, reading),
            reserved_capacity=reading.reserved_capacity(within=RESERVATION_EXPIRY).totals,
            around=lambda one: Around(workload_groups(reading, [one]), applications(reading, [one])),
            reported_at=_reported_at(names),
            settings=settings,
            now=now,
        )
        head = {"kind": RESOURCE.kind, "apiVersion": RESOURCE.api_version}
        answer = Answer({**document, **head, "status": msgspec.to_builtins(status)})
        return warning(Response(answer, status=201), warnings)


def _binding(review: Any, reading: Any) -> Binding | None:
    """Return the binding a review starts from. Raises Invalid where it names one that is not there."""
    ref = placement_review.reviewed_binding(review)
    if ref is None:
        return None
    found: Binding | None = reading.get([ref]).get(ref)
    if found is None:
        causes = [invalid("spec.binding", review.spec.binding, "there is no such binding")]
        raise Invalid.of(RESOURCE.kind, review.metadata.name, causes, group=RESOURCE.group)
    return found


def _reported_at(names: Any) -> dict[str, datetime]:
    """Return when the capacity of clusters was last read."""
    rows = store().rows(Collected, "key", list(names)).values()
    return {one.key: one.at for found in rows for one in found if one.at is not None}


def _one(found: dict[str, Any]) -> Any:
    return next((row for rows in found.values() for row in rows), None)
