"""Scheduler: puts every binding where its placement wants it, says why where it cannot (semantics 3, D18, D19)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref, condition
from controlplane.controllers.reads.applications import applications, workload_groups
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, CapacityGuard, Decision, Drop, Event, Put, Save
from controlplane.engine.state import ReservedCapacity, State, Watch
from controlplane.kinds import BINDINGS, CLUSTER
from controlplane.kinds.binding import SCHEDULED, TAINT_UNTOLERATED, Binding, TargetCluster
from controlplane.kinds.binding.affinity_index import affine_values, follows, may_choose, pending
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import CapacityReservation, FleetNames, PlacementHint, PlacementNote, Row
from controlplane.propagation.bindings import template_of
from controlplane.scheduling import binding_outcome, explanation_text
from controlplane.scheduling.batch import Batch, Item, growth, needs_no_room
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.colocation import Applications
from controlplane.scheduling.ledger import RESERVATION_EXPIRY, live
from controlplane.scheduling.note import Notes, detail_of, summary_of
from controlplane.scheduling.placement_plan import REFUSING
from controlplane.scheduling.question import Groups, Question
from controlplane.scheduling.reserved_refuge import Reserved
from controlplane.scheduling.schedule import UNSCHEDULABLE, Placed, Refused, Verdict
from controlplane.scheduling.trigger import RESCHEDULE_ASKED, needs_scheduling
from controlplane.scheduling.workload_affinity import WorkloadGroups
from controlplane.settings import Settings

LOOK_AGAIN: Final = timedelta(minutes=5)
"""A binding without room waits for a cluster to change, but no longer than this (semantics 3.1)."""
FIRST_RETRY, LAST_RETRY = timedelta(seconds=1), timedelta(seconds=10)

ROOM: Final = "Room"
"""Kind of a fan-out origin: a cluster whose free room changed, which concerns waiting bindings only."""
CLOSED: Final = "Closed"
"""Kind of a fan-out origin: a cluster that only got taints which keep newcomers away. What is placed stays placed."""


class Placing(msgspec.Struct, frozen=True):
    """A binding with the clusters, what is promised on them, and where its groups and the other parts of its
    application are. All bindings of a batch share `clusters`, `promised`, `groups` and `applications`."""

    subject: Binding
    clusters: tuple[Cluster, ...]
    reserved_capacity: ReservedCapacity
    groups: Groups
    applications: Mapping[str, Sequence[Binding]]  # the bindings of those that are parts of some
    note: PlacementNote | None = None  # of the last decision
    hint: PlacementHint | None = None  # what an eviction's dry run found


def _binding(old: Binding | None, new: Binding | None) -> Iterator[Ref]:
    if new is not None and (old is None or old.metadata.generation != new.metadata.generation):
        yield new.ref


def _cluster(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    """A cluster that comes, goes, or is another one to placements concerns bindings; more room only waiting ones."""
    present = new if new is not None else old
    assert present is not None, "a change has an old or a new side"
    if old is None or new is None or _seen(old) != _seen(new):
        only_closed = old is not None and new is not None and _closed(old, new)
        yield Ref(CLOSED, "", present.metadata.name) if only_closed else present.ref
    elif old.status.resource_summary != new.status.resource_summary:
        yield Ref(ROOM, "", new.metadata.name)


def _seen(cluster: Cluster) -> tuple[Any, ...]:
    metadata = cluster.metadata
    return metadata.generation, metadata.labels, metadata.deletion_timestamp, cluster.status.api_enablements


def _closed(old: Cluster, new: Cluster) -> bool:
    """Test whether all that changed of a cluster is that it has more taints which refuse newcomers."""
    before, after = ({(one.key, one.value, one.effect) for one in side.spec.taints} for side in (old, new))
    if not before <= after or any(effect not in REFUSING for _, _, effect in after - before):
        return False
    return _seen(old)[1:] == _seen(new)[1:] and replace(old.spec, taints=()) == replace(new.spec, taints=())


class Scheduler(Controller):
    """Key: a binding. Writes where it goes; reads all clusters."""

    name: ClassVar[str] = "scheduler"
    group: ClassVar[str] = "scheduling"
    keys: ClassVar[tuple[str, ...]] = BINDINGS
    watches: ClassVar[tuple[Watch, ...]] = (
        *(Watch(kind, _binding) for kind in BINDINGS),
        Watch(CLUSTER, _cluster, fan_out=True),
    )
    owns: ClassVar[Ownership] = Ownership(
        dict.fromkeys(
            BINDINGS,
            (
                "spec.clusters",
                "metadata.annotations",
                "status.conditions",
                "status.scheduler_observed_generation",
                "status.scheduler_observed_affinity_name",
                "status.last_scheduled_time",
            ),
        ),
        rows=(CapacityReservation, PlacementHint, PlacementNote, FleetNames),
    )
    batch: ClassVar[int] = 1000  # every batch reads all clusters and all that is promised

    def __init__(self) -> None:
        self._fleet: Fleet | None = None  # only spares reading unchanged clusters again

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Placing | None]:
        # Before the bindings: who is given back what an eviction reserved was read as that eviction left it.
        reserved_capacity = state.reserved_capacity(within=RESERVATION_EXPIRY, bindings=[str(ref) for ref in refs])
        found: dict[Ref, Binding] = state.get(refs)
        clusters = tuple(state.list(CLUSTER))
        groups = workload_groups(state, found.values())
        parts = applications(state, found.values())
        notes, hints = _by_key(state, PlacementNote, found), _by_key(state, PlacementHint, found)
        return [
            Placing(
                found[ref],
                clusters,
                reserved_capacity,
                groups,
                parts,
                notes.get(str(ref)),
                hints.get(str(ref)),
            )
            if ref in found
            else None
            for ref in refs
        ]

    def decide(self, snapshot: Placing, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        decided = self.decide_all([snapshot], settings, now=now)[0]
        if isinstance(decided, Exception):
            raise decided
        return decided

    def decide_all(
        self, snapshots: Sequence[Placing], settings: Settings, *, now: datetime, answer: Any = None
    ) -> list[Decision | Exception]:
        """Decide by priority, then in the order given: each result takes its room before the next is sought."""
        if not snapshots:
            return []
        first = snapshots[0]
        fleet = self._fleet = Fleet.of(first.clusters, settings=settings, previous=self._fleet)
        round_ = _Round(fleet, first, settings, now)
        decisions: list[Decision | Exception] = [NOTHING] * len(snapshots)
        for place in sorted(range(len(snapshots)), key=lambda place: -snapshots[place].subject.spec.priority):
            try:
                decisions[place] = round_.decide(snapshots[place])
            except Exception as error:  # noqa: BLE001  # one binding's fault stays with that binding
                decisions[place] = error
        return decisions

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return the bindings a changed cluster concerns: those it may be chosen by where they follow clusters or
        wait, and those placed on it."""
        found = state.get([Ref(CLUSTER, "", origin.name)])
        cluster: Cluster | None = next(iter(found.values()), None)
        index = "pending" if origin.kind == ROOM else "affine"
        values = affine_values(cluster) if cluster is not None else [f"on:{origin.name}"]
        bindings: Sequence[Binding] = state.page_by_index(
            BINDINGS, index, values, after=Ref.parse(after) if after else None, limit=limit
        )
        closed = origin.kind == CLOSED
        concerned = [one.ref for one in bindings if concerns(cluster, origin.name, one, closed=closed)]
        return concerned, str(bindings[-1].ref) if len(bindings) >= limit else None


def concerns(cluster: Cluster | None, name: str, binding: Binding, *, closed: bool = False) -> bool:
    """Test whether a change of a cluster may change where a binding goes. None: the cluster is gone.

    `closed`: it only takes fewer newcomers now. That ends no place, and makes one only where groups of clusters are
    compared, each by all that is in it; and it is told to whoever waits.
    """
    if closed and not (pending(binding) or _compares_groups(binding)):
        return False
    if binding.spec.target(name) is not None:
        return cluster is None or cluster.terminating or follows(binding) or pending(binding)
    if cluster is None or not (follows(binding) or pending(binding)):
        return False
    return may_choose(binding, cluster)


def _compares_groups(binding: Binding) -> bool:
    placement = binding.spec.placement
    return placement is not None and any(one.spread_by_field != "cluster" for one in placement.spread_constraints)


def _by_key(state: State, type_: type[Row], refs: Iterable[Ref]) -> dict[str, Any]:
    """Return rows that are kept under bindings' references."""
    return {row.key: row for rows in state.rows(type_, "key", [str(ref) for ref in refs]).values() for row in rows}


class _Round:
    """Decides the bindings of one batch one after the other; what one takes, the next one misses."""

    def __init__(self, fleet: Fleet, shared: Placing, settings: Settings, now: datetime) -> None:
        self.fleet = fleet
        self.settings = settings
        self.now = now
        self.ledger = binding_outcome.ledger(fleet, shared.reserved_capacity.totals)
        self.reserved_capacity = shared.reserved_capacity
        self.batch = Batch(fleet, self.ledger, settings)
        self.notes = Notes(fleet)
        self.groups = WorkloadGroups(shared.groups)
        self.applications = Applications(shared.applications, settings)

    def decide(self, snapshot: Placing) -> Decision:
        binding = snapshot.subject
        spec = binding.spec
        if spec.placement is None or spec.scheduling_suspended or binding.metadata.deletion_timestamp is not None:
            return NOTHING
        if spec.other_scheduler:
            return NOTHING
        reason = needs_scheduling(binding, self.fleet)
        if reason is None:
            rows = _settled(snapshot, self._reserved(snapshot), spec.clusters, binding)
            changes = _written(binding_outcome.caught_up(binding), binding, rows)
            return Decision(changes=changes, reason="ResultStands") if changes else NOTHING
        known = {one.cluster: one for one in self._live(snapshot) if not one.reserved}
        reserved = self._reserved(snapshot)
        binding_outcome.give_back(self.ledger, self.fleet, reserved.reservations)
        item = Item(
            binding.spec,
            binding.status,
            self.groups.seen_by(binding),
            self.applications.seen_by(binding, now=self.now),
            {name: row.replicas for name, row in known.items()},
            reserved.targets,
        )
        question, verdict = self.batch.place(item)
        if isinstance(verdict.outcome, Refused):
            return self._refused(snapshot, verdict, verdict.outcome, reason)
        outcome = verdict.outcome
        self._joined(binding, outcome)
        new = binding_outcome.placed(binding, outcome, asked_again=reason == RESCHEDULE_ASKED, now=self.now)
        wanted = growth(question, outcome.clusters, item.uncounted) if question.workload else {}
        rooms = self._rooms(question, [name for name, count in wanted.items() if count > item.uncounted.get(name, 0)])
        rows = tuple(binding_outcome.capacity_reservations(binding, wanted, known, asked=question.asked, now=self.now))
        binding_outcome.give_back(self.ledger, self.fleet, reserved.rest(outcome.clusters), times=-1)
        rows += _settled(snapshot, reserved, outcome.clusters, new)
        wake_at = self.applications.look_again_at(binding, now=self.now)
        if new is binding:
            changes = _written(binding, binding, rows)
            if not rows and wake_at is None:
                return NOTHING
            return Decision(changes=changes, capacity_guards=rooms, wake_at=wake_at, reason=reason)
        events = _told_replaced(binding, reserved.replaced(outcome.clusters, verdict.explanation))
        if _tells(binding, new):
            events = (*_succeeded(binding, outcome), *events)
        changes = _written(new, binding, (*rows, *self._noted(snapshot, verdict, reason)))
        return Decision(
            changes=changes, events=events, capacity_guards=rooms, wake_at=wake_at, reason=f"Scheduled: {reason}"
        )

    def _rooms(self, question: Question, grown: Sequence[str]) -> tuple[CapacityGuard, ...]:
        """Return the room that a result rests on, which has just been taken on the clusters where it has grown."""
        if not grown or needs_no_room(question):
            return ()
        return self.ledger.capacity_guards(self.fleet.places(grown), question.asked, seen=self.reserved_capacity.seen)

    def _live(self, snapshot: Placing) -> Sequence[CapacityReservation]:
        """Return the binding's own promises and reservations that have not expired."""
        return live(_own(snapshot), collected_at={}, now=self.reserved_capacity.at or self.now)

    def _reserved(self, snapshot: Placing) -> Reserved:
        """Return what evictions reserved for the binding."""
        return Reserved(snapshot.subject, snapshot.hint, [one for one in self._live(snapshot) if one.reserved])

    def _noted(self, snapshot: Placing, verdict: Verdict, trigger: str) -> tuple[Save, ...]:
        """Keep why, beside a decision that changes something."""
        note = self.notes.note(snapshot.subject, verdict, trigger=trigger, before=snapshot.note, now=self.now)
        return Save(note), Save(self.notes.names)

    def _refused(self, snapshot: Placing, verdict: Verdict, outcome: Refused, trigger: str) -> Decision:
        """Keep what is there, say why, and look again when a cluster changes or after a while."""
        binding = snapshot.subject
        seen = explanation_text.Part(
            summary_of(verdict, trigger=trigger, now=self.now), detail_of(verdict), self.fleet.names
        )
        outcome = replace(
            outcome, message=explanation_text.message(outcome.message, explanation_text.accounts(seen, {}))
        )
        part = self._part(binding, outcome)
        new = binding_outcome.refused(binding, outcome, part=part, now=self.now)
        failed = Event(binding, "ScheduleBindingFailed", outcome.message, warning=True)
        events = (failed,) if _tells(binding, new) else ()
        wake_at = self.now + self._patience(new, outcome) if outcome.retry else None
        rows = tuple(Drop(one) for one in _own(snapshot) if one.reserved)
        if new is binding:
            return Decision(changes=_written(binding, binding, rows), wake_at=wake_at)
        changes = _written(new, binding, (*rows, *self._noted(snapshot, verdict, trigger)))
        return Decision(changes=changes, events=events, wake_at=wake_at, reason=outcome.reason)

    def _part(self, binding: Binding, outcome: Refused) -> tuple[TargetCluster, ...] | None:
        """Return the part that fits where replicas lost to an unreachable cluster shall not wait for the rest (D10)."""
        if outcome.part is None or not self.settings.eviction.partial_refuge:
            return None
        lost = [
            task.from_cluster
            for task in binding.spec.graceful_eviction_tasks
            if task.reason == TAINT_UNTOLERATED and not self._ready(task.from_cluster)
        ]
        gained = sum(one.replicas for one in outcome.part) > sum(one.replicas for one in binding.spec.clusters)
        return outcome.part if lost and gained else None

    def _ready(self, name: str) -> bool:
        place = self.fleet.index.get(name)
        return place is not None and self.fleet.clusters[place].ready == "True"

    def _patience(self, binding: Binding, outcome: Refused) -> timedelta:
        """Return how long to wait: for room 5 minutes; after an error as long as it lasts already, from 1 s to 10 s."""
        if outcome.reason == UNSCHEDULABLE:
            return LOOK_AGAIN
        said = condition(binding.status.conditions, SCHEDULED)
        since = said.last_transition_time if said is not None else None
        return FIRST_RETRY if since is None else min(max(self.now - since, FIRST_RETRY), LAST_RETRY)

    def _joined(self, binding: Binding, outcome: Placed) -> None:
        """Let the next bindings of the batch know where this one's groups and its application are now."""
        self.applications.placed(binding, outcome.clusters)
        self.groups.placed(binding, outcome.clusters)


def _settled(
    snapshot: Placing, reserved: Reserved, result: Sequence[TargetCluster], new: Binding
) -> tuple[Save | Drop, ...]:
    """Return what becomes of a binding's reservations and of its hint. Both stay as far as copies of the binding are
    still to be evicted; what the result uses, and what is of no use any more, is dropped."""
    rest = {one.key: one for one in reserved.rest(result)}
    rows: list[Save | Drop] = [
        Save(rest[one.key]) if one.key in rest else Drop(one)
        for one in _own(snapshot)
        if one.reserved and rest.get(one.key) != one
    ]
    if snapshot.hint is not None:
        kept = replace(snapshot.hint, generation=new.metadata.generation)
        rows += [Drop(snapshot.hint)] if not rest else [Save(kept)] if kept != snapshot.hint else []
    return tuple(rows)


def _own(snapshot: Placing) -> Sequence[CapacityReservation]:
    """Return the binding's own promises."""
    return snapshot.reserved_capacity.own.get(str(snapshot.subject.ref), ())


def _written(new: Binding, old: Binding, rows: tuple[Save | Drop, ...]) -> tuple[Put | Save | Drop, ...]:
    """Return the writes of a decision. Its rows rest on the spec it was made from: an eviction stored meanwhile keeps
    what it reserved, and the binding is decided anew."""
    if not rows:
        return () if new is old else (Put(new, old),)
    return (Put(new, old, upon=("spec",)), *rows)


def _tells(old: Binding, new: Binding) -> bool:
    """Test whether an Event is worth it: targets moved, or the condition says something else."""
    before, after = (condition(one.status.conditions, SCHEDULED) for one in (old, new))
    return old.spec.clusters != new.spec.clusters or before != after


def _told_replaced(binding: Binding, message: str) -> tuple[Event, ...]:
    """Return the Events that say where a binding went instead of the refuge that its eviction had named."""
    abouts = (binding, template_of(binding)) if message else ()
    return tuple(Event(about, "EvictionRefugeReplaced", message) for about in abouts)


def _succeeded(binding: Binding, outcome: Placed) -> tuple[Event, ...]:
    named = ", ".join(f"{one.name}:{one.replicas}" if one.replicas else one.name for one in outcome.clusters)
    message = f"Binding has been scheduled successfully. Result: {{{named}}}"
    reason = "ScheduleBindingSucceed"
    return Event(binding, reason, message), Event(template_of(binding), reason, message, step=True)
