"""Discovery: the documents under /api and /apis, plain and aggregated, /version and OpenAPI."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import orjson
from django.http import HttpResponse
from django.utils.cache import get_conditional_response
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import pages, renderers
from apps.api.answer import Answer, Text
from apps.api.authorization import Attributes
from apps.api.elsewhere import METRICS
from apps.api.error_mapping import nothing_here
from apps.api.permissions import path_attributes
from apps.api.views import KubernetesView
from apps.objects.definitions import definitions
from controlplane import __version__
from controlplane.apimachinery.errors import NotAcceptable
from controlplane.kind import KINDS
from controlplane.kinds import (
    credential,
    failover_record,
    fleet_readiness,
    fleet_status,
    interpretation,
    placement_review,
    what_if,
)
from controlplane.wire import builtin, discovery, openapi_v2
from controlplane.wire.openapi import OpenAPI
from controlplane.wire.resource import Resource

ANSWERED = (
    placement_review.KIND,
    interpretation.KIND,
    failover_record.KIND,
    fleet_readiness.KIND,
    fleet_status.KIND,
    what_if.KIND,
    credential.KIND,
)  # kinds that are computed for each request and never stored
ACCESS_REVIEWS = tuple(review for review in builtin.REVIEWS if review.kind != "TokenReview")
REVIEWS = (*builtin.REVIEWS, *(kind.resource for kind in ANSWERED))


def resources() -> tuple[Resource, ...]:
    """Return all resources that are served: stored kinds, access reviews and computed kinds."""
    definitions().refresh()
    return _resources(KINDS.revision)


@lru_cache(maxsize=1)
def _resources(revision: int) -> tuple[Resource, ...]:
    return (*(kind.resource for kind in KINDS.served_kinds()), *REVIEWS)


def _offered() -> tuple[Resource, ...]:
    """Return the resources for discovery documents: also one without verbs, of which only the group is listed."""
    return (*resources(), METRICS)


def openapi() -> OpenAPI:
    """Return the OpenAPI documents. Each document is built at its first request."""
    served = resources()
    return _openapi(KINDS.revision, served)


_latest: list[OpenAPI] = []  # at most one; unchanged documents are taken over from it


@lru_cache(maxsize=1)
def _openapi(revision: int, served: tuple[Resource, ...]) -> OpenAPI:
    _latest[:] = [OpenAPI(served, _schema, reuse=_latest[0] if _latest else None)]
    return _latest[0]


def _schema(resource: Resource) -> Any:
    kind = next((kind for kind in ANSWERED if kind.resource is resource), None) or KINDS.served(
        resource.group, resource.version, resource.plural
    )
    return kind.schema() if kind is not None else builtin.schema(resource.group, resource.version, resource.kind)


class DocumentView(KubernetesView):
    """Base of the views that serve documents about the API itself."""

    http_method_names = ["get", "head", "options"]

    def attributes(self, request: Request) -> Attributes:
        return path_attributes(request)


class RootView(DocumentView):
    """Serves the list of paths at the root URL."""

    def get(self, request: Request) -> Response:
        groups = [f"/apis/{resource.api_version}" for resource in resources() if resource.group]
        paths = ["/api", "/api/v1", "/apis", *dict.fromkeys(groups), *_PATHS]
        return Response(Answer({"paths": paths}))


_PATHS = ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]


class RootsView(DocumentView):
    """Serves /api and /apis: the API groups, aggregated if the Accept header asks for aggregated discovery."""

    renderer_classes = pages.DOCUMENTS
    core = False

    def get(self, request: Request) -> Response:
        renderer = request.accepted_renderer
        if isinstance(renderer, renderers.DiscoveryRenderer | renderers.OldDiscoveryRenderer):
            version = renderer.convert.rpartition("/")[2]
            found = discovery.aggregated(_offered(), core=self.core, version=version)
            response = Response(Answer(found), content_type=discovery.content_type(version))
        else:
            found = discovery.api_versions() if self.core else discovery.api_group_list(_offered())
            response = Response(Answer(found))
        response["Vary"] = "Accept"
        return response


class GroupView(DocumentView):
    """Serves /apis/<group>: the versions of a group."""

    def get(self, request: Request, group: str) -> Response:
        return Response(_found(discovery.api_group(_offered(), group)))


class VersionsView(DocumentView):
    """Serves /api/v1 and /apis/<group>/<version>: the resources of a group version."""

    def get(self, request: Request, version: str, group: str = "") -> Response:
        return Response(_found(discovery.api_resource_list(_offered(), group, version)))


class VersionView(DocumentView):
    """Serves /version."""

    def get(self, request: Request) -> Response:
        return Response(Answer(discovery.version_document(__version__)))


class OpenAPIView(DocumentView):
    """Serves /openapi/v3 and the document of each group version."""

    def get(self, request: Request, path: str = "") -> Any:
        if not path:
            return Response(Answer(openapi().index()))
        text = openapi().document(path)
        if text is None:
            raise nothing_here()
        digest = openapi().digest(path)
        response = Response(Text(text))
        response["ETag"] = f'"{digest}"'
        if request.query_params.get("hash") == digest:
            response["Cache-Control"] = "private, max-age=31536000, immutable"
        return _unless_known(request, response)


class OldOpenAPIView(DocumentView):
    """Serves /openapi/v2, for clients older than OpenAPI v3: JSON, or protobuf if the Accept header asks for it."""

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        return super().perform_content_negotiation(request, force=True)

    def get(self, request: Request) -> HttpResponse:
        accepted = request.headers.get("Accept", "*/*")
        is_protobuf = openapi_v2.ASKED_AS in accepted or openapi_v2.MEDIA_TYPE in accepted
        if not is_protobuf and not any(known in accepted for known in ("application/json", "*/*", "application/*")):
            raise NotAcceptable(f"OpenAPI v2 is served as application/json and as {openapi_v2.ASKED_AS}")
        served = resources()
        text = _swagger(KINDS.revision, served, is_protobuf)
        etag = f'"{hashlib.sha256(text).hexdigest()[:32].upper()}"'
        kind = openapi_v2.MEDIA_TYPE if is_protobuf else "application/json"
        return _unless_known(request, HttpResponse(text, content_type=kind, headers={"ETag": etag, "Vary": "Accept"}))


@lru_cache(maxsize=2)
def _swagger(revision: int, served: tuple[Resource, ...], is_protobuf: bool) -> bytes:
    known = _openapi(revision, served)
    parts = [text for path in known.paths if (text := known.document(path)) is not None]
    document = openapi_v2.document(parts, title="Lifeboat", version=__version__)
    return openapi_v2.encoded(document) if is_protobuf else orjson.dumps(document)


def _unless_known(request: Any, response: Any) -> Any:
    """Return a response, or 304 if the client has it already. A proxy that compresses answers makes their ETags weak.

    A 304 has the headers of the response and no type of its own: clients copy its headers to what they have.
    """
    return get_conditional_response(request, etag=response["ETag"], response=response)


def _found(document: dict[str, Any] | None) -> Answer:
    if document is None:
        raise nothing_here()
    return Answer(document)
