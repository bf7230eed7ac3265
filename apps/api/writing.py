"""Writes of one API request: bodies, patches and delete options become documents for the writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import orjson
from msgspec.structs import replace

from apps.api import agents, bodies, reading, signing_requests
from apps.api.answer import ListAnswer
from apps.api.query import Listing, Writing
from apps.api.target import Target
from apps.objects import writer
from apps.objects.confirmation import Confirmation, no_confirmation
from apps.objects.encryption import legible
from apps.objects.store import DjangoStore
from apps.objects.versions import object_in_version, stored_version, texts_in_version
from apps.objects.writer import Author, Change, document_of
from controlplane.admission.admit import without_status
from controlplane.admission.last_applied import with_last_applied
from controlplane.apimachinery.causes import immutable, invalid
from controlplane.apimachinery.errors import AlreadyExists, BadRequest, Conflict, Invalid, NotFound, StorageReadError
from controlplane.apimachinery.meta import Object, Ref
from controlplane.authorization.escalation import CHECKS
from controlplane.engine.decision import Put
from controlplane.engine.state import Outcome
from controlplane.kind import text_of
from controlplane.kinds import EVENT
from controlplane.kinds.template import LEASE
from controlplane.kinds.template.node_port_index import SERVICE
from controlplane.settings import Settings
from controlplane.wire import scale
from controlplane.wire.body import decode_body
from controlplane.wire.builtin import is_builtin
from controlplane.wire.managed_fields import server_side_apply
from controlplane.wire.negotiate import media_type_of
from controlplane.wire.patch import APPLY_PATCH, JSON_PATCH, apply_patch, patch_type_of
from controlplane.wire.prune import prune, validate_fields
from controlplane.wire.request import complete_from_url

Document = dict[str, Any]

REASON = "API"  # of these writes in the change log
CREATED_BY_UPDATE = frozenset((EVENT, SERVICE, LEASE, "Endpoints", "LimitRange", *CHECKS))
"""Kinds of which a PUT creates an object that does not exist, as in Kubernetes: CHECKS has those of roles."""


class WrittenAnswer(NamedTuple):
    """What a write led to: the object as it is served now, warnings, and whether the object is new."""

    text: bytes
    warnings: list[str]
    created: bool = False


class PlannedRequest(NamedTuple):
    """A creation that is decided, and warnings about the fields of the request."""

    plan: writer.Planned
    warnings: list[str]


class RemovedAnswer(NamedTuple):
    """An object that was removed, and the warnings for the caller."""

    name: str
    uid: str
    warnings: tuple[str, ...]


class RequestWriter:
    """The writes of one request: by which user, to which object, with which options.

    `now`: the database's time, None: it is read when it is needed.
    """

    def __init__(
        self,
        store: DjangoStore,
        settings: Settings,
        target: Target,
        writing: Writing,
        *,
        user: Any,
        now: datetime | None = None,
        reason: str = REASON,
        confirmation: Confirmation = no_confirmation,
    ) -> None:
        asked = target.subresource
        if asked == signing_requests.APPROVAL:
            target = replace(target, subresource="status")  # it writes a part of the status
        self.store = store
        self.asked = asked
        self.target = target
        self.kind = target.kind
        self.resource = target.resource
        self.writing = writing
        author = Author(user.get_username(), reason, writing.manager)
        restrict = agents.check_write if agents.cluster_of(user) else signing_requests.restriction(user, asked)
        stamp = partial(signing_requests.stamped, user)
        self.writer = writer.Writer(
            store,
            settings,
            author,
            dry_run=writing.dry_run,
            restrict=restrict,
            stamp=stamp,
            now=now,
            confirmation=confirmation,
        )

    def create(self, body: bodies.DecodedBody) -> WrittenAnswer:
        """Store a new object. Raises AlreadyExists, NotFound if its namespace is missing, Invalid, BadRequest."""
        document, warnings = self._new(body)
        return self._served(self.writer.create(self.kind, document), warnings)

    def plan(self, body: bodies.DecodedBody) -> PlannedRequest:
        """Return a creation that is decided and not stored; see `objects.writer.Writer.plan`."""
        document, warnings = self._new(body)
        return PlannedRequest(self.writer.plan(self.kind, document), warnings)

    def planned(self, plan: PlannedRequest, outcome: Outcome) -> WrittenAnswer:
        """Return what a plan has led to, when its decision is stored."""
        return self._served(self.writer.planned(plan.plan, outcome), plan.warnings)

    def _new(self, body: bodies.DecodedBody) -> tuple[Document, list[str]]:
        """Return the document of a new object, and warnings about its fields."""
        document, warnings = self._known(bodies.about(self.target, body.document), body.duplicates)
        if document["metadata"].get("resourceVersion"):
            raise BadRequest("resourceVersion should not be set on objects to be created")
        return document, warnings

    def update(self, body: bodies.DecodedBody, *, check_creation: Callable[[], None]) -> WrittenAnswer:
        """Store a whole new state. Raises Conflict if the body is based on an older version, NotFound, Invalid.

        An object that does not exist is created, if its kind is one of which Kubernetes does that. `check_creation`
        raises Forbidden if the user may not create it.
        """
        if _has_no_name(body.document):
            why = "was undeterminable: name must be provided"
            raise BadRequest(f"the name of the object ({self.target.name} based on URL) {why}")
        document, warnings = self._known(bodies.about(self.target, body.document), body.duplicates)
        exact = bool(document["metadata"].get("resourceVersion"))
        is_whole = self.target.subresource != "status"  # a status is one part, which is replaced on its own
        for _ in range(writer.ATTEMPTS):
            is_new = is_whole and self._is_created_by_update()
            try:
                if is_new:
                    check_creation()
                    self._check_names_no_other(document)
                    return self._served(self.writer.create(self.kind, _without_version(document)), warnings)
                return self._served(self._change(lambda live: document, exact=exact, is_whole=is_whole), warnings)
            except AlreadyExists:
                pass  # another request created the object meanwhile: update that object
        raise self._conflict()

    def _is_created_by_update(self) -> bool:
        """Test whether an update creates the object, because it does not exist."""
        return self.kind.key in CREATED_BY_UPDATE and not self.store.get([self.target.ref], unopened=True)

    def patch(self, content_type: str, raw: bytes, *, check_creation: Callable[[], None]) -> WrittenAnswer:
        """Patch an object: JSON, merge, strategic merge for built-in kinds, or server-side apply.

        `check_creation` raises Forbidden if the user may not create the object. An apply calls it before it creates.
        """
        if media_type_of(content_type) == APPLY_PATCH:
            return self.apply(raw, check_creation)
        schema = self.kind.schema() if self._is_builtin else None
        patch_type_of(content_type, schema)  # refuses an unknown patch type also if the object is missing
        warnings: list[str] = []

        def patched(live: Document) -> Document:
            made = apply_patch(content_type, live, raw, schema)
            self._check_has_name(made)
            document, warnings[:] = self._known(bodies.about(self.target, made), [])
            return document

        # Operations of a JSON Patch may test or copy any part of the object, also one that they do not change.
        is_whole = media_type_of(content_type) == JSON_PATCH
        written = self._change(patched, exact=b"resourceVersion" in raw, is_whole=is_whole)
        return self._served(written, warnings)

    def apply(self, raw: bytes, check_creation: Callable[[], None]) -> WrittenAnswer:
        """Apply server-side: the fields in the body belong to the field manager afterwards."""
        intent, warnings = self._intent(raw)
        subresource = self.target.subresource
        resets = ("status",) if "status" in self.resource.subresources and subresource != "status" else ()
        options = {
            **self.writer.tracking(self.kind, subresource=subresource),
            "force": self.writing.force,
            "resets": resets,
        }
        basis = {field: value for field in ("uid", "resourceVersion") if (value := intent["metadata"].get(field))}

        def applied(live: Document) -> Document:
            made = server_side_apply(live, intent, **options)
            if subresource == "scale":
                made = scale.with_replicas_of(made, live, self.resource)
            elif not subresource:
                made = with_last_applied(made, intent, manager=options["manager"])
            return {**made, "metadata": {**made["metadata"], **basis}} if basis else made

        for _ in range(writer.ATTEMPTS):
            is_new = not subresource and not self.store.get([self.target.ref], unopened=True)
            try:
                if is_new:
                    check_creation()
                    self._check_names_no_other(intent)
                    made = self.writer.create(self.kind, server_side_apply(None, intent, **options), tracked=True)
                else:
                    made = self._change(applied, exact="resourceVersion" in basis, tracked=True)
                return self._served(made, warnings)
            except AlreadyExists:
                pass  # another request created the object meanwhile: apply to that object
            except NotFound:
                if is_new or subresource:
                    raise
                # another request deleted the object meanwhile: create it again
        raise self._conflict()

    def _intent(self, raw: bytes) -> tuple[Document, list[str]]:
        """Return the fields that a body applies, as fields of the object, and warnings about them."""
        duplicates: list[str] = []
        sent = decode_body(APPLY_PATCH, raw, duplicates=duplicates)
        if self.target.subresource != "scale":
            return self._known(bodies.about(self.target, sent), duplicates)
        wanted = complete_from_url(sent, scale.RESOURCE, namespace=self.target.namespace, name=self.target.name)
        unknown = [] if self.writing.validation == "Ignore" else validate_fields(wanted, scale.schema())
        warnings = bodies.complaints_or_warnings(scale.RESOURCE, [*duplicates, *unknown], self.writing)
        return scale.intent_of(wanted, self.resource), warnings

    def delete(self, options: Document) -> WrittenAnswer | RemovedAnswer:
        """Delete one object. The object stays, with a deletionTimestamp, while finalizers keep it.

        Raises NotFound, and Conflict if a precondition fails or a Cluster still has bindings.
        """
        if options.get(bodies.UNSAFE):
            self._check_cannot_be_read()
        deleted = self._delete([self.target.ref], options)
        if not deleted:
            raise NotFound.of(self.resource.plural, self.target.name, group=self.resource.group)
        (done,) = deleted
        if done.left is None:
            return RemovedAnswer(done.was.metadata.name, done.was.metadata.uid, done.warnings)
        return self._served(writer.Written(done.left, []), done.warnings)

    def _check_cannot_be_read(self) -> None:
        """Raise Invalid if an object can be read that is to be deleted because it cannot."""
        try:
            reading.get(self.target)
        except StorageReadError:
            return
        why = "is exclusively used to delete corrupt object(s), try again by removing this option"
        causes, resource = [invalid(bodies.UNSAFE, True, why)], self.resource
        raise Invalid.of(resource.kind, self.target.name, causes, group=resource.group)

    def scale(self, wanted: Callable[[Document], Document]) -> WrittenAnswer:
        """Set the replicas of a workload to what `wanted` makes of its present Scale; return the workload."""

        def changed(live: Document) -> Document:
            return scale.scaled(live, wanted(scale.scale_of(live, self.resource)), self.resource)

        return self._served(self._change(changed, exact=False), [])

    def delete_all(self, listing: Listing, options: Document) -> tuple[ListAnswer, list[str]]:
        """Delete every object that the selectors match; return the objects as they were listed, and warnings.

        Raises Conflict, and deletes nothing, if a precondition fails for one of them. Raises Invalid for the
        option for objects that cannot be read, because the others would be deleted as well.
        """
        if options.get(bodies.UNSAFE):
            why = "is not allowed with DELETECOLLECTION, try again after removing the option"
            raise Invalid.of("DeleteOptions", "", [invalid(bodies.UNSAFE, True, why)], group="meta.k8s.io")
        page = reading.listed(self.store, self.target, replace(listing, opening=legible))
        refs = [self.kind.ref(*_namespace_and_name(text)) for text in page.texts]
        deleted = self._delete(refs, options)
        warnings = [warning for done in deleted for warning in done.warnings]
        return ListAnswer(self.resource, page.texts, page.list_meta), warnings

    def _delete(self, refs: Sequence[Ref], options: Document) -> list[writer.Deleted]:
        """Delete objects. Raises Conflict if one of them is not what the preconditions name."""
        return self.writer.delete(
            refs,
            policy=options.get("propagationPolicy", ""),
            exact=bool(options.get("preconditions", {}).get("resourceVersion")),
            precondition=lambda live: self._check_preconditions(live, options),
        )

    def _change(
        self,
        change: Callable[[Document], Document],
        *,
        exact: bool,
        is_whole: bool = False,
        tracked: bool = False,
    ) -> writer.Written:
        """Store what `change` makes of the live document.

        `exact`: the client named a version, so a faster write by another client raises Conflict. Otherwise the change
        is made again if it is about the same part of the object, with `is_whole` after every faster write.
        `tracked`: the document of `change` has its managedFields already.
        """

        def build() -> Change:
            stored = self.writer.live(self.target.ref)
            live = object_in_version(self.kind, stored)
            document = change(document_of(live))
            self._check_basis(live, document)
            admitted = self.writer.admit_change(
                self.kind, document, live, subresource=self.target.subresource, tracked=tracked
            )
            new = stored if admitted.object is live else stored_version(self.kind, admitted.object, stored)
            put = Put(new, stored, exact=exact or is_whole)
            return Change(put, admitted.warnings, subresource=self.asked, kind=self.kind)

        return self.writer.change(self.target.ref, build, retry=not exact)

    def _served(self, written: writer.Written, warnings: Sequence[str]) -> WrittenAnswer:
        """Return a write as it is served. `warnings` about the request come before the writer's own."""
        (text,) = texts_in_version(self.kind, [text_of(written.stored)])
        return WrittenAnswer(text, [*warnings, *written.warnings], written.created)

    def _known(self, document: Document, duplicates: list[str]) -> tuple[Document, list[str]]:
        """Return the document without unknown fields, and the warnings that fieldValidation asks for."""
        document = orjson.loads(orjson.dumps(document))
        if self.target.subresource != "status":
            document = without_status(self.kind, document)
        warnings = self.kind.normalise(document)
        schema = self.kind.schema()
        if self.writing.validation == "Ignore":
            return prune(document, schema), warnings
        unknown = validate_fields(document, schema)
        complaints = bodies.complaints_or_warnings(self.resource, [*duplicates, *unknown], self.writing)
        return prune(document, schema) if unknown else document, [*warnings, *complaints]

    def _check_has_name(self, patched: Document) -> None:
        """Raise Invalid for a patch that removes the name."""
        if _has_no_name(patched):
            causes, resource = [immutable("metadata.name", "")], self.resource
            raise Invalid.of(resource.kind, self.target.name, causes, group=resource.group)

    def _check_names_no_other(self, intent: Document) -> None:
        """Raise Conflict if an object that does not exist is applied with the uid of another, which is gone."""
        if uid := intent["metadata"].get("uid"):
            raise self._conflict(
                f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            )

    def _check_basis(self, live: Object, document: Document) -> None:
        """Raise Conflict if a write is based on another object of this name, or on another version."""
        metadata = document["metadata"]
        if metadata.get("uid") not in (None, "", live.metadata.uid):
            uids = f"UID in precondition: {metadata['uid']}, UID in object meta: {live.metadata.uid}"
            raise self._conflict(f"Precondition failed: {uids}")
        if metadata.get("resourceVersion") not in (None, "", live.metadata.resource_version):
            raise self._conflict()

    def _check_preconditions(self, live: Object, options: Document) -> None:
        """Raise Conflict if the object is not the one that the preconditions of a deletion name."""
        preconditions = options.get("preconditions", {})
        stored = {"uid": live.metadata.uid, "resourceVersion": live.metadata.resource_version}
        for field, value in stored.items():
            if preconditions.get(field) not in (None, "", value):
                raise self.writer.conflict(
                    live.ref,
                    f"the {field} in the precondition ({preconditions[field]}) does not match "
                    f"that of the object ({value})",
                )

    def _conflict(self, why: str = "") -> Conflict:
        return self.writer.conflict(self.target.ref, why)

    @property
    def _is_builtin(self) -> bool:
        return is_builtin(self.resource.group, self.resource.version, self.resource.kind)


def _has_no_name(document: Document) -> bool:
    """Test whether a whole object lacks its name.

    `metadata:` without a value in a file is null. The name came from the URL again, without labels and finalizers.
    """
    metadata = document.get("metadata")
    return metadata is None or (isinstance(metadata, dict) and not metadata.get("name"))


def _without_version(document: Document) -> Document:
    return {**document, "metadata": {**document["metadata"], "resourceVersion": ""}}


def _namespace_and_name(text: bytes) -> tuple[str, str]:
    metadata = orjson.loads(text)["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
