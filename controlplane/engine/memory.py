"""MemoryStore: a Store in dictionaries, for tests and simulations. It passes the same tests as the database store."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Object, Ref
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.engine.capacity_conflicts import NewReservations, ReservationNumbers, overcommitted_cluster
from controlplane.engine.controller import Controller
from controlplane.engine.decision import EVERY, ROW_CHANGES, Decision, Drop, Event, Put, Save, author, newest
from controlplane.engine.deletion_protection import by_deletion_turn
from controlplane.engine.events import counted, event_ref
from controlplane.engine.memory_leases import MemoryLeases
from controlplane.engine.memory_rows import MemoryRows
from controlplane.engine.merge import Remove, Staged, Write, check_generation, stage
from controlplane.engine.quota_conflicts import QuotaUse
from controlplane.engine.routing import Router, next_looks, shard_of
from controlplane.engine.state import (
    NONE_KEEPS,
    START,
    Actor,
    Change,
    Claim,
    Claims,
    Complete,
    HeldLease,
    Outcome,
    ReservedCapacity,
    Selection,
    Unreadable,
)
from controlplane.estimate.quota import use_of
from controlplane.kind import text_of
from controlplane.kinds import KINDS, OWNER, RESOURCE_BINDING, WORK
from controlplane.kinds.rows import CapacityReservation


class _Due(msgspec.Struct, frozen=True, gc=False):
    due_at: datetime
    seq: int
    lease_until: datetime | None = None
    cursor: str = ""


_NOTHING_DONE = Outcome()


class MemoryStore(MemoryRows):
    """A Store in memory. It is not safe for threads: callers interleave their calls themselves."""

    def __init__(self, *, controllers: Iterable[Controller] = (), clock: Callable[[], datetime] | None = None) -> None:
        super().__init__()
        self.router = Router(controllers)
        self.clock = clock or (lambda: datetime(2026, 1, 1, tzinfo=UTC))
        self.version = 0
        self.objects: dict[Ref, Object] = {}
        self.log: list[Change] = []
        self.due: dict[str, dict[Ref, _Due]] = {}  # by controller
        self.due_changed: set[str] = set()  # controllers whose due rows were written; the reader clears it
        self._index: dict[tuple[str, str, str], set[Ref]] = {}
        self._entries: dict[Ref, frozenset[tuple[str, str, str]]] = {}  # the keys of `_index` that each object is under
        self._of_kind: dict[str, list[Ref]] = {}  # in (namespace, name) order
        self._listed: dict[str, tuple[Object, ...]] = {}  # all objects of a kind; removed when one of them changes
        self._texts: dict[Ref, bytes] = {}  # the document of every object, as in the log
        self._leases = MemoryLeases()
        self._seq = 0
        self._numbers = ReservationNumbers()

    # Reading

    def now(self) -> datetime:
        return self.clock()

    @property
    def unread(self) -> dict[Ref, Unreadable]:
        return {}  # it keeps objects, not documents

    def legible(self) -> MemoryStore:
        return self

    def get(self, refs: Collection[Ref], *, unopened: bool = False) -> dict[Ref, Any]:
        return {ref: self.objects[ref] for ref in refs if ref in self.objects}

    def list(
        self, kind: str, *, namespace: str = "", after: tuple[str, str] = START, limit: int = 0, unopened: bool = False
    ) -> Sequence[Any]:
        if not namespace and not limit and after == START:
            listed = self._listed.get(kind)
            return self._list_all(kind) if listed is None else listed
        refs = self._of_kind.get(kind, [])
        refs = refs[bisect_right(refs, Ref(kind, *after)) :]
        if namespace:
            refs = [ref for ref in refs if ref.namespace == namespace]
        return [self.objects[ref] for ref in (refs[:limit] if limit else refs)]

    def _list_all(self, kind: str) -> Sequence[Any]:
        found = self._listed[kind] = tuple([self.objects[ref] for ref in self._of_kind.get(kind, ())])
        return found

    def refs(
        self,
        kind: str,
        *,
        namespace: str = "",
        name: str = "",
        any_of: Sequence[LabelSelector] = (),
        undeleted: bool = False,
        after: tuple[str, str] = START,
        limit: int,
    ) -> Sequence[Ref]:
        refs = self._of_kind.get(kind, [])
        refs = refs[bisect_right(refs, Ref(kind, *after)) :]
        chosen = (ref for ref in refs if namespace in ("", ref.namespace) and name in ("", ref.name))
        if undeleted:
            chosen = (ref for ref in chosen if self.objects[ref].metadata.deletion_timestamp is None)
        if any_of:
            labels = {ref: self.objects[ref].metadata.labels for ref in chosen}
            chosen = (ref for ref, own in labels.items() if any(selector.matches(own) for selector in any_of))
        return list(islice(chosen, limit))

    def by_index(self, kind: str, index: str, values: Collection[str], *, limit: int = 0) -> dict[str, Sequence[Any]]:
        return {
            value: [self.objects[ref] for ref in sorted(self._index.get((kind, index, value), ()))[: limit or None]]
            for value in values
            if self._index.get((kind, index, value))
        }

    def refs_by_index(
        self,
        kind: str,
        index: str,
        value: str | Collection[str],
        *,
        after: tuple[str, str] = ("", ""),
        limit: int = 1000,
    ) -> Sequence[Ref]:
        values = (value,) if isinstance(value, str) else value
        found = sorted({ref for value in values for ref in self._index.get((kind, index, value), ())})
        return [ref for ref in found if (ref.namespace, ref.name) > after][:limit]

    def page_by_index(
        self, kinds: Sequence[str], index: str, values: Collection[str], *, after: Ref | None = None, limit: int = 1000
    ) -> Sequence[Any]:
        found = sorted({ref for kind in kinds for value in values for ref in self._index.get((kind, index, value), ())})
        return [self.objects[ref] for ref in found if after is None or ref > after][:limit]

    def count_by_index(self, kind: str, index: str, value: str, *, after: tuple[str, str] = ("", "")) -> int:
        return sum((ref.namespace, ref.name) > after for ref in self._index.get((kind, index, value), ()))

    def selected(self, selections: Collection[Selection]) -> dict[Selection, Sequence[Any]]:
        found = {}
        for selection in selections:
            objects = self.list(selection.kind, namespace=selection.namespace)
            found[selection] = [obj for obj in objects if selection.labels.matches(obj.metadata.labels)]
        return {selection: objects for selection, objects in found.items() if objects}

    def owned(
        self, owners: Collection[str], *, keeping: Mapping[str, str] = NONE_KEEPS, limit: int
    ) -> dict[str, Sequence[Any]]:
        found: dict[str, list[Object]] = {}
        for kind in KINDS:
            for value in owners if any(index.name == OWNER for index in kind.indexes) else ():
                refs = self._index.get((kind.key, OWNER, value), ())
                found.setdefault(value, []).extend(self.objects[ref] for ref in refs)
        return {
            owner: by_deletion_turn(objects, kept_by=keeping.get(owner, ""))[:limit]
            for owner, objects in found.items()
            if objects
        }

    def reserved_capacity(
        self, *, within: timedelta, bindings: Collection[str] = (), totals: bool = True
    ) -> ReservedCapacity:
        at = self.now()
        counts: dict[tuple[str, str], int] = {}
        for row in self._rows.get(CapacityReservation, {}).values() if totals else ():
            if isinstance(row, CapacityReservation) and row.made_at is not None and row.made_at > at - within:
                counts[row.cluster, row.request] = counts.get((row.cluster, row.request), 0) + row.replicas
        summed = [(*key, count) for key, count in sorted(counts.items())]
        return ReservedCapacity(summed, self.rows(CapacityReservation, "binding", bindings), at, self._numbers.newest)

    def quota_use(self, namespaces: Collection[str]) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for namespace in sorted(set(namespaces)):
            for binding in self.list(RESOURCE_BINDING, namespace=namespace):
                sums = found.setdefault(namespace, {})
                for resource, number in use_of(binding).items():
                    sums[resource] = sums.get(resource, 0) + number
        return {namespace: sums for namespace, sums in found.items() if sums}

    def kinds_on_members(self) -> Collection[tuple[str, str, str]]:
        found = set()
        for work in self.list(WORK):
            for cluster in KINDS[WORK].index_values(work, "cluster"):
                found.add((cluster, work.manifest.get("apiVersion", ""), work.manifest.get("kind", "")))
        return found

    def works_of(self, key: tuple[str, str, str]) -> Sequence[Ref]:
        cluster, version, kind = key
        return [
            work.ref
            for work in self.list(WORK)
            if cluster in KINDS[WORK].index_values(work, "cluster")
            and (work.manifest.get("apiVersion", ""), work.manifest.get("kind", "")) == (version, kind)
        ]

    def changes(self, since: int, *, limit: int = 1000) -> Sequence[Change]:
        """Return the entries of the change log after the version `since`, in order."""
        return [change for change in self.log if change.version > since][:limit]

    # Writing

    def apply(
        self,
        decisions: Sequence[tuple[Claim | None, Decision]],
        *,
        by: Actor,
        lease: HeldLease | None = None,
        dry_run: bool = False,
        complete: Complete | None = None,
    ) -> Sequence[Outcome]:
        if lease is not None:
            self._leases.check(lease, now=self.now())
        made = [decision for _, decision in decisions]
        pairs = zip((claim for claim, _ in decisions), made if complete is None else complete(made), strict=True)
        return [self._apply_one(claim, decision, by, dry_run=dry_run) for claim, decision in pairs]

    def _guarded(self, ref: Ref) -> int | None:
        if ref.name == EVERY:
            return newest(self.list(ref.kind))
        found = self.objects.get(ref)
        return None if found is None else found.metadata.generation

    def _apply_one(self, claim: Claim | None, decision: Decision, by: Actor, *, dry_run: bool) -> Outcome:
        """Store one decision, or release its claim if it is lost."""
        if not (decision.changes or decision.guards or decision.events):
            if claim is not None and not dry_run:
                self._finish(claim, decision.wake_at)
            return _NOTHING_DONE
        if by.controller:
            self.router.check(by.name, decision)
        for change in decision.changes:
            if isinstance(change, Put):
                check_generation(change)
        for guard in decision.guards:
            if self._guarded(guard.ref) != guard.generation:
                return self._lost(claim, f"guard {guard.ref}", dry_run=dry_run)
        if decision.capacity_guards and (
            full := overcommitted_cluster(
                decision.capacity_guards,
                NewReservations(self._numbers.since(decision.capacity_guards, by=by.name)),
            )
        ):
            return self._lost(claim, f"room on cluster {full}", dry_run=dry_run)
        if full := self._without_room(decision):
            return self._lost(claim, f"room in the quotas of {full}", dry_run=dry_run)
        staged = stage(decision.changes, self.objects.get)
        if isinstance(staged, str):
            return self._lost(claim, staged, dry_run=dry_run)
        return self._commit(claim, decision, staged, by, dry_run=dry_run)

    def _without_room(self, decision: Decision) -> str:
        """Return the namespace whose quotas have no room for a decision any more; "": there is room."""
        namespaces = {guard.namespace for guard in decision.quota_guards}
        return QuotaUse(self.quota_use(namespaces)).exceeded(decision.quota_guards) if namespaces else ""

    def _lost(self, claim: Claim | None, why: str, *, dry_run: bool) -> Outcome:
        if claim is not None and not dry_run:
            self.release([claim])
        return Outcome(lost=why)

    def _commit(self, claim: Claim | None, decision: Decision, staged: Staged, by: Actor, *, dry_run: bool) -> Outcome:
        if dry_run:
            shown = [staged.objects.get(ref) if isinstance(ref, Ref) else None for ref in staged.results]
            states = tuple(result.new if isinstance(result, Write) else None for result in shown)
            return Outcome("", tuple(0 for _ in decision.changes), states)
        written = {ref: self._write(result, decision, by, claim) for ref, result in staged.objects.items()}
        versions: list[int] = []
        objects: list[Object | None] = []
        for change, result in zip(decision.changes, staged.results, strict=True):
            if isinstance(change, ROW_CHANGES):
                self._write_row(change, by, None if claim is None else claim.ref)
            version, stored = written[result] if isinstance(result, Ref) else (0, result)
            versions.append(version)
            objects.append(stored)
        for event in decision.events:
            self._record_event(event, by)
        for mark in next_looks(decision):
            self._mark(mark.controller, mark.ref, self.now() + mark.after)
        if claim is not None:
            self._finish(claim, decision.wake_at)
        return Outcome("", tuple(versions), () if by.controller else tuple(objects))

    def _write_row(self, change: Save | Drop, by: Actor, own: Ref | None) -> None:
        """Store or remove a row-native value, and mark what watches it."""
        rows = self._rows.setdefault(type(change.row), {})
        if isinstance(change, Save):
            rows[change.row.key] = self._numbers.stored(change.row, by=by.name) if change.row.NUMBERED else change.row
        elif change.row.made == getattr(rows.get(change.row.key), "made", None):
            rows.pop(change.row.key, None)
            self._numbers.dropped(change.row)
        for mark in self.router.row_marks(change, by=by, own=own):
            self._mark(mark.controller, mark.ref, self.now() + mark.after)

    def _write(
        self, result: Write | Remove, decision: Decision, by: Actor, claim: Claim | None
    ) -> tuple[int, Object | None]:
        subject = result.new if isinstance(result, Write) else result.old
        old = self.objects.get(subject.ref)
        if old is None and isinstance(result, Remove):
            return 0, None  # the same decision has created it
        self.version += 1
        stored = replace(subject, metadata=replace(subject.metadata, resource_version=str(self.version)))
        if isinstance(result, Write):
            self._insert(stored, fresh=old is None)
        elif old is not None:
            self._remove(old)
        self._log_change(old, stored, removed=isinstance(result, Remove), decision=decision, by=by)
        new = stored if isinstance(result, Write) else None
        merged = isinstance(result, Write) and result.merged
        own = None if claim is None else claim.ref
        for mark in self.router.marks(old, new, by=by, own=own, merged=merged, followed=decision.followed):
            self._mark(mark.controller, mark.ref, self.now() + mark.after)
        return self.version, new

    def _log_change(self, old: Object | None, stored: Object, *, removed: bool, decision: Decision, by: Actor) -> None:
        type_ = "DELETED" if removed else "ADDED" if old is None else "MODIFIED"
        ref, text = stored.ref, text_of(stored)
        before = self._texts.pop(ref, None)
        if not removed:
            self._texts[ref] = text
        actor, reason = author(decision, ref, by=by.name)
        self.log.append(Change(self.version, type_, ref, text, before, actor, reason, decision.cause, self.now()))

    def _record_event(self, event: Event, by: Actor) -> None:
        reporter = event.by or by.name
        ref = event_ref(event, by=reporter)
        stored = counted(event, ref=ref, by=reporter, now=self.now(), old=self.objects.get(ref))
        self._write(Write(stored, False), Decision(reason=event.reason), replace(by, name=reporter), None)

    def _insert(self, obj: Object, *, fresh: bool) -> None:
        ref = obj.ref
        self.objects[ref] = obj
        self._listed.pop(ref.kind, None)
        if fresh:
            insort(self._of_kind.setdefault(ref.kind, []), ref)
        kind = KINDS.get(ref.kind)
        indexes = () if kind is None else kind.indexes
        self._reindex(ref, frozenset([(ref.kind, index.name, value) for index in indexes for value in index.keys(obj)]))

    def _remove(self, obj: Object) -> None:
        ref = obj.ref
        del self.objects[ref]
        self._listed.pop(ref.kind, None)
        of_kind = self._of_kind[ref.kind]
        del of_kind[bisect_left(of_kind, ref)]
        self._reindex(ref, frozenset())

    def _reindex(self, ref: Ref, entries: frozenset[tuple[str, str, str]]) -> None:
        known = self._entries.get(ref, frozenset())
        if entries == known:
            return
        for entry in known - entries:
            self._index[entry].discard(ref)
        for entry in entries - known:
            self._index.setdefault(entry, set()).add(ref)
        if entries:
            self._entries[ref] = entries
        else:
            del self._entries[ref]

    # Due rows

    def _mark(self, controller: str, ref: Ref, due_at: datetime | None) -> None:
        due = due_at or self.now()
        self.due_changed.add(controller)
        rows = self.due.setdefault(controller, {})
        old = rows.get(ref)
        self._seq += 1
        if old is None:
            rows[ref] = _Due(due, self._seq)
        else:
            # A fan-out starts again, because its finished chunks were decided before the change behind this mark.
            rows[ref] = _Due(min(old.due_at, due), self._seq, old.lease_until, "")

    def mark(self, controller: str, refs: Collection[Ref], *, due_at: datetime | None = None) -> None:
        for ref in refs:
            self._mark(controller, ref, due_at)

    def claim(self, controller: str, *, shard: int, shards: int, limit: int, lease_seconds: float) -> Claims:
        now = self.now()
        rows = self.due.get(controller, {})
        found = [
            (due.due_at, due.seq, ref)
            for ref, due in rows.items()
            if due.due_at <= now
            and (due.lease_until is None or due.lease_until <= now)
            and (shards == 1 or shard_of(ref, shards) == shard)
        ]
        found.sort()
        until = now + timedelta(seconds=lease_seconds)
        claims = []
        for due_at, seq, ref in found[:limit]:
            cursor = rows[ref].cursor
            rows[ref] = _Due(due_at, seq, until, cursor)
            claims.append(Claim(controller, ref, seq, cursor))
        return Claims(now, tuple(claims))

    def _finish(self, claim: Claim, wake_at: datetime | None) -> None:
        """Remove a due row or set it to `wake_at`. A row that was marked after the claim stays due."""
        self.due_changed.add(claim.controller)
        rows = self.due.get(claim.controller, {})
        if (due := rows.get(claim.ref)) is None:
            return
        if due.seq != claim.seq:
            rows[claim.ref] = replace(due, lease_until=None)
        elif wake_at is None:
            del rows[claim.ref]
        else:
            rows[claim.ref] = _Due(wake_at, due.seq)

    def release(self, claims: Sequence[Claim], *, due_at: datetime | None = None) -> None:
        for claim in claims:
            self.due_changed.add(claim.controller)
            rows = self.due.get(claim.controller, {})
            if (due := rows.get(claim.ref)) is not None:
                at = (due_at or self.now()) if due.seq == claim.seq else due.due_at
                rows[claim.ref] = replace(due, lease_until=None, due_at=at)

    def advance(self, claims: Sequence[Claim], refs: Collection[Ref], *, cursor: str | None) -> None:
        self.mark(claims[0].controller, refs)
        self.due_changed.add(claims[0].controller)
        rows = self.due.get(claims[0].controller, {})
        for claim in claims:
            if (due := rows.get(claim.ref)) is None:
                continue
            if due.seq != claim.seq:  # marked meanwhile: the finished chunks were decided before that change
                rows[claim.ref] = replace(due, lease_until=None, cursor="")
            elif cursor is not None:
                rows[claim.ref] = replace(due, lease_until=None, cursor=cursor)
            else:
                del rows[claim.ref]

    def next_due(self, controllers: Collection[str]) -> datetime | None:
        now = self.now()
        return min(
            (
                due.due_at if due.lease_until is None or due.lease_until <= now else max(due.lease_until, due.due_at)
                for name in controllers
                for due in self.due.get(name, {}).values()
            ),
            default=None,
        )

    # Leases

    def lease_held_until(self, name: str) -> datetime | None:
        return self._leases.held_until(name)

    def take_lease(self, name: str, shard: int, *, holder: str, seconds: float) -> HeldLease | None:
        return self._leases.take(name, shard, holder=holder, seconds=seconds, now=self.now())

    def drop_lease(self, lease: HeldLease, *, holder: str) -> None:
        self._leases.drop(lease, holder=holder, now=self.now())

    # For tests

    def create(self, *objects: Object) -> None:
        """Store objects as a user would. Raises AssertionError if one of them exists already."""
        outcomes = self.apply([(None, Decision(changes=(Put(obj, None),))) for obj in objects], by=Actor("test"))
        assert not any(outcome.lost for outcome in outcomes), [outcome.lost for outcome in outcomes]

    def put(self, new: Object, old: Object) -> Outcome:
        """Store a change of an object as a user would, and return its outcome."""
        return self.apply([(None, Decision(changes=(Put(new, old),)))], by=Actor("test"))[0]
