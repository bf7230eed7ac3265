"""What people change on pages: through the same admission and the same writer as kubectl, under their own name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson

from apps.objects import admission, change_log
from apps.objects.apply import binary_cursor
from apps.objects.configuration import configuration
from apps.objects.masks import unmasked
from apps.objects.store import store
from apps.objects.tables import read
from apps.objects.yaml_text import SERVERS
from controlplane.apimachinery.errors import AlreadyExists, BadRequest, Cause, Conflict, Invalid, NotFound
from controlplane.apimachinery.meta import Object, Ref, kind_key
from controlplane.clusters import unjoin
from controlplane.engine import lifecycle
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import Actor
from controlplane.eviction import hold_events
from controlplane.kind import KINDS, Kind, text_of
from controlplane.wire.apply import track
from controlplane.wire.body import decode_body
from controlplane.wire.prune import validate_fields

Document = dict[str, Any]

MANAGER = "lifeboat-admin"  # who owns these fields, to kubectl apply --server-side
REASON = "Admin"


class Edited(NamedTuple):
    """An object as it is stored now, and what was accepted but is worth a warning."""

    stored: Object
    warnings: list[str]


class Removed(NamedTuple):
    """What became of a deletion: gone, or waiting for finalizers."""

    gone: list[Ref]
    waiting: list[Ref]


def parse(text: str) -> Document:
    """Return the one document of a YAML (or JSON) text. Raises BadRequest with line and column."""
    return decode_body("application/yaml", text.encode())


def kind_of(document: Document) -> Kind:
    """Return the kind a document says it is of. Raises BadRequest where nothing of that name is served."""
    api_version, name = str(document.get("apiVersion", "")), str(document.get("kind", ""))
    kind = KINDS.get(kind_key(api_version, name))
    if kind is None or kind.resource.api_version != api_version:
        raise BadRequest(f'no kind "{name}" is served in version "{api_version}"; see kubectl api-resources')
    return kind


def create(document: Document, *, user: str) -> Edited:
    """Store a new object. Raises BadRequest, NotFound, Invalid with every cause, AlreadyExists."""
    settings = configuration().settings()  # first: it also knows the kinds users have brought meanwhile
    kind = kind_of(document)
    document, causes = unmasked(document, None)
    document, normalised = _known(kind, _without_servers(document))
    if not document["metadata"].get("name"):
        raise BadRequest("metadata.name is missing")
    if not kind.resource.namespaced:
        document["metadata"].pop("namespace", None)
    admission.check_namespace(store(), kind, document)
    _refuse(kind, document, causes)
    made = admission.created(store(), kind, document, settings=settings, now=store().now())
    return Edited(_put(kind, made.object, None, user=user), [*normalised, *made.warnings])


def change(ref: Ref, document: Document, *, basis: int, user: str) -> Edited:
    """Store a new state of the object a person began to edit at the version `basis`.

    Parts that others changed meanwhile and the person did not (a status, say) are kept. Raises NotFound, Invalid with
    every cause, Conflict where both changed the same part.
    """
    kind = KINDS[ref.kind]
    base = as_of(ref, basis)
    before = document_of(base)
    causes = _moved(kind, ref, document)
    document, hidden = unmasked(document, before)
    document, normalised = _known(kind, _without_servers(document))
    _refuse(kind, document, [*causes, *hidden])
    made = admission.changed(store(), kind, document, base, settings=configuration().settings(), now=store().now())
    return Edited(_put(kind, made.object, base, user=user), [*normalised, *made.warnings])


def act(ref: Ref, does: Callable[[Any], Object], *, rule: str, user: str) -> Object:
    """Store what an action makes of an object; `rule` is the change's reason. Raises NotFound, Conflict, Invalid."""
    live = stored(ref)
    decision = Decision(changes=(Put(does(live), live),), reason=rule)
    outcome = store().apply([(None, decision)], by=Actor(user))[0]
    if outcome.lost:
        raise _conflict(KINDS[ref.kind], ref.name)
    return outcome.objects[0] or live


def remove(refs: Sequence[Ref], *, user: str) -> Removed:
    """Delete objects; those with finalizers are marked and go when the last one is done. What is gone already is.

    Raises Forbidden for namespaces every installation has, Conflict for a Cluster while bindings are on it.
    """
    found = store().get(refs)
    unjoin.check(store(), found.values(), configuration().settings())
    now = store().now()
    changes = [lifecycle.request_deletion(obj, now=now) for obj in found.values()]
    decisions = [
        (None, Decision(changes=(one,), events=hold_events.hold_events(one, by=user), reason=REASON)) for one in changes
    ]
    outcomes = store().apply(decisions, by=Actor(user))
    removed = Removed([], [])
    for ref, outcome in zip(found, outcomes, strict=True):
        left = outcome.lost or outcome.objects[0] is not None
        (removed.waiting if left else removed.gone).append(ref)
    return removed


def stored(ref: Ref) -> Object:
    """Return the object as it is. Raises NotFound."""
    found: Object | None = store().get([ref]).get(ref)
    if found is None:
        resource = KINDS[ref.kind].resource
        raise NotFound.of(resource.plural, ref.name, group=resource.group)
    return found


def as_of(ref: Ref, version: int) -> Object:
    """Return the object as it was at its version. Raises NotFound, Conflict where that is no longer known."""
    current = stored(ref)
    if current.metadata.resource_version == str(version):
        return current
    query = f"SELECT doc FROM {change_log.TABLE} WHERE version = %s AND kind = %s AND namespace = %s AND name = %s"
    with binary_cursor() as cursor:
        row = cursor.run(query, (version, *ref)).fetchone()
    then: Object | None = None if row is None else read(ref.kind, row[0])
    if then is None or then.metadata.uid != current.metadata.uid:
        raise _conflict(KINDS[ref.kind], ref.name)
    return then


def document_of(obj: Object) -> Document:
    """Return an object as a plain document."""
    document: Document = orjson.loads(text_of(obj))
    return document


def _put(kind: Kind, new: Object, old: Object | None, *, user: str) -> Object:
    tracked = track(
        None if old is None else document_of(old),
        document_of(new),
        manager=MANAGER,
        schema=kind.schema(),
        now=store().now(),
        api_version=kind.resource.api_version,
    )
    new = new.with_meta(managed_fields=tuple(tracked["metadata"].get("managedFields", ())))
    put = Put(new, old)
    decision = Decision(changes=(put,), events=hold_events.hold_events(put, by=user), reason=REASON)
    outcome = store().apply([(None, decision)], by=Actor(user))[0]
    if outcome.lost:
        if old is None:
            raise AlreadyExists.of(kind.resource.plural, new.metadata.name, group=kind.resource.group)
        raise _conflict(kind, new.metadata.name)
    return outcome.objects[0] or new  # removed, where the last finalizer of an object being deleted was taken out


def _conflict(kind: Kind, name: str) -> Conflict:
    return Conflict.of(kind.resource.plural, name, group=kind.resource.group)


def _without_servers(document: Document) -> Document:
    """Return the document without what only the server says."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        raise BadRequest("metadata has to be an object with a name")
    own = {key: value for key, value in metadata.items() if key not in SERVERS}
    return {**{key: value for key, value in document.items() if key != "status"}, "metadata": own}


def _known(kind: Kind, document: Document) -> tuple[Document, list[str]]:
    """Return the document in today's spelling, and warnings. Raises BadRequest for fields the kind does not have."""
    warnings = kind.normalise(document)
    if unknown := validate_fields(document, kind.schema()):
        raise BadRequest(f"strict decoding error: {', '.join(unknown)}")
    return document, warnings


def _moved(kind: Kind, ref: Ref, document: Document) -> list[Cause]:
    """Return a cause for each part of what an object is called that an edit would change."""
    metadata = document.get("metadata")
    said = metadata if isinstance(metadata, dict) else {}
    wanted = {
        "apiVersion": (document.get("apiVersion"), kind.resource.api_version),
        "kind": (document.get("kind"), kind.resource.kind),
        "metadata.name": (said.get("name"), ref.name),
        "metadata.namespace": (said.get("namespace") or "", ref.namespace),
    }
    return [
        Cause("FieldValueInvalid", f'Invalid value: "{value}": field is immutable, it is "{is_}"', field)
        for field, (value, is_) in wanted.items()
        if value != is_
    ]


def _refuse(kind: Kind, document: Document, causes: Sequence[Cause]) -> None:
    if causes:
        name = str(document["metadata"].get("name", ""))
        raise Invalid.of(kind.resource.kind, name, causes, group=kind.resource.group)
