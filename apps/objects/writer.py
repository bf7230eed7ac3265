"""The writer: every change that a person or a program orders is stored here, whichever way it came in.

The API, the browsable API, the admin, orders about evictions and management commands translate their request into a
document or a Change. The writer admits documents, stores the result by `apply`, and builds the change again from the
newest object when another write was faster. Warnings, Events and the entry in the change log are therefore the same
for every way in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final, NamedTuple

import orjson

from apps.objects import admission, audit, reviewing, write_errors
from apps.objects.confirmation import Confirmation, no_confirmation
from apps.objects.definitions import definitions
from apps.objects.encryption import as_shown, with_unopened
from apps.objects.preview import Preview, preview
from apps.objects.store import DjangoStore
from apps.objects.type_checking import with_type_checks
from apps.objects.versions import field_versions, stored_version
from controlplane.admission import orphan_policy, quota_checks, state_checks
from controlplane.admission.admit import Admitted
from controlplane.apimachinery.equality import same
from controlplane.apimachinery.errors import Conflict, Invalid
from controlplane.apimachinery.meta import Object, Ref
from controlplane.clusters import unjoin
from controlplane.engine import deletion_protection, lifecycle
from controlplane.engine.decision import Decision, Delete, Event, Put, Save
from controlplane.engine.state import Actor, Outcome
from controlplane.eviction import hold_events
from controlplane.kind import Kind, text_of
from controlplane.kinds import DEFINITION
from controlplane.settings import Settings
from controlplane.wire.managed_fields import differ_in_times_only, track

Document = dict[str, Any]

ATTEMPTS: Final = 100  # of a write that names no version; each attempt lost against another write
NAME_ATTEMPTS: Final = 8  # to find a free generated name
# Parts of metadata that clients cannot set; an update keeps the stored values.
_SERVER_FIELDS = (
    *("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"),
    *("name", "namespace", "generateName", "selfLink", "resourceVersion"),
)


_NEW_FIELDS = ("uid", "creationTimestamp", "generation", "resourceVersion")  # not known when webhooks are called


class Change(NamedTuple):
    """A change to store, with the warnings for its author and the Events it causes."""

    change: Put | Delete
    warnings: Sequence[str] = ()
    events: tuple[Event, ...] = ()
    subresource: str = ""  # through which the object is written
    kind: Kind | None = None  # the kind in the version that was written; None: that in which it is stored


class Written(NamedTuple):
    """An object as it is stored now, and the warnings for its author.

    If the write removed the last finalizer of an object that was being deleted, the object is gone. `stored` is then
    what was written.
    """

    stored: Object
    warnings: list[str]
    created: bool = False


class Planned(NamedTuple):
    """A creation with its decision. `effects`: warnings about what it does to workloads."""

    change: Change
    decision: Decision
    effects: Sequence[str]

    @property
    def ref(self) -> Ref:
        """Return the reference of the new object."""
        return _about(self.change).ref


class Deleted(NamedTuple):
    """A deletion. `left` is the object while finalizers keep it. None: the object is gone."""

    was: Object
    left: Object | None
    warnings: tuple[str, ...]


Restriction = Callable[[Kind, Any, Any], None]
"""Raises if an author may not write this: kind, new object, old object (None: it is created)."""


Stamp = Callable[[Kind, Document], Document]
"""Returns the document of a new object with the fields that the author's login decides."""


class Author(NamedTuple):
    """On whose behalf objects are written, as the change log and managedFields show it."""

    user: str
    reason: str  # the way in ("API", "Admin", "Join") or the rule of an action ("Fence")
    manager: str = "lifeboat"  # field manager


def no_restriction(kind: Kind, new: Object, old: Object | None) -> None:
    """Allow every write."""


def no_stamp(kind: Kind, document: Document) -> Document:
    """Return the document as it is."""
    return document


class Writer:
    """Writes objects on behalf of one author.

    `restrict(kind, new, old)` raises if the author may not write this. `stamp(kind, document)` fills in what the login
    of the author decides. `confirmation` raises if the author has to confirm the effects first. `dry_run` goes through
    all checks and stores nothing. `now`: the database's time when the write began. None: it is read when needed.
    """

    def __init__(
        self,
        store: DjangoStore,
        settings: Settings,
        author: Author,
        *,
        dry_run: bool = False,
        restrict: Restriction = no_restriction,
        stamp: Stamp = no_stamp,
        confirmation: Confirmation = no_confirmation,
        now: datetime | None = None,
    ) -> None:
        self.store = store
        self.settings = settings
        self.author = author
        self.dry_run = dry_run
        self.restrict = restrict
        self.stamp = stamp
        self.confirmation = confirmation
        self.preview = Preview()  # of the last write; its texts are among the warnings
        self._reviewed: list[str] = []  # warnings of admission policies and webhooks about the last writes
        if now is not None:
            self.__dict__["now"] = now

    @cached_property
    def now(self) -> datetime:
        """The database's time when the write began. Host clocks decide nothing that is stored."""
        return self.store.now()

    def _look(self, ref: Ref) -> Any:
        """Return the newest state of an object, None: it is not stored. The same statement reads the time of `now`."""
        found, at = self.store.look(ref)
        self.__dict__.setdefault("now", at)
        return found

    def live(self, ref: Ref) -> Any:
        """Return the newest state of an object. Raises NotFound."""
        found = self._look(ref)
        if found is None:
            raise write_errors.missing(ref)
        return found

    def create(self, kind: Kind, document: Document, *, tracked: bool = False) -> Written:
        """Store a new object. A generated name that is taken is generated again.

        Raises AlreadyExists, NotFound if the namespace is missing, Forbidden if the namespace is being deleted, and
        BadRequest or Invalid for a document that breaks rules. `tracked`: the document has its managedFields already.
        """
        metadata = document["metadata"]
        generated = not metadata.get("name") and metadata.get("generateName")
        admission.check_namespace(self._look, kind, document)
        for _ in range(NAME_ATTEMPTS if generated else 1):
            change = self._creation(kind, document, tracked=tracked)
            written = self.attempt(change)
            if written is not None:
                return written._replace(created=True)
        raise write_errors.taken(self.store, _about(change).ref)

    def _creation(self, kind: Kind, document: Document, *, tracked: bool) -> Change:
        made = self.admit_new(kind, document, tracked=tracked)
        return Change(Put(stored_version(kind, made.object), None), made.warnings, kind=kind)

    def plan(self, kind: Kind, document: Document) -> Planned:
        """Return a creation that is decided and not stored. The caller stores its decision, and calls `planned`.

        The namespace is not checked. Raises the errors of `create` except AlreadyExists.
        """
        change = self._creation(kind, document, tracked=False)
        effects = self._preview([change.change])
        (decision,) = self._decide([[change]])
        self._ask()
        return Planned(change, decision, effects)

    def planned(self, plan: Planned, outcome: Outcome) -> Written:
        """Return what a plan has led to, when its decision is stored."""
        self._note_stored([plan.change], [plan.decision], [outcome])
        stored = outcome.objects[0] or _about(plan.change)
        return Written(stored, [*plan.change.warnings, *self._reviewed, *plan.effects], created=True)

    def change(self, ref: Ref, build: Callable[[], Change], *, retry: bool = True) -> Written:
        """Store the change that `build` makes of the newest state of the object.

        `build` is called again when another write was faster. With `retry=False` the other write wins at once, because
        the author based the change on one version. Raises Conflict, and whatever `build` raises.
        """
        for _ in range(ATTEMPTS if retry else 1):
            written = self.attempt(build())
            if written is not None:
                return written
        raise self.conflict(ref)

    def act(self, ref: Ref, action: Callable[[Any], Object]) -> Written:
        """Store what an action makes of an object. Raises NotFound, Conflict, and whatever the action raises."""

        def build() -> Change:
            live = self.live(ref)
            return Change(Put(action(live), live))

        return self.change(ref, build)

    def delete(
        self,
        refs: Sequence[Ref],
        *,
        policy: str = "",
        exact: bool = False,
        precondition: Callable[[Object], None] | None = None,
    ) -> list[Deleted]:
        """Delete objects. Objects that are already gone are left out of the result.

        `policy` is the propagationPolicy. `exact`: a deletion loses against any other write. `precondition` raises if
        an object must stay. Raises Conflict, also for a Cluster while bindings are placed on it, and Forbidden for
        namespaces that every installation needs.
        """
        done: dict[Ref, Deleted] = {}
        waiting = list(refs)
        for _ in range(ATTEMPTS):
            live = self.store.get(waiting, unopened=True)
            for obj in live.values():
                if precondition is not None:
                    precondition(obj)
            done |= self._delete_once(live, policy=policy, exact=exact)
            waiting = [ref for ref in live if ref not in done]
            if not waiting:
                return list(done.values())
        raise self.conflict(waiting[0])

    def _delete_once(self, live: Mapping[Ref, Object], *, policy: str, exact: bool) -> dict[Ref, Deleted]:
        """Delete objects and return the deletions that were stored."""
        deletion_protection.check_deletions(live.values())
        unjoin.check(self.store, live.values(), self.settings)
        orphan_policy.check_orphan_policy(self.store, live.values(), policy)
        warnings = {ref: state_checks.deletion_warnings(self.store, obj) for ref, obj in live.items()}
        writes = [lifecycle.request_deletion(obj, now=self.now, policy=policy, exact=exact) for obj in live.values()]
        effects = self._preview(writes)
        outcomes = self.apply([[Change(write)] for write in writes])
        deleted = {
            ref: Deleted(obj, outcome.objects[0], warnings[ref])
            for (ref, obj), outcome in zip(live.items(), outcomes, strict=True)
            if not outcome.lost
        }
        # The warnings are about all deletions together, so the first deletion carries them.
        if (effects or self._reviewed) and deleted:
            first, found = next(iter(deleted.items()))
            deleted[first] = found._replace(warnings=(*found.warnings, *self._reviewed, *effects))
        return deleted

    def _preview(self, writes: Sequence[Put | Delete]) -> tuple[str, ...]:
        """Return the warnings about what writes do to workloads, and note how many they concern."""
        is_asked = self.dry_run or self.confirmation is not no_confirmation
        self.preview = preview(self.store, writes, self.settings, is_asked=is_asked, now=self.now)
        return self.preview.texts

    def _ask(self) -> None:
        """Raise if the author has to confirm the effects of the write first."""
        if not self.dry_run:
            self.confirmation(self.preview)

    def attempt(self, change: Change) -> Written | None:
        """Store one change; None: another write was faster."""
        effects = self._preview([change.change])
        (outcome,) = self.apply([[change]])
        if outcome.lost:
            quota_checks.check_write(self.store, change.change, self.settings)  # another write may have taken the room
            return None
        return Written(outcome.objects[0] or _about(change), [*change.warnings, *self._reviewed, *effects])

    def apply(self, groups: Sequence[Sequence[Change]]) -> list[Outcome]:
        """Store groups of changes, each group as a whole or not at all; return what became of each.

        Raises the error of an admission policy or webhook that denies one of them.
        """
        decisions = self._decide(groups)
        self._ask()
        pairs, by = [(None, decision) for decision in decisions], Actor(self.author.user)
        if self.dry_run:
            outcomes = self.store.apply(pairs, by=by, dry_run=True)
        else:
            outcomes = self.store.groups.apply(pairs, by=by)
        self._note_stored([entry for group in groups for entry in group], decisions, outcomes)
        return list(outcomes)

    def _decide(self, groups: Sequence[Sequence[Change]]) -> list[Decision]:
        """Return a decision for each group of changes, which admission policies and webhooks have reviewed."""
        asked = [reviewing.Asked(entry.change, entry.subresource, entry.kind) for group in groups for entry in group]
        author, is_trial = self.author.user, self.dry_run
        self._reviewed = reviewing.review(self.store, asked, self.settings, author=author, dry_run=is_trial)
        trail = audit.current()
        return [self._decision(group, trail) for group in groups]

    def _note_stored(
        self, entries: Sequence[Change], decisions: Sequence[Decision], outcomes: Sequence[Outcome]
    ) -> None:
        """Note in the audit trail what was stored, and read definitions and admission rules again that were written."""
        if not self.dry_run:
            audit.note_stored(audit.current(), decisions, outcomes)
        written = [_about(entry).ref.kind for entry in entries]
        if DEFINITION in written:
            definitions().refresh(at_once=True)  # the author may use the new kind in the next request
        reviewing.refresh_after(written)

    def _decision(self, group: Sequence[Change], trail: audit.Trail) -> Decision:
        """Return the decision to store a group of changes, with an audit event for each of them."""
        events: list[Event] = []
        audited: list[Save] = []
        for entry in group:
            events += (*hold_events.hold_events(entry.change, by=self.author.user), *entry.events)
            if not self.dry_run:
                user, reason = self.author.user, self.author.reason
                audited += audit.saves(trail, entry.change, user=user, reason=reason, now=self.now)
        changes = (*(entry.change for entry in group), *audited)
        limits = quota_checks.guards(self.store, [entry.change for entry in group], self.settings)
        return Decision(changes=changes, events=tuple(events), quota_guards=limits, reason=self.author.reason)

    def admit_new(self, kind: Kind, document: Document, *, tracked: bool = False) -> Admitted:
        """Return the new object of a document, with its managedFields, as mutating webhooks of users leave it.

        Raises BadRequest, Invalid with every cause, and the errors of webhooks.
        """
        stamped = self.stamp(kind, document)

        def admit(document: Document, tracked: bool) -> Admitted:
            return self._admit_new(kind, document, tracked=tracked)

        admitted = self._mutated(kind, stamped, None, admit, tracked=tracked)
        return Admitted(with_type_checks(kind, admitted.object, None), admitted.warnings)

    def _admit_new(self, kind: Kind, document: Document, *, tracked: bool) -> Admitted:
        admitted = admission.created(self.store, kind, document, settings=self.settings, now=self.now)
        self.restrict(kind, admitted.object, None)
        if tracked:
            return admitted
        return Admitted(self._tracked(kind, None, admitted.object, document), admitted.warnings)

    def admit_change(
        self, kind: Kind, document: Document, live: Object, *, subresource: str = "", tracked: bool = False
    ) -> Admitted:
        """Return the new state of an object, as mutating webhooks of users leave it.

        Fields that clients cannot set keep their stored values. Raises BadRequest, Conflict if the document has another
        uid, Invalid with every cause, and the errors of webhooks. `tracked`: the document has its managedFields.
        """

        def admit(document: Document, tracked: bool) -> Admitted:
            return self._admit_change(kind, document, live, subresource=subresource, tracked=tracked)

        admitted = self._mutated(kind, document, live, admit, subresource=subresource, tracked=tracked)
        return Admitted(with_type_checks(kind, with_unopened(admitted.object, live), live), admitted.warnings)

    def _mutated(
        self,
        kind: Kind,
        document: Document,
        live: Object | None,
        admit: Callable[[Document, bool], Admitted],
        *,
        subresource: str = "",
        tracked: bool,
    ) -> Admitted:
        """Return what admission and mutating webhooks make of a document. Fields that webhooks set have no owner.

        Webhooks may complete a document that admission refuses without them.
        """
        mutation = reviewing.mutation(self.store, self.settings, author=self.author.user, dry_run=self.dry_run)
        if mutation is None:
            return admit(document, tracked)
        before, held = None if live is None else document_of(live), None
        try:
            admitted = admit(document, tracked)
            document, tracked = document_of(admitted.object), True
        except Invalid as error:
            held = error
        if live is None:
            document = {
                **document,
                "metadata": {key: value for key, value in document["metadata"].items() if key not in _NEW_FIELDS},
            }
        changed = mutation.changed(kind, document, before, subresource=subresource)
        if changed is not None:
            admitted = admit(changed, tracked)
        elif held is not None:
            raise held
        return Admitted(admitted.object, (*admitted.warnings, *mutation.warnings))

    def _admit_change(
        self, kind: Kind, document: Document, live: Object, *, subresource: str, tracked: bool
    ) -> Admitted:
        before, shown = document_of(live), as_shown(live)
        based = _based_on(kind, before, document, subresource=subresource)
        admitted = admission.changed(
            self.store, kind, based, shown, subresource=subresource, settings=self.settings, now=self.now
        )
        self.restrict(kind, admitted.object, shown)
        if tracked:
            return Admitted(_as_before(admitted.object, live, before), admitted.warnings)
        new = self._tracked(kind, before, admitted.object, based, subresource=subresource)
        return Admitted(new, admitted.warnings)

    def _tracked(
        self, kind: Kind, before: Document | None, obj: Object, sent: Document, *, subresource: str = ""
    ) -> Object:
        """Return the object with its managedFields: changed fields belong to the author's field manager."""
        new = document_of(obj)
        if "managedFields" in sent["metadata"]:
            new["metadata"]["managedFields"] = sent["metadata"]["managedFields"]
        done = track(before, new, **self.tracking(kind, subresource=subresource))
        return obj.with_meta(managed_fields=tuple(done["metadata"].get("managedFields", ())))

    def tracking(self, kind: Kind, *, subresource: str = "") -> dict[str, Any]:
        """Return the arguments for field ownership: manager, schema, time, version, subresource, other versions."""
        return {
            "manager": self.author.manager,
            "schema": kind.schema(),
            "now": self.now,
            "api_version": kind.resource.api_version,
            "subresource": subresource,
            "versions": field_versions(kind),
        }

    def conflict(self, ref: Ref, why: str = "") -> Conflict:
        """Return the error for a write that lost against other writes."""
        return write_errors.conflict(ref, why)


def document_of(obj: Object) -> Document:
    """Return an object as a plain document."""
    document: Document = orjson.loads(text_of(obj))
    return document


def _about(entry: Change) -> Object:
    """Return the new state of an object that is written, or the last one if the object is deleted."""
    return entry.change.old if isinstance(entry.change, Delete) else entry.change.new


def _based_on(kind: Kind, before: Document, document: Document, *, subresource: str) -> Document:
    """Return a sent document with the stored values of everything that this write cannot change."""
    stored, metadata = before["metadata"], dict(document["metadata"])
    if subresource == "status":
        kept = {**stored}
        if "managedFields" in metadata:
            kept["managedFields"] = metadata["managedFields"]
        made = {**before, "metadata": kept}
        made.pop("status", None)
        return {**made, "status": document["status"]} if document.get("status") is not None else made
    for field in _SERVER_FIELDS:
        metadata.pop(field, None)
        if field in stored:
            metadata[field] = stored[field]
    made = {**document, "metadata": metadata}
    if "status" in kind.resource.subresources:
        made.pop("status", None)
        if "status" in before:
            made["status"] = before["status"]
    return made


def _as_before(made: Object, live: Object, before: Document) -> Object:
    """Return the live object if an applied object differs from it only in the times of its managedFields.

    Admission adds fields to items of lists, so that an applied list differs from the stored list until it is admitted.
    The applier's time moves before that. Without this rule every repeated apply would store a new version.
    """
    entries = made.metadata.managed_fields, live.metadata.managed_fields
    if not differ_in_times_only(*entries):
        return made
    timed = document_of(made.with_meta(managed_fields=entries[1]))
    return live if same(timed, before) else made
