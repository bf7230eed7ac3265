"""Writes from pages of the admin: through the same admission and the same writer as writes of kubectl.

The change log names the user as the actor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from apps.objects import admission, change_log
from apps.objects.apply import binary_cursor
from apps.objects.configuration import configuration
from apps.objects.decision_log import refusals_logged
from apps.objects.masks import unmasked
from apps.objects.preview import Preview
from apps.objects.store import store
from apps.objects.tables import read
from apps.objects.versions import object_in_version
from apps.objects.writer import Author, Change, Restriction, Writer, document_of, no_restriction
from apps.objects.yaml_text import SERVERS
from controlplane.apimachinery.errors import BadRequest, Cause, Conflict, Invalid, NotFound
from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine.decision import Put
from controlplane.kind import KINDS, Kind
from controlplane.settings import Settings
from controlplane.wire.body import decode_body
from controlplane.wire.prune import validate_fields

Document = dict[str, Any]

MANAGER = "lifeboat-admin"  # the field manager of these writes, for kubectl apply --server-side
REASON = "Admin"


class By(NamedTuple):
    """Whose edit it is, and why. `dry_run`: go through all checks and store nothing."""

    user: str
    reason: str = ""
    dry_run: bool = False
    restrict: Restriction = no_restriction


class Edited(NamedTuple):
    """The stored object after an edit, the warnings about what was accepted, and what it does to workloads."""

    stored: Object
    warnings: list[str]
    preview: Preview = Preview()


class Removed(NamedTuple):
    """The results of deletions: removed objects, objects that wait for finalizers, warnings, and what they do to
    workloads."""

    gone: list[Ref]
    waiting: list[Ref]
    warnings: list[str]
    preview: Preview = Preview()


def parse(text: str) -> Document:
    """Return the document of a text in YAML or JSON. Raises BadRequest with line and column."""
    return decode_body("application/yaml", text.encode())


def kind_of(document: Document) -> Kind:
    """Return the kind of a document in its version, by its apiVersion and kind.

    Raises BadRequest if no such kind is served.
    """
    api_version, name = str(document.get("apiVersion", "")), str(document.get("kind", ""))
    kind = KINDS.of_version(api_version, name)
    if kind is None:
        raise BadRequest(f'no kind "{name}" is served in version "{api_version}"; see kubectl api-resources')
    return kind


@refusals_logged(REASON)
def create(document: Document, by: By) -> Edited:
    """Store a new object. Raises BadRequest, NotFound, Invalid with every cause, AlreadyExists."""
    settings = configuration().settings()  # first: this also reads kinds that users have defined meanwhile
    kind = kind_of(document)
    document, causes = unmasked(document, None)
    document, warnings = _known(kind, _without_servers(document))
    if not document["metadata"].get("name"):
        raise BadRequest("metadata.name is missing")
    if not kind.resource.namespaced:
        document["metadata"].pop("namespace", None)
    admission.check_namespace(lambda ref: store().get([ref]).get(ref), kind, document)
    _refuse(kind, document, causes)
    writer = _writer(by, settings)
    written = writer.create(kind, document)
    return Edited(written.stored, [*warnings, *written.warnings], writer.preview)


@refusals_logged(REASON)
def change(ref: Ref, document: Document, by: By, *, basis: int) -> Edited:
    """Store the new state of an object that a user began to edit at the version `basis`.

    Parts that others have changed since and the user has not, for example the status, are kept. Raises NotFound,
    Invalid with every cause, and Conflict if both changed the same part.
    """
    settings = configuration().settings()  # first: a definition may have been edited meanwhile
    kind = KINDS[ref.kind]
    base = as_of(ref, basis)
    seen = shown(base)
    causes = _identity_causes(kind, ref, document)
    document, hidden = unmasked(document, document_of(seen))
    document, warnings = _known(kind, _without_servers(document))
    _refuse(kind, document, [*causes, *hidden])
    writer = _writer(by, settings)

    def build() -> Change:
        admitted = writer.admit_change(kind, document, seen)
        return Change(Put(base if admitted.object is seen else admitted.object, base), admitted.warnings)

    written = writer.change(ref, build, retry=False)  # the person decides what becomes of a conflict
    return Edited(written.stored, [*warnings, *written.warnings], writer.preview)


@refusals_logged(REASON)
def act(ref: Ref, does: Callable[[Any], Object], by: By, *, rule: str) -> Edited:
    """Store what an action (`does`) makes of the stored object. `rule`: begins the reason in the change log.

    Raises NotFound, Conflict, Invalid.
    """
    writer = _writer(by, way=rule)
    written = writer.act(ref, does)
    return Edited(written.stored, written.warnings, writer.preview)


@refusals_logged(REASON)
def remove(refs: Sequence[Ref], by: By) -> Removed:
    """Delete objects. An object with finalizers is marked, and removed when the last finalizer is done.

    Objects that do not exist are ignored. Raises Forbidden for a namespace that every installation needs, and Conflict
    for a Cluster on which bindings are placed.
    """
    writer = _writer(by)
    deleted = writer.delete(refs)
    return Removed(
        [done.was.ref for done in deleted if done.left is None],
        [done.was.ref for done in deleted if done.left is not None],
        [warning for done in deleted for warning in done.warnings],
        writer.preview,
    )


def _writer(by: By, settings: Settings | None = None, *, way: str = REASON) -> Writer:
    reason = f"{way}: {by.reason}"[:200] if by.reason else way
    author = Author(by.user, reason, MANAGER)
    return Writer(store(), settings or configuration().settings(), author, dry_run=by.dry_run, restrict=by.restrict)


def stored(ref: Ref) -> Object:
    """Return the stored object. Raises NotFound."""
    obj: Object | None = store().get([ref], unopened=True).get(ref)
    if obj is None:
        resource = KINDS[ref.kind].resource
        raise NotFound.of(resource.plural, ref.name, group=resource.group)
    return obj


def shown(obj: Object) -> Object:
    """Return a stored object as the API shows it in the version in which its kind is stored now.

    Raises StatusError if the conversion webhook of its kind does not convert it.
    """
    kind = KINDS.get(obj.ref.kind)
    seen: Object = obj if kind is None else object_in_version(kind, obj)
    return seen


def as_of(ref: Ref, version: int) -> Object:
    """Return the object as it was at a version. Raises NotFound, and Conflict if the change log lost that version."""
    current = stored(ref)
    if current.metadata.resource_version == str(version):
        return current
    query = f"SELECT doc FROM {change_log.TABLE} WHERE version = %s AND kind = %s AND namespace = %s AND name = %s"
    with binary_cursor() as cursor:
        row = cursor.run(query, (version, *ref)).fetchone()
    earlier: Object | None = None if row is None else read(ref.kind, row[0], unopened=True)
    if earlier is None or earlier.metadata.uid != current.metadata.uid:
        raise _conflict(KINDS[ref.kind], ref.name)
    return earlier


def _conflict(kind: Kind, name: str) -> Conflict:
    return Conflict.of(kind.resource.plural, name, group=kind.resource.group)


def _without_servers(document: Document) -> Document:
    """Return the document without its status and the metadata that only the server writes."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        raise BadRequest("metadata must be an object with a name")
    own = {key: value for key, value in metadata.items() if key not in SERVERS}
    return {**{key: value for key, value in document.items() if key != "status"}, "metadata": own}


def _known(kind: Kind, document: Document) -> tuple[Document, list[str]]:
    """Return the document with deprecated spellings replaced, and warnings. Raises BadRequest for unknown fields."""
    warnings = kind.normalise(document)
    if unknown := validate_fields(document, kind.schema()):
        raise BadRequest(f"strict decoding error: {', '.join(unknown)}")
    return document, warnings


def _identity_causes(kind: Kind, ref: Ref, document: Document) -> list[Cause]:
    """Return a cause for each part of the object's identity that an edit would change."""
    metadata = document.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    parts = {
        "apiVersion": (document.get("apiVersion"), kind.resource.api_version),
        "kind": (document.get("kind"), kind.resource.kind),
        "metadata.name": (named.get("name"), ref.name),
        "metadata.namespace": (named.get("namespace") or "", ref.namespace),
    }
    return [
        Cause("FieldValueInvalid", f'Invalid value: "{edited}": field is immutable, it is "{stored_}"', field)
        for field, (edited, stored_) in parts.items()
        if edited != stored_
    ]


def _refuse(kind: Kind, document: Document, causes: Sequence[Cause]) -> None:
    if causes:
        name = str(document["metadata"].get("name", ""))
        raise Invalid.of(kind.resource.kind, name, causes, group=kind.resource.group)
