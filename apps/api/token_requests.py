"""TokenRequest and TokenReview: tokens of ServiceAccounts, and whose token a token is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import bodies, service_accounts
from apps.api.answer import Answer
from apps.api.authentication import described
from apps.api.authorization import Attributes
from apps.api.bearer import credential_of
from apps.api.permissions import Scope, resource_attributes
from apps.api.query import dry_run
from apps.api.service_accounts import AUDIENCE, BOUND_KINDS
from apps.api.views import KubernetesView, TargetView, warning
from apps.objects.configuration import configuration
from apps.objects.reviewing import review_request
from apps.objects.store import store
from controlplane.apimachinery.causes import invalid, required, unsupported
from controlplane.apimachinery.errors import BadRequest, Cause, Conflict, Invalid, NotFound
from controlplane.apimachinery.meta import Object, Ref, to_seconds
from controlplane.authorization.review_rules import check_place
from controlplane.wire import builtin, document_check
from controlplane.wire.resource import Resource

Document = dict[str, Any]

GROUP, VERSION = "authentication.k8s.io", "v1"
DEFAULT_SECONDS, LEAST_SECONDS, MOST_SECONDS = 3600, 600, 1 << 32
LONGEST_SECONDS = 48 * 3600  # a longer lifetime is shortened to this


class TokenRequestView(TargetView):
    """Serves POST of serviceaccounts/<name>/token (`kubectl create token`). The secret is shown once."""

    http_method_names = ["post", "options"]

    def post(self, request: Request) -> Response:
        ref, reading = self.target.ref, store()
        document = _decoded(request, "TokenRequest", ref.namespace)
        account = reading.get([ref]).get(ref)
        if account is None:
            raise NotFound.of("serviceaccounts", ref.name)
        is_trial = dry_run(request.query_params, {})
        _check(document, ref.name)
        document, warnings = self._reviewed(request, document, is_trial=is_trial)
        spec = document["spec"]
        bound = _bound(spec.get("boundObjectRef") or {}, ref.namespace)
        asked = spec.get("expirationSeconds") or DEFAULT_SECONDS
        now, seconds = reading.now(), min(asked, LONGEST_SECONDS)
        audiences = spec.get("audiences") or [AUDIENCE]
        secret = ""
        if not is_trial:
            secret = service_accounts.create(account, audiences=audiences, seconds=seconds, bound=bound, now=now)
        ends = to_seconds(now + timedelta(seconds=seconds))
        answered = {
            **document,
            "metadata": {"name": ref.name, "namespace": ref.namespace, "creationTimestamp": to_seconds(now)},
            "spec": {**spec, "audiences": audiences, "expirationSeconds": seconds},
            "status": {"token": secret, "expirationTimestamp": ends},
        }
        shorter = [f"requested expiration of {asked} seconds shortened to {seconds} seconds"] if asked > seconds else []
        return warning(Response(Answer(answered), status=201), [*warnings, *shorter])

    def _reviewed(self, request: Request, document: Document, *, is_trial: bool) -> tuple[Document, list[str]]:
        """Return the request as the admission policies and webhooks of users leave it, with their warnings.

        Raises the error of the one that denies it, and Invalid for what a mutating webhook made invalid.
        """
        ref = self.target.ref
        made, warnings = review_request(
            store(),
            self.target.kind,
            {
                **document,
                "metadata": {**(document.get("metadata") or {}), "name": ref.name, "namespace": ref.namespace},
            },
            configuration().settings(),
            subresource=self.target.subresource,
            author=request.user.get_username(),
            dry_run=is_trial,
        )
        checked = _complete(made, "TokenRequest")
        _check(checked, ref.name)
        return checked, warnings


class TokenReviewView(KubernetesView):
    """Serves POST of tokenreviews: whether a token is valid, and whose it is."""

    http_method_names = ["post", "options"]

    def attributes(self, request: Request) -> Attributes:
        return resource_attributes(request, RESOURCE, Scope())

    def post(self, request: Request) -> Response:
        document = _decoded(request, "TokenReview")
        spec = document.get("spec") or {}
        if not spec.get("token"):
            raise BadRequest("token is required for TokenReview in authentication: name it in spec.token")
        answered = {**document, "spec": {**spec, "token": ""}, "status": _reviewed(spec["token"], spec, request)}
        return Response(Answer(answered), status=201)


def _reviewed(secret: str, spec: Document, request: Request) -> Document:
    """Return the status of a TokenReview. Tokens of all others are for this API."""
    audiences = spec.get("audiences") or [AUDIENCE]
    if secret.startswith(service_accounts.PREFIX):
        user = service_accounts.find(secret, audiences=audiences)
    else:
        credential = credential_of(secret, request._request) if AUDIENCE in audiences else None
        user = None if credential is None else credential.user
    if user is None:
        return {"authenticated": False, "error": "the token is unknown, expired, revoked or for another audience"}
    return {"authenticated": True, "user": described(user), "audiences": audiences}


def _decoded(request: Request, kind: str, namespace: str = "") -> Document:
    """Return the body of a request. Raises Invalid for fields of a wrong type, BadRequest for one of another place."""
    body = bodies.decode(request.content_type, request.body).document if request.body.strip() else {}
    check_place(body, kind, namespace)
    return _complete(body, kind)


def _complete(body: Document, kind: str) -> Document:
    """Return a request or review with its defaults and without a status. Raises Invalid for fields of a wrong type."""
    document = {**body, "kind": kind, "apiVersion": f"{GROUP}/{VERSION}"}
    document.pop("status", None)
    if isinstance(spec := document.setdefault("spec", {}), dict) and kind == "TokenRequest":
        spec["audiences"] = spec.get("audiences") or []  # its schema requires a list; clients may send null
    schema = builtin.schema(GROUP, VERSION, kind)
    if causes := document_check.faults(document_check.without_nulls(document, schema), schema):
        raise Invalid.of(kind, "", causes, group=GROUP)
    return document


def _check(document: Document, name: str) -> None:
    """Raise Invalid for a TokenRequest that breaks a rule. `name`: of the ServiceAccount."""
    if causes := [*_misnamed(document, name), *_faults(document.get("spec") or {})]:
        raise Invalid.of("TokenRequest", name, causes, group=GROUP)


def _misnamed(document: Document, name: str) -> list[Cause]:
    written = (document.get("metadata") or {}).get("name") or name
    rule = "must match the service account name if specified"
    return [invalid("metadata.name", written, rule)] if written != name else []


def _faults(spec: Document) -> list[Cause]:
    causes, seconds = [], spec.get("expirationSeconds")
    if seconds is not None and seconds < LEAST_SECONDS:
        causes.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    if seconds is not None and seconds > MOST_SECONDS:
        causes.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"))
    bound = spec.get("boundObjectRef") or {}
    if bound and bound.get("kind") not in BOUND_KINDS:
        causes.append(unsupported("spec.boundObjectRef.kind", bound.get("kind"), BOUND_KINDS))
    if bound and not bound.get("name"):
        causes.append(required("spec.boundObjectRef.name", "name the object with which the token ends"))
    return causes


def _bound(reference: Document, namespace: str) -> Object | None:
    """Return the object to which a token is bound. Raises NotFound, and Conflict if it has another uid."""
    if not reference:
        return None
    ref = Ref(reference["kind"], namespace, reference["name"])
    found: Object | None = store().get([ref]).get(ref)
    plural = f"{ref.kind.lower()}s"
    if found is None:
        raise NotFound.of(plural, ref.name)
    if (uid := reference.get("uid")) and uid != found.metadata.uid:
        raise Conflict(f'the UID in spec.boundObjectRef is "{uid}", the UID of {plural} "{ref.name}" is another one')
    return found


def _review() -> Resource:
    return next(review for review in builtin.REVIEWS if review.kind == "TokenReview")


RESOURCE = _review()
