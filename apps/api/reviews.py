"""Access reviews: the user's own identity and permissions. Reviews are answered at once and never stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import authorization, bodies
from apps.api.answer import Answer
from apps.api.authentication import described
from apps.api.authorization import Attributes, authorize
from apps.api.error_mapping import nothing_here
from apps.api.identity import Identity
from apps.api.permissions import Scope, resource_attributes
from apps.api.views import KubernetesView
from controlplane.apimachinery.errors import BadRequest, Invalid
from controlplane.authorization.attributes import Caller
from controlplane.authorization.review_rules import causes_of_review, check_place
from controlplane.wire import builtin, document_check
from controlplane.wire.resource import Resource

Document = dict[str, Any]


def review_identity(user: Any, question: Document) -> Document:
    """Return the status of a SelfSubjectReview."""
    return {"userInfo": described(user)}


def review_other(user: Any, question: Document) -> Document:
    """Return the status of a SubjectAccessReview or LocalSubjectAccessReview: what another user may do."""
    spec = question.get("spec") or {}
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    groups = tuple(spec.get("groups") or ())
    other = Identity(Caller(str(spec.get("user") or ""), groups, str(spec.get("uid") or ""), extra))
    return review_access(other, question)


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
    status: Document = {"allowed": decision.allowed}
    return {**status, "reason": decision.reason} if decision.reason else status


def review_rules(user: Any, question: Document) -> Document:
    """Return the status of a SelfSubjectRulesReview."""
    namespace = (question.get("spec") or {}).get("namespace")
    if not namespace:
        raise BadRequest("no namespace on request: name it in spec.namespace")
    return authorization.rules(user, namespace)


_ANSWERS: dict[str, Callable[[Any, Document], Document]] = {
    "selfsubjectreviews": review_identity,
    "selfsubjectaccessreviews": review_access,
    "selfsubjectrulesreviews": review_rules,
    "subjectaccessreviews": review_other,
    "localsubjectaccessreviews": review_other,
}


class ReviewView(KubernetesView):
    """Serves POST of an access review. The answer is the review with its status."""

    http_method_names = ["post", "options"]

    def attributes(self, request: Request) -> Attributes:
        resource, namespace = self._named()
        return resource_attributes(request, resource, Scope(namespace=namespace))

    def _named(self) -> tuple[Resource, str]:
        """Return the review that the URL names, and its namespace."""
        resource, namespace = _review(self.kwargs["group"], self.kwargs["plural"]), self.kwargs.get("namespace") or ""
        if resource.namespaced != bool(namespace):
            raise nothing_here()
        return resource, namespace

    def post(self, request: Request, group: str, plural: str, namespace: str | None = None) -> Response:
        resource, within = self._named()
        document = bodies.decode(request.content_type, request.body).document
        check_place(document, resource.kind, within)
        sent = {field: value for field, value in document.items() if field != "status"}
        question = {**sent, "kind": resource.kind, "apiVersion": resource.api_version}
        schema = builtin.schema(resource.group, resource.version, resource.kind)
        plain = document_check.without_nulls(question, schema)
        if causes := document_check.faults(plain, schema) or causes_of_review(plain, within):
            raise Invalid.of(resource.kind, "", causes, group=resource.group)
        answered = {**plain, "status": _ANSWERS[plural](request.user, plain)}
        return Response(Answer(answered), status=201)


def _review(group: str, plural: str) -> Resource:
    """Return the resource of an access review. Raises NotFound if it is not served."""
    found = next((review for review in builtin.REVIEWS if (review.group, review.plural) == (group, plural)), None)
    if found is None:
        raise nothing_here()
    return found
