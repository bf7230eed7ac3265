"""Writing as an API server does it: names, uids, generations, field ownership, conflicts. Stored by `apply` alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

import orjson

from apps.api import agents, bodies, reading
from apps.api.answer import Many
from apps.api.query import Listing, Writing
from apps.api.target import Target
from apps.objects import admission
from apps.objects.definitions import definitions
from apps.objects.store import DjangoStore
from controlplane.admission import orphan_policy, state_checks
from controlplane.admission.admit import without_status
from controlplane.apimachinery.errors import AlreadyExists, BadRequest, Conflict, NotFound
from controlplane.apimachinery.meta import Object
from controlplane.clusters import unjoin
from controlplane.engine import lifecycle
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import Actor, Outcome
from controlplane.eviction import hold_events
from controlplane.kind import text_of
from controlplane.kinds import DEFINITION
from controlplane.settings import Settings
from controlplane.wire import scale
from controlplane.wire.apply import differ_in_times_only, server_side_apply, track
from controlplane.wire.body import decode_body
from controlplane.wire.builtin import is_builtin
from controlplane.wire.negotiate import media_type_of
from controlplane.wire.patch import APPLY_PATCH, apply_patch, patch_type_of, same
from controlplane.wire.prune import prune, validate_fields

Document = dict[str, Any]

ATTEMPTS = 30  # of a write that names no version: others may win meanwhile, this often
GENERATED = 8  # tries to find a free generated name
# Parts of metadata a client cannot set; an update keeps what is stored.
_KEPT = (
    *("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"),
    *("name", "namespace", "generateName", "selfLink", "resourceVersion"),
)


class Written(NamedTuple):
    """What a write led to: the object as it is served now, warnings, whether it is new."""

    text: bytes
    warnings: list[str]
    created: bool = False


class Gone(NamedTuple):
    """An object that is no longer there, and what to warn of."""

    name: str
    uid: str
    warnings: tuple[str, ...]


class Writer:
    """The writes of one request: whose, on what, how."""

    def __init__(
        self, store: DjangoStore, settings: Settings, target: Target, writing: Writing, *, user: str, by_agent: bool
    ) -> None:
        self.store = store
        self.settings = settings
        self.target = target
        self.kind = target.kind
        self.resource = target.resource
        self.writing = writing
        self.actor = Actor(user)
        self.by_agent = by_agent

    def create(self, body: bodies.Body) -> Written:
        """Store a new object. Raises AlreadyExists, NotFound where its namespace is missing, Invalid, BadRequest."""
        document, warnings = self._known(bodies.about(self.target, body.document), body.duplicates)
        if document["metadata"].get("resourceVersion"):
            raise BadRequest("resourceVersion should not be set on objects to be created")
        generated = not document["metadata"].get("name") and document["metadata"].get("generateName")
        admission.check_namespace(self.store, self.kind, document)
        for _ in range(GENERATED if generated else 1):
            made, more = self._fresh(document)
            outcome = self._apply(Put(made, None))
            if not outcome.lost:
                return Written(_text(outcome, made), [*warnings, *more], created=True)
        raise AlreadyExists.of(self.resource.plural, made.metadata.name, group=self.resource.group)

    def update(self, body: bodies.Body) -> Written:
        """Store a whole new state. Raises Conflict where it is based on an older version, NotFound, Invalid."""
        document, warnings = self._known(bodies.about(self.target, body.document), body.duplicates)
        exact = bool(document["metadata"].get("resourceVersion"))
        written = self._change(lambda live: document, exact=exact)
        return written._replace(warnings=[*warnings, *written.warnings])

    def patch(self, content_type: str, raw: bytes) -> Written:
        """Patch: JSON, merge, strategic merge on built-in kinds, or server-side apply."""
        if media_type_of(content_type) == APPLY_PATCH:
            return self.apply(raw)
        schema = self.kind.schema() if self._is_builtin else None
        patch_type_of(content_type, schema)  # a patch nobody takes is refused whether the object is there or not
        warnings: list[str] = []

        def patched(live: Document) -> Document:
            made = bodies.about(self.target, apply_patch(content_type, live, raw, schema))
            document, warnings[:] = self._known(made, [])
            return document

        written = self._change(patched, exact=b"resourceVersion" in raw)
        return written._replace(warnings=[*warnings, *written.warnings])

    def apply(self, raw: bytes) -> Written:
        """Apply server-side: the fields the body says belong to the field manager afterwards."""
        duplicates: list[str] = []
        intent = bodies.about(self.target, decode_body(APPLY_PATCH, raw, duplicates=duplicates))
        intent, warnings = self._known(intent, duplicates)
        resets = ("status",) if self._has_status and self.target.subresource != "status" else ()
        words = self._words() | {"force": self.writing.force, "resets": resets}
        live = self.store.get([self.target.ref]).get(self.target.ref)
        if live is None and not self.target.subresource:
            admission.check_namespace(self.store, self.kind, intent)
            made, more = self._fresh(server_side_apply(None, intent, **words), tracked=True)
            outcome = self._apply(Put(made, None))
            if not outcome.lost:
                return Written(_text(outcome, made), [*warnings, *more], created=True)
        version = intent["metadata"].get("resourceVersion")

        def applied(live: Document) -> Document:
            made = server_side_apply(live, intent, **words)
            if version:
                made = {**made, "metadata": {**made["metadata"], "resourceVersion": version}}
            return made

        written = self._change(applied, exact=bool(version), tracked=True)
        return written._replace(warnings=[*warnings, *written.warnings])

    def delete(self, options: Document, *, live: Object | None = None) -> Written | Gone:
        """Delete: gone at once, or the object with a deletionTimestamp where finalizers hold it.

        Raises Conflict, also for a Cluster while bindings are on it.
        """
        policy = options.get("propagationPolicy", "")
        for _ in range(ATTEMPTS):
            live = live or self._live()
            self._check_preconditions(live, options)
            exact = bool(options.get("preconditions", {}).get("resourceVersion"))
            unjoin.check(self.store, [live], self.settings)
            orphan_policy.check_orphan_policy(self.store, [live], policy)
            warnings = state_checks.deletion_warnings(self.store, live)
            outcome = self._apply(lifecycle.request_deletion(live, now=self.now, policy=policy, exact=exact))
            if not outcome.lost:
                left = outcome.objects[0]
                if left is None:
                    return Gone(live.metadata.name, live.metadata.uid, warnings)
                return Written(_encoded(left), list(warnings))
            live = None
        raise self._conflict()

    def scale(self, wanted: Callable[[Document], Document]) -> bytes:
        """Set the replicas of a workload to what `wanted` makes of its present Scale; return the workload."""

        def changed(live: Document) -> Document:
            return scale.scaled(live, wanted(scale.scale_of(live, self.resource)), self.resource)

        return self._change(changed, exact=False).text

    def delete_all(self, asked: Listing, options: Document) -> Many:
        """Delete every object the selectors take; return them as they were listed."""
        policy = options.get("propagationPolicy", "")
        page = reading.listed(self.store, self.target, asked)
        refs = [self.kind.ref(*_place(text)) for text in page.texts]
        for _ in range(ATTEMPTS):
            live = self.store.get(refs)
            unjoin.check(self.store, live.values(), self.settings)
            orphan_policy.check_orphan_policy(self.store, live.values(), policy)
            changes = [lifecycle.request_deletion(obj, now=self.now, policy=policy) for obj in live.values()]
            decisions = [
                Decision(changes=(one,), events=hold_events.hold_events(one, by=self.actor.name), reason="API")
                for one in changes
            ]
            outcomes = self.store.apply(
                [(None, decision) for decision in decisions], by=self.actor, dry_run=self.writing.dry_run
            )
            refs = [ref for ref, outcome in zip(live, outcomes, strict=True) if outcome.lost]
            if not refs:
                return Many(self.resource, page.texts, page.list_meta)
        raise self._conflict()

    def _change(self, change: Callable[[Document], Document], *, exact: bool, tracked: bool = False) -> Written:
        """Store what `change` makes of the live document. `exact`: the client named a version, so whoever was faster
        wins; else it is tried again."""
        for _ in range(ATTEMPTS):
            live = self._live()
            before = _document(live)
            document = change(before)
            self._check_basis(live, document)
            made, warnings = self._changed(live, before, document, tracked=tracked)
            outcome = self._apply(Put(made, live, exact=exact))
            if not outcome.lost:
                return Written(_text(outcome, made), list(warnings))
            if exact:
                break
        raise self._conflict()

    def _live(self) -> Object:
        live: Object | None = self.store.get([self.target.ref]).get(self.target.ref)
        if live is None:
            raise NotFound.of(self.resource.plural, self.target.name, group=self.resource.group)
        return live

    def _apply(self, change: Any) -> Outcome:
        events = hold_events.hold_events(change, by=self.actor.name)
        decision = Decision(changes=(change,), events=events, reason="API")
        outcome = self.store.apply([(None, decision)], by=self.actor, dry_run=self.writing.dry_run)[0]
        if self.kind.key == DEFINITION:
            definitions().refresh(at_once=True)  # who wrote it finds it in force
        return outcome

    # Before it is stored

    def _known(self, document: Document, duplicates: list[str]) -> tuple[Document, list[str]]:
        """Return the document as its schema knows it, and what is to be warned of (fieldValidation)."""
        document = orjson.loads(orjson.dumps(document))
        if self.target.subresource != "status":
            document = without_status(self.kind, document)
        warnings = self.kind.normalise(document)
        schema = self.kind.schema()
        complaints = duplicates
        if self.writing.validation != "Ignore":
            complaints = [*duplicates, *validate_fields(document, schema)]
        told = bodies.complaints_or_warnings(self.resource, complaints, self.writing)
        return prune(document, schema), [*warnings, *told]

    def _fresh(self, document: Document, *, tracked: bool = False) -> tuple[Object, tuple[str, ...]]:
        """Return the new object: admitted, and with who set which field."""
        made = admission.created(self.store, self.kind, document, settings=self.settings, now=self.now)
        if self.by_agent:
            agents.check_write(self.kind, made.object, None)
        return (made.object if tracked else self._tracked(None, made.object, document)), made.warnings

    def _changed(
        self, live: Object, before: Document, document: Document, *, tracked: bool
    ) -> tuple[Object, tuple[str, ...]]:
        """Return the new state of an object: what clients cannot set is kept, the rest admitted and accounted for."""
        base = self._based_on(before, document)
        made = admission.changed(
            self.store,
            self.kind,
            base,
            live,
            subresource=self.target.subresource,
            settings=self.settings,
            now=self.now,
        )
        if self.by_agent:
            agents.check_write(self.kind, made.object, live)
        if tracked:
            return _as_before(made.object, live, before), made.warnings
        return self._tracked(before, made.object, base), made.warnings

    def _based_on(self, before: Document, document: Document) -> Document:
        was, metadata = before["metadata"], dict(document["metadata"])
        if self.target.subresource == "status":
            kept = {**was}
            if "managedFields" in metadata:
                kept["managedFields"] = metadata["managedFields"]
            made = {**before, "metadata": kept}
            made.pop("status", None)
            return {**made, "status": document["status"]} if document.get("status") is not None else made
        for field in _KEPT:
            metadata.pop(field, None)
            if field in was:
                metadata[field] = was[field]
        made = {**document, "metadata": metadata}
        if self._has_status:
            made.pop("status", None)
            if "status" in before:
                made["status"] = before["status"]
        return made

    def _tracked(self, before: Document | None, obj: Object, sent: Document) -> Object:
        """Return the object with its managedFields: what changed belongs to the field manager."""
        new = _document(obj)
        if "managedFields" in sent["metadata"]:
            new["metadata"]["managedFields"] = sent["metadata"]["managedFields"]
        words = self._words()
        done = track(before, new, **words)
        return obj.with_meta(managed_fields=tuple(done["metadata"].get("managedFields", ())))

    @cached_property
    def now(self) -> datetime:
        """The database's time; host clocks decide nothing that is stored."""
        return self.store.now()

    def _words(self) -> dict[str, Any]:
        return {
            "manager": self.writing.manager,
            "schema": self.kind.schema(),
            "now": self.now,
            "api_version": self.resource.api_version,
            "subresource": self.target.subresource,
        }

    # What has to hold

    def _check_basis(self, live: Object, document: Document) -> None:
        """Raise Conflict where a write is based on another object or on another version."""
        metadata = document["metadata"]
        if metadata.get("uid") not in (None, "", live.metadata.uid):
            told = f"UID in precondition: {metadata['uid']}, UID in object meta: {live.metadata.uid}"
            raise self._conflict(f"Precondition failed: {told}")
        if metadata.get("resourceVersion") not in (None, "", live.metadata.resource_version):
            raise self._conflict()

    def _check_preconditions(self, live: Object, options: Document) -> None:
        wanted = options.get("preconditions", {})
        for field, said in (("uid", live.metadata.uid), ("resourceVersion", live.metadata.resource_version)):
            if wanted.get(field) not in (None, "", said):
                raise self._conflict(
                    f"the {field} in the precondition ({wanted[field]}) does not match that of the object ({said})"
                )

    def _conflict(self, why: str = "") -> Conflict:
        return Conflict.of(self.resource.plural, self.target.name, group=self.resource.group, why=why)

    @property
    def _has_status(self) -> bool:
        return "status" in self.resource.subresources

    @property
    def _is_builtin(self) -> bool:
        return is_builtin(self.resource.group, self.resource.version, self.resource.kind)


def _encoded(obj: Object) -> bytes:
    return text_of(obj)


def _document(obj: Object) -> Document:
    document: Document = orjson.loads(_encoded(obj))
    return document


def _as_before(made: Object, live: Object, before: Document) -> Object:
    """Return the live object where an applied one differs from it only in the times of its managedFields.

    An applied list differs from the stored one wherever admission adds to its items, so the applier's time moves before
    admission has made them equal again. Without this rule every repetition would be a new version.
    """
    entries = made.metadata.managed_fields, live.metadata.managed_fields
    if not differ_in_times_only(*entries):
        return made
    timed = _document(made.with_meta(managed_fields=entries[1]))
    return live if same(timed, before) else made


def _text(outcome: Outcome, made: Object) -> bytes:
    """Return what was stored; what was written, where that took the last finalizer of an object being deleted."""
    return _encoded(outcome.objects[0] or made)


def _place(text: bytes) -> tuple[str, str]:
    metadata = orjson.loads(text)["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
