"""Actions: subresources that change an object on POST (`fence`, `revert`), and the view of failover records.

Rules: [directly-unreachable] for `fence`, [edits-by-hand] for `revert`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from django.http import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import bodies, pages
from apps.api.answer import ListAnswer, ObjectAnswer
from apps.api.authorization import Attributes
from apps.api.confirming import confirmation, lifeboat_line, reason_of
from apps.api.error_mapping import nothing_here
from apps.api.permissions import Scope, is_watch, resource_attributes
from apps.api.query import Continue, Listing, dry_run, listing_of, whole_number
from apps.api.record_changes import COMPUTED as RECORDS
from apps.api.record_report import MarkdownRenderer, RecordReport
from apps.api.streams import watch_response
from apps.api.target import Target
from apps.api.views import KubernetesView, TargetView, warning
from apps.failover.reverting import reverted
from apps.objects import failovers
from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.objects.writer import Author, Writer
from controlplane.apimachinery.errors import BadRequest, NotFound
from controlplane.apimachinery.meta import Object, Ref
from controlplane.clusters.fence import FenceRequest, fenced
from controlplane.engine.state import State
from controlplane.insight.record import record_name
from controlplane.kind import text_of
from controlplane.kinds import BINDINGS, CLUSTER
from controlplane.kinds import failover_record as records
from controlplane.kinds.binding import Binding
from controlplane.kinds.failover_record import FailoverRecord
from controlplane.settings import Settings


class ActionRequest(NamedTuple):
    """The arguments of an action: the target, the body, the state it may read, the user and the time."""

    target: Target
    document: dict[str, Any]
    state: State
    settings: Settings
    by: str
    now: datetime


class Action(NamedTuple):
    """`change` returns the changed object. `reason` is the reason in the change log."""

    reason: str
    change: Callable[[Any, ActionRequest], Object]


def _fence(live: Any, request: ActionRequest) -> Object:
    """Return the cluster with the operator's confirmation that it is down. Raises BadRequest for another body."""
    try:
        fence = msgspec.convert(request.document, FenceRequest)
    except msgspec.ValidationError as error:
        raise BadRequest(f'the body of a fence is {{"reason": "…", "expiresInSeconds": 3600}}: {error}') from None
    return fenced(live, fence, by=request.by, now=request.now)


def _revert(live: Binding, request: ActionRequest) -> Object:
    return reverted(live, request.state, request.settings, by=request.by, now=request.now)


ACTIONS: dict[tuple[str, str], Action] = {
    (CLUSTER, "fence"): Action("Fence", _fence),
    **{(kind, "revert"): Action("Revert", _revert) for kind in BINDINGS},
}


class ActionView(TargetView):
    """Serves POST …/<name>/<action>. The answer is the changed object. The action is retried after a write conflict."""

    http_method_names = ["post", "options"]

    def post(self, request: Request) -> Response:
        target, resource = self.target, self.target.resource
        action = ACTIONS.get((target.kind.key, target.subresource))
        if action is None:
            raise nothing_here()
        document = bodies.decode(request.content_type, request.body).document if request.body.strip() else {}
        settings, by = configuration().settings(), request.user.get_username()
        writer = Writer(
            store(),
            settings,
            Author(by, reason_of(request, action.reason)),
            dry_run=dry_run(request.query_params, {}),
            confirmation=confirmation(request, target.name, lambda: lifeboat_line(target)),
        )
        arguments = ActionRequest(target, _plain(document), writer.store, settings, by, writer.now)
        written = writer.act(target.ref, lambda live: action.change(live, arguments))
        return warning(Response(ObjectAnswer(resource, text_of(written.stored)), status=201), written.warnings)


def _plain(document: Any) -> dict[str, Any]:
    """Return the body without apiVersion, kind and metadata, which kubectl adds. Raises BadRequest."""
    if not isinstance(document, dict):
        raise BadRequest("the body must be a JSON or YAML object")
    return {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata")}


class RecordsView(KubernetesView):
    """Serves GET of failoverrecords: one record, or the list of a namespace or of all namespaces."""

    http_method_names = ["get", "head", "options"]
    renderer_classes = (*pages.OBJECTS, MarkdownRenderer)

    def attributes(self, request: Request) -> Attributes:
        scope = Scope(self.kwargs.get("namespace") or "", self.kwargs.get("name") or "")
        return resource_attributes(request, records.RESOURCE, scope)

    def get(self, request: Request, namespace: str | None = None, name: str | None = None) -> HttpResponseBase:
        namespace, name = namespace or "", name or ""
        resource = records.RESOURCE
        if is_watch(request):
            target = Target(records.KIND, namespace, name)
            return watch_response(request, target, store(), allowed=self.attributes(request), computed=RECORDS)
        as_report = isinstance(request.accepted_renderer, MarkdownRenderer)
        if name:
            record = _record(namespace, name)
            found = (
                RecordReport([record], title=f"Failover {name}") if as_report else ObjectAnswer(resource, _text(record))
            )
            return Response(found)
        listing = self.limited(listing_of(request.query_params, resource, namespace=namespace))
        version = store().current_version() if listing.start is None else listing.start.version  # before the records
        page, choice = _page(listing, namespace), listing.choice
        chosen = [
            record for record in page.records if choice.is_everything or choice.takes(msgspec.to_builtins(record))
        ]
        if as_report:
            return Response(RecordReport(chosen, title="Failovers", omissions=page.omissions))
        texts = [_text(record) for record in chosen]
        meta = {"resourceVersion": str(version)}
        if page.after is not None:
            name = record_name(page.after.binding, page.after.version)
            meta["continue"] = Continue(version, page.after.namespace, name).token()
        return warning(Response(ListAnswer(resource, texts, meta)), page.omissions)


def _page(listing: Listing, namespace: str) -> failovers.RecordPage:
    """Return one page of records. Raises BadRequest for a `continue` token of another list."""
    if listing.start is None and not listing.limit:
        return failovers.of_fleet(namespace=namespace)
    after = None
    if listing.start is not None:
        binding, _, digits = listing.start.name.rpartition(".")
        version = whole_number(digits)
        if not binding or version is None:
            raise BadRequest("query parameter continue is a token of another list; list again without it")
        after = failovers.Place(listing.start.namespace, binding, version)
    return failovers.page(namespace=namespace, after=after, limit=listing.limit or failovers.MOST_BINDINGS)


def _record(namespace: str, name: str) -> FailoverRecord:
    """Return a record by its name, which is `<binding>.<version>`. Raises NotFound."""
    binding, _, _version = name.rpartition(".")
    for kind in BINDINGS:
        binding_namespace = namespace if kind == BINDINGS[0] else ""
        for record in failovers.of_binding(Ref(kind, binding_namespace, binding)):
            if (record.metadata.namespace, record.metadata.name) == (namespace, name):
                return record
    raise NotFound.of(records.RESOURCE.plural, name, group=records.RESOURCE.group)


def _text(record: FailoverRecord) -> bytes:
    return msgspec.json.encode(record)
