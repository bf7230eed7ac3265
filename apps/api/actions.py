"""Actions: subresources somebody POSTs to, each turning an object into another one (D14, D23)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import bodies, pages
from apps.api.answer import Many, One
from apps.api.authorization import Attributes
from apps.api.error_mapping import nothing_here
from apps.api.permissions import Scope, resource_attributes
from apps.api.query import Continue, Listing, dry_run, listing_of
from apps.api.target import Target
from apps.api.views import KubernetesView, TargetView, refuse_watch, warning
from apps.objects import failovers
from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.objects.writer import Author, Writer
from controlplane.apimachinery.errors import BadRequest, Conflict, NotFound
from controlplane.apimachinery.meta import Object, Ref
from controlplane.clusters.fence import FenceRequest, fenced
from controlplane.engine.state import State
from controlplane.eviction import revert
from controlplane.insight.record import record_name
from controlplane.kind import text_of
from controlplane.kinds import BINDINGS, CLUSTER
from controlplane.kinds import failover_record as records
from controlplane.kinds.binding import Binding
from controlplane.kinds.failover_record import FailoverRecord
from controlplane.settings import Settings


class Asked(NamedTuple):
    """What an action is done with."""

    target: Target
    document: dict[str, Any]
    state: State
    settings: Settings
    by: str
    now: datetime


class Action(NamedTuple):
    """`does` returns the changed object; `rule` is the reason its change is written for."""

    rule: str
    does: Callable[[Any, Asked], Object]


def _fence(live: Any, asked: Asked) -> Object:
    try:
        request = msgspec.convert(asked.document, FenceRequest)
    except msgspec.ValidationError as error:
        raise BadRequest(f"a fence is {{reason, expiresInSeconds}}: {error}") from None
    return fenced(live, request, by=asked.by, now=asked.now)


def _revert(live: Binding, asked: Asked) -> Object:
    """Return the binding before its latest failover. Raises Conflict where it cannot go back there, or where the last
    one by that name that had a failover was another one."""
    before = failovers.before(live.ref)
    plural, name, group = asked.target.resource.plural, live.metadata.name, asked.target.resource.group
    if before is None or before.metadata.uid != live.metadata.uid:
        raise Conflict.of(plural, name, group=group, why="it has had no failover that is still on record")
    named = [Ref(CLUSTER, "", target.name) for target in before.spec.clusters]
    clusters = {ref.name: cluster for ref, cluster in asked.state.get(named).items()}
    found = list(revert.revert_obstacles(live, before, clusters, asked.settings))
    if found:
        raise Conflict.of(plural, name, group=group, why="; ".join(found))
    return revert.reverted_binding(live, before, asked.settings, by=asked.by, now=asked.now)


ACTIONS: dict[tuple[str, str], Action] = {
    (CLUSTER, "fence"): Action("Fence", _fence),
    **{(kind, "revert"): Action("Revert", _revert) for kind in BINDINGS},
}


class ActionView(TargetView):
    """POST …/<name>/<action>: the object afterwards. Tried again where somebody else wrote meanwhile."""

    http_method_names = ["post", "options"]

    def post(self, request: Request) -> Response:
        target, resource = self.target, self.target.resource
        action = ACTIONS.get((target.kind.key, target.subresource))
        if action is None:
            raise nothing_here()
        document = bodies.decode(request.content_type, request.body).document if request.body.strip() else {}
        settings, by = configuration().settings(), request.user.get_username()
        writer = Writer(store(), settings, Author(by, action.rule), dry_run=dry_run(request.query_params, {}))
        asked = Asked(target, _plain(document), writer.store, settings, by, writer.now)
        written = writer.act(target.ref, lambda live: action.does(live, asked))
        return Response(One(resource, text_of(written.stored)), status=201)


def _plain(document: Any) -> dict[str, Any]:
    """Return what is asked for, without the head kubectl writes into every body."""
    if not isinstance(document, dict):
        raise BadRequest("the body has to be an object")
    return {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata")}


class RecordsView(KubernetesView):
    """GET failoverrecords, of a namespace or of all, and one of them."""

    http_method_names = ["get", "head", "options"]
    renderer_classes = pages.OBJECTS

    def attributes(self, request: Request) -> Attributes:
        scope = Scope(self.kwargs.get("namespace") or "", self.kwargs.get("name") or "")
        return resource_attributes(request, records.RESOURCE, scope)

    def get(self, request: Request, namespace: str | None = None, name: str | None = None) -> Response:
        namespace, name = namespace or "", name or ""
        resource = records.RESOURCE
        refuse_watch(request, resource)
        if name:
            return Response(One(resource, _text(_one(namespace, name))))
        asked = pages.bounded(listing_of(request.query_params, resource, namespace=namespace), request)
        found = _page(asked, namespace)
        takes = asked.choice.takes
        texts = [_text(one) for one in found.records if asked.choice.is_everything or takes(msgspec.to_builtins(one))]
        version = store().current_version() if asked.start is None else asked.start.version
        meta = {"resourceVersion": str(version)}
        if found.after is not None:
            name = record_name(found.after.binding, found.after.version)
            meta["continue"] = Continue(version, found.after.namespace, name).token()
        return warning(Response(Many(resource, texts, meta)), found.omissions)


def _page(asked: Listing, namespace: str) -> failovers.Page:
    """Return the records a list shows. Raises BadRequest for a token of another list."""
    if asked.start is None and not asked.limit:
        return failovers.of_fleet(namespace=namespace)
    after = None
    if asked.start is not None:
        binding, _, version = asked.start.name.rpartition(".")
        if not binding or not version.isdecimal():
            raise BadRequest("query parameter continue is a token of another list; list again without it")
        after = failovers.Place(asked.start.namespace, binding, int(version))
    return failovers.page(namespace=namespace, after=after, limit=asked.limit or failovers.MOST_BINDINGS)


def _one(namespace: str, name: str) -> FailoverRecord:
    """Return a record by its name, which names its binding."""
    binding, _, _version = name.rpartition(".")
    for kind in BINDINGS:
        home = namespace if kind == BINDINGS[0] else ""
        for one in failovers.of_binding(Ref(kind, home, binding)):
            if (one.metadata.namespace, one.metadata.name) == (namespace, name):
                return one
    raise NotFound.of(records.RESOURCE.plural, name, group=records.RESOURCE.group)


def _text(found: FailoverRecord) -> bytes:
    return msgspec.json.encode(found)
