"""Access reviews: the user's own identity and permissions. Reviews are answered at once and never stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import authorization, bodies
from apps.api.answer import Answer
from apps.api.authentication import groups_of
from apps.api.authorization import Attributes, authorize
from apps.api.error_mapping import nothing_here
from apps.api.permissions import Scope, resource_attributes
from apps.api.views import KubernetesView
from controlplane.apimachinery.errors import Invalid
from controlplane.wire import builtin, document_check
from controlplane.wire.resource import Resource

Document = dict[str, Any]


def review_identity(user: Any, question: Document) -> Document:
    """Return the status of a SelfSubjectReview."""
    return {"userInfo": {"username": user.get_username(), "uid": str(user.pk), "groups": groups_of(user)}}


def review_access(user: Any, question: Document) -> Document:
    """Return the status of a SelfSubjectAccessReview."""
    spec = question.get("spec") or {}
    path, resource = spec.get("nonResourceAttributes") or {}, spec.get("resourceAttributes") or {}
    if path:
        attributes = Attributes(user, path.get("verb", "get"), path=path.get("path", ""))
    else:
        fields = ("group", "resource", "subresource", "namespace", "name")
        attributes = Attributes(user, resource.get("verb", ""), *(resource.get(field, "") for field in fields))
    decision = authorize(attributes)
    return {"allowed": True} if decision.allowed else {"allowed": False, "reason": decision.reason}


def review_rules(user: Any, question: Document) -> Document:
    """Return the status of a SelfSubjectRulesReview."""
    return authorization.rules(user)


_ANSWERS: dict[str, Callable[[Any, Document], Document]] = {
    "selfsubjectreviews": review_identity,
    "selfsubjectaccessreviews": review_access,
    "selfsubjectrulesreviews": review_rules,
}


class ReviewView(KubernetesView):
    """Serves POST of an access review. The answer is the review with its status."""

    http_method_names = ["post", "options"]

    def attributes(self, request: Request) -> Attributes:
        return resource_attributes(request, _review(**self.kwargs), Scope())

    def post(self, request: Request, group: str, plural: str) -> Response:
        resource = _review(group, plural)
        document = bodies.decode(request.content_type, request.body).document
        sent = {field: value for field, value in document.items() if field != "status"}
        question = {**sent, "kind": resource.kind, "apiVersion": resource.api_version}
        schema = builtin.schema(resource.group, resource.version, resource.kind)
        if causes := document_check.faults(document_check.without_nulls(question, schema), schema):
            raise Invalid.of(resource.kind, "", causes, group=resource.group)
        answered = {**question, "status": _ANSWERS[plural](request.user, question)}
        return Response(Answer(answered), status=201)


def _review(group: str, plural: str) -> Resource:
    """Return the resource of an access review. Raises NotFound if it is not served."""
    found = next((review for review in builtin.REVIEWS if (review.group, review.plural) == (group, plural)), None)
    if found is None:
        raise nothing_here()
    return found
