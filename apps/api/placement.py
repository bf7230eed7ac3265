"""Questions about placement: why a binding is placed as it is, and how a workload would be placed.

Nothing is stored.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import bodies, pages, renderers
from apps.api.answer import Answer
from apps.api.authorization import Attributes, check
from apps.api.interpretation import with_answers
from apps.api.permissions import Scope, resource_attributes
from apps.api.views import KubernetesView, TargetView, warning
from apps.objects.configuration import configuration
from apps.objects.store import store
from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import Invalid, NotFound
from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads.binding_groups import applications, workload_groups
from controlplane.insight import placement_review
from controlplane.kinds import CLUSTER, KINDS, WORK
from controlplane.kinds.binding import Binding
from controlplane.kinds.placement_review import KIND, RESOURCE
from controlplane.kinds.rows import Collected, FleetNames, PlacementNote
from controlplane.scheduling import placement_explanation
from controlplane.scheduling.dry_run import Around
from controlplane.scheduling.ledger import RESERVATION_EXPIRY


class Explained(Answer):
    """A PlacementExplanation as a document and as sentences."""

    def __init__(self, explanation: placement_explanation.PlacementExplanation) -> None:
        super().__init__(msgspec.to_builtins(explanation))
        self.sentences = placement_explanation.text(explanation)


class SentencesRenderer(renderers.FormRenderer):
    """Sentences in plain text."""

    media_type = "text/plain"
    format = "text"
    content_type = "text/plain; charset=utf-8"

    def encode(self, answer: Answer, context: Any) -> bytes:
        return answer.sentences.encode() if isinstance(answer, Explained) else answer.text


class ExplainView(TargetView):
    """Serves GET …/resourcebindings/<name>/explain: the last scheduling decision, cluster by cluster."""

    http_method_names = ["get", "head", "options"]
    renderer_classes = (renderers.JSONRenderer, renderers.YAMLRenderer, SentencesRenderer, pages.PageRenderer)

    def get(self, request: Request) -> Response:
        target, resource, ref = self.target, self.target.resource, self.target.ref
        reading = store()
        binding: Binding | None = reading.get([ref]).get(ref)
        if binding is None:
            raise NotFound.of(resource.plural, target.name, group=resource.group)
        explanation = explained_placement(reading, ref)
        if explanation is None:
            raise NotFound(
                f'the scheduler has not decided about {resource.plural} "{target.name}" yet: it needs a placement and '
                "must not be suspended",
                kind=resource.plural,
                group=resource.group,
                name=target.name,
            )
        works = reading.by_index(WORK, "binding", [str(ref)]).get(str(ref), ())
        return Response(Explained(placement_explanation.with_overrides(explanation, binding, works)))


class PlacementReviewView(KubernetesView):
    """Serves POST of a PlacementReview. The answer is the review with its status."""

    http_method_names = ["post", "options"]

    def attributes(self, request: Request) -> Attributes:
        return resource_attributes(request, RESOURCE, Scope())

    def post(self, request: Request) -> Response:
        document, warnings = bodies.question(request, KIND)
        reading, settings = store(), configuration().settings()
        now = reading.now()
        review = placement_review.decode_review(document, settings=settings, now=now)
        clusters = reading.list(CLUSTER)
        names = [cluster.metadata.name for cluster in clusters]
        binding, reported_at = _binding(review, reading, request.user), _reported_at(names)
        reserved_capacity = reading.reserved_capacity(within=RESERVATION_EXPIRY).totals
        status = with_answers(
            lambda: placement_review.answer_review(
                review,
                clusters,
                binding=binding,
                reserved_capacity=reserved_capacity,
                around=lambda binding: Around(workload_groups(reading, [binding]), applications(reading, [binding])),
                reported_at=reported_at,
                settings=settings,
                now=now,
            )
        )
        head = {"kind": RESOURCE.kind, "apiVersion": RESOURCE.api_version}
        answer = Answer({**document, **head, "status": msgspec.to_builtins(status)})
        return warning(Response(answer, status=201), warnings)


def explained_placement(reading: Any, ref: Ref) -> placement_explanation.PlacementExplanation | None:
    """Return the last scheduling decision about a binding; None: there was none yet. Three queries."""
    note = _first(reading.rows(PlacementNote, "key", [str(ref)]))
    if note is None:
        return None
    fleet = _first(reading.rows(FleetNames, "key", [note.fleet]))
    names = () if fleet is None else msgspec.json.decode(fleet.names, type=tuple[str, ...])
    return placement_explanation.explained(ref, note, fleet, _reported_at(names))


def _binding(review: Any, reading: Any, user: Any) -> Binding | None:
    """Return the binding that a review starts from. None: the review names no binding.

    Raises Forbidden if the user may not read the binding, and Invalid if it does not exist.
    """
    ref = placement_review.reviewed_binding(review)
    if ref is None:
        return None
    resource = KINDS[ref.kind].resource
    check(Attributes(user, "get", resource.group, resource.plural, "", ref.namespace, ref.name))
    binding: Binding | None = reading.get([ref]).get(ref)
    if binding is None:
        causes = [
            invalid(
                "spec.binding", review.spec.binding, "there is no such binding; see kubectl get resourcebindings -A"
            )
        ]
        raise Invalid.of(RESOURCE.kind, review.metadata.name, causes, group=RESOURCE.group)
    return binding


def _reported_at(names: Any) -> dict[str, datetime]:
    """Return the time at which the capacity of each cluster was last read. Clusters without a reading are left out."""
    rows = store().rows(Collected, "key", list(names)).values()
    return {row.key: row.at for collected in rows for row in collected if row.at is not None}


def _first(rows_by_key: dict[str, Any]) -> Any:
    """Return the only row of a result; None: there is none."""
    return next((row for rows in rows_by_key.values() for row in rows), None)
