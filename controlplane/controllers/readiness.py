"""Readiness: keeps the stored answer for each binding, whether it would fail over (`insight.readiness`).

A binding is checked when it changes. All bindings are checked page by page when the digest of the fleet changes. An
answer that is the same as the stored one is not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Object, Ref, condition
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.controllers.reads.paging import remaining_kinds
from controlplane.controllers.reads.readiness_state import situation_of
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Save
from controlplane.engine.state import State, Unreadable, Watch
from controlplane.eviction.eligibility import finished_copies
from controlplane.eviction.purge import is_eviction
from controlplane.eviction.state_preservation import has_preservation_rules
from controlplane.insight.failure_outlook import FailureOutlook, Situation
from controlplane.insight.readiness import readiness
from controlplane.insight.readiness_row import FleetDigest, changed_row, failed_row, relevant_change, row_of
from controlplane.kinds import (
    BINDINGS,
    CLUSTER,
    CLUSTER_TAINT_POLICY,
    EVICTION_HOLD,
    FAILOVER_CONFIGURATION,
    MAINTENANCE_WINDOW,
)
from controlplane.kinds.binding import SCHEDULED, Binding
from controlplane.kinds.binding.affinity_index import group_keys
from controlplane.kinds.binding.colocation_index import application
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import BindingReadiness, ReadinessRound
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.settings import Settings

ROUND = "fleet"  # key of the row about the round
CHANGED_GROUPS = (
    "groups"  # key of the row with the time when a binding in a group of bindings last changed its clusters
)
GROUPS = Ref(FAILOVER_CONFIGURATION, "", "groups")  # stands for all bindings in groups
PAGE = 250  # bindings of a round that are checked at once
_STEERING = (CLUSTER_TAINT_POLICY, EVICTION_HOLD, MAINTENANCE_WINDOW)
_OF_THE_FLEET = (CLUSTER, *_STEERING)  # what the readiness of every binding rests on
STEP = timedelta(seconds=0.5)  # between two pages: a round leaves most of the time to other controllers
BUSY_STEP = timedelta(seconds=3)  # the same while evictions are due, which go first
PAUSE = timedelta(seconds=10)  # between two rounds, at least
AFTER_CHANGE = timedelta(seconds=5)  # a binding that changes often changes again within this time
AFTER_EVICTION = timedelta(seconds=15)  # the other copies of a lost cluster are evicted first


class ReadinessSnapshot(msgspec.Struct, frozen=True):
    """A binding with its stored answer, and the state of the fleet. All snapshots of a turn share `situation`."""

    subject: Binding
    stored: BindingReadiness | None
    situation: Situation


class RoundSnapshot(msgspec.Struct, frozen=True):
    """The round over all bindings, with the page that it checks next; empty if no round runs."""

    round: ReadinessRound
    groups_changed_at: datetime | None
    situation: Situation
    next_eviction: datetime | None = None  # due time of the first queued eviction; None: the queue is empty
    page: tuple[ReadinessSnapshot, ...] = ()
    unread: Mapping[Ref, Unreadable] = {}  # bindings of the page, and others, that cannot be read


class GroupsSnapshot(msgspec.Struct, frozen=True):
    """A binding in a group of bindings changed its clusters."""


def _binding_changed(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    """A binding is due when its spec or an annotation changed, the state that is to be preserved, or which copies have
    finished.

    A new binding is due once the scheduler has reported about it. A binding that was just evicted is due later.
    """
    if new is None or is_eviction(old, new) or (old is None and _awaits_scheduler(new)):
        return ()
    if old is not None and _awaits_scheduler(old) and not _awaits_scheduler(new):
        return (new.ref,)
    same = old is not None and old.spec == new.spec and old.metadata.annotations == new.metadata.annotations
    if same and old is not None and old.status.aggregated_status != new.status.aggregated_status:
        same = not has_preservation_rules(new) and finished_copies(old) == finished_copies(new)
    return () if same else (new.ref,)


def _binding_evicted(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    return (new.ref,) if new is not None and is_eviction(old, new) else ()


def _awaits_scheduler(binding: Binding) -> bool:
    """Test whether the scheduler has still to place a binding, or to report why it cannot."""
    spec = binding.spec
    if spec.clusters or spec.placement is None or spec.scheduling_suspended or spec.other_scheduler:
        return False
    reported = condition(binding.status.conditions, SCHEDULED) is not None
    return not reported and binding.metadata.deletion_timestamp is None


def _group_changed(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    """All bindings are due when a binding that others are placed with, or apart from, changed its clusters."""
    present = new or old
    if present is None or (old and new and old.spec.clusters == new.spec.clusters):
        return ()
    return (GROUPS,) if group_keys(present) or application(present) else ()


def _groups_noted(old: ReadinessRound | None, new: ReadinessRound | None) -> Iterable[Ref]:
    return (FLEET,) if new is not None and new.key == CHANGED_GROUPS else ()


def _cluster_changed(old: Cluster | None, new: Cluster | None) -> Iterable[Ref]:
    return (FLEET,) if relevant_change(old, new) else ()


def _spec_changed(old: Object | None, new: Object | None) -> Iterable[Ref]:
    return (FLEET,) if old is None or new is None or old.metadata.generation != new.metadata.generation else ()


class Readiness(Controller):
    """Key: a binding; the fleet, for the round over all bindings. Writes BindingReadiness and ReadinessRound."""

    name = "readiness"
    group = "propagation"
    keys = (*BINDINGS, FAILOVER_CONFIGURATION)
    watches = (
        *(Watch(kind, _binding_changed, after=AFTER_CHANGE) for kind in BINDINGS),
        *(Watch(kind, _binding_evicted, after=AFTER_EVICTION, bundled=True) for kind in BINDINGS),
        *(Watch(kind, _group_changed, after=PAUSE) for kind in BINDINGS),
        Watch("row/ReadinessRound", _groups_noted),
        Watch(CLUSTER, _cluster_changed, after=AFTER_CHANGE),
        *(Watch(kind, _spec_changed) for kind in _STEERING),
        Watch(FAILOVER_CONFIGURATION, lambda old, new: (FLEET,)),
    )
    owns = Ownership({}, rows=(BindingReadiness, ReadinessRound))
    due_at_start = (FLEET,)
    batch = PAGE

    def __init__(self) -> None:
        self._digest = FleetDigest()
        self._outlook: FailureOutlook | None = None  # of the present turn
        self._fleet: Fleet | None = None  # a cache: unchanged clusters are not read into arrays again

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Any]:
        """Return the snapshots. A round goes on without a binding that cannot be read, but not without clusters or
        policies."""
        try:
            return self._load(state, refs, {})
        except Unreadable:
            if list(refs) != [FLEET]:
                raise
            legible = state.legible()
            found = self._load(legible, refs, legible.unread)
            if any(ref.kind in _OF_THE_FLEET for ref in legible.unread):
                raise
            return found

    def _load(self, state: State, refs: Sequence[Ref], unread: Mapping[Ref, Unreadable]) -> Sequence[Any]:
        rounds: dict[str, ReadinessRound] = _rounds(state) if FLEET in refs else {}
        page: Sequence[Binding] = ()
        round_ = rounds.get(ROUND, ReadinessRound(ROUND))
        if round_.began_at is not None and round_.ended_at is None:
            page = _page(state, round_.after)
        bindings: dict[Ref, Binding] = {binding.ref: binding for binding in page}
        bindings |= state.get([ref for ref in refs if ref.kind in BINDINGS])
        stored = state.rows(BindingReadiness, "key", [str(ref) for ref in bindings]) if bindings else {}
        situation = situation_of(state, tuple(bindings.values()))
        found: dict[Ref, Any] = {
            ref: ReadinessSnapshot(binding, next(iter(stored.get(str(ref), ())), None), situation)
            for ref, binding in bindings.items()
        }
        changed_at = rounds[CHANGED_GROUPS].began_at if CHANGED_GROUPS in rounds else None
        due = state.next_eviction() if page else None
        checked = tuple(found[binding.ref] for binding in page)
        found[FLEET] = RoundSnapshot(round_, changed_at, situation, due, checked, unread)
        found[GROUPS] = GroupsSnapshot()
        return [found.get(ref) for ref in refs]

    def decide(self, snapshot: Any, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        if isinstance(snapshot, GroupsSnapshot):
            return Decision(changes=(Save(ReadinessRound(CHANGED_GROUPS, began_at=now)),), reason="Readiness")
        if isinstance(snapshot, RoundSnapshot):
            return self._decide_round(snapshot, settings, now=now)
        binding = snapshot.subject
        outlook = self._shared_outlook(snapshot.situation, settings, now=now)
        try:
            row = row_of(binding, readiness(binding, outlook, fleet_wide=False))
        except ValueError as error:  # the binding requests something that is not a quantity
            row = failed_row(binding, error)
        return _stored(row, snapshot.stored, now=now)

    def _decide_round(self, snapshot: RoundSnapshot, settings: Settings, *, now: datetime) -> Decision:
        """Return the answers for the page of a round that runs, or the beginning of a round if the fleet changed."""
        changed_at, stored = snapshot.groups_changed_at, snapshot.round
        digest = self._digest.digest(snapshot.situation, settings, groups_changed_at=changed_at, now=now)
        if stored.began_at is None or stored.ended_at is not None:
            return self._beginning(snapshot, digest, now=now)
        changes: list[Any] = []
        for one in snapshot.page:
            ref = one.subject.ref
            decided = snapshot.unread.get(ref) or self.decide_or_error(one, settings, now=now, answer=None)
            if isinstance(decided, Exception):
                decided = _stored(failed_row(one.subject, decided), one.stored, now=now)
            changes += decided.changes
        checked = stored.checked + len(snapshot.page)
        if len(snapshot.page) >= PAGE:
            row = replace(stored, after=str(snapshot.page[-1].subject.ref), checked=checked)
            is_busy = snapshot.next_eviction is not None and snapshot.next_eviction <= now
            step = BUSY_STEP if is_busy else STEP
            return Decision(changes=(*changes, Save(row)), wake_at=now + step, reason="Readiness")
        row = replace(stored, ended_at=now, after="", checked=checked, settled_at=stored.began_at)
        wake_at = now + PAUSE if digest != stored.digest else snapshot.situation.holds.next_change(now=now)
        return Decision(changes=(*changes, Save(row)), wake_at=wake_at, reason="Readiness")

    def _beginning(self, snapshot: RoundSnapshot, digest: str, *, now: datetime) -> Decision:
        """Return the decision that begins a round, or only when to look again.

        If the digest is as in the last round, that is when the next hold or window changes; else after PAUSE.
        """
        stored = snapshot.round
        if stored.began_at is not None and digest == stored.digest:
            return Decision(wake_at=snapshot.situation.holds.next_change(now=now))
        if stored.ended_at is not None and now < stored.ended_at + PAUSE:
            return Decision(wake_at=stored.ended_at + PAUSE)
        row = replace(stored, digest=digest, began_at=now, ended_at=None, after="", checked=0)
        return Decision(changes=(Save(row),), wake_at=now, reason="Readiness")

    def _shared_outlook(self, situation: Situation, settings: Settings, *, now: datetime) -> FailureOutlook:
        """Return the outlook of a turn. It looks at each cluster once and remembers the answers to equal questions."""
        known = self._outlook
        if known is None or known.situation is not situation or known.settings is not settings or known.now != now:
            fleet = self._fleet = Fleet.of(situation.clusters, settings=settings, previous=self._fleet)
            known = self._outlook = FailureOutlook(situation, settings, fleet=fleet, now=now)
        return known


def _stored(new: BindingReadiness, stored: BindingReadiness | None, *, now: datetime) -> Decision:
    row = changed_row(new, stored, now=now)
    return NOTHING if row is None else Decision(changes=(Save(row),), reason="Readiness")


def _rounds(state: State) -> dict[str, ReadinessRound]:
    """Return the stored rows about rounds, by key."""
    found: Mapping[str, Sequence[ReadinessRound]] = state.rows(ReadinessRound, "key", [ROUND, CHANGED_GROUPS])
    return {key: rows[0] for key, rows in found.items()}


def _page(state: State, after: str) -> tuple[Binding, ...]:
    """Return the next bindings of a round, in the order of their references."""
    found: list[Binding] = []
    for kind, begin in remaining_kinds(after):
        found += state.list(kind, after=begin, limit=max(1, PAGE - len(found)))
    return tuple(found[:PAGE])
