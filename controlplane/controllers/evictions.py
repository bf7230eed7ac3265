"""Evictions: evicts what is queued, at the rate of the fleet, once there is a place to go to [eviction-queue].

An eviction passes three steps: it is checked again whether it is still wanted, the scheduler finds a refuge in a dry
run, and a token is taken. Tokens come last, so that each token is spent on an eviction that happens. `ask` asks the
token buckets; without an answer nothing is evicted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.clusters import eviction_tier
from controlplane.clusters.taints import for_flapping
from controlplane.controllers.reads.fleet_state import (
    FLEET,
    FLEET_ROW,
    QUEUE_ROW,
    STOPS_KEPT,
    TIER_ROW,
    cluster_health_changed,
    failover_configuration,
    fleet_states,
    observations_of,
)
from controlplane.controllers.reads.queued_bindings import queued_bindings
from controlplane.engine.controller import Controller, Inquiry, Ownership
from controlplane.engine.decision import Decision, Drop, Event, Guard, Put, Save
from controlplane.engine.state import ReservedCapacity, State, Watch
from controlplane.eviction import eviction_plan, queue_stops, rate, tokens
from controlplane.eviction.capacity_digest import CapacityDigest, digest
from controlplane.eviction.holds import Holds
from controlplane.eviction.pending import with_eviction_pending
from controlplane.eviction.purge import in_one_edit
from controlplane.eviction.queue import ended_row
from controlplane.eviction.refuge import DryRunResult, Refuge, Reservation
from controlplane.eviction.scheduler_dry_run import SchedulerDryRun
from controlplane.kinds import BINDINGS, CLUSTER, EVICTION_HOLD, FAILOVER_CONFIGURATION, MAINTENANCE_WINDOW
from controlplane.kinds.binding import Binding
from controlplane.kinds.binding.origin import with_departures
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster
from controlplane.kinds.configuration import FailoverConfiguration
from controlplane.kinds.rows import (
    EVICTED,
    QUEUED,
    CapacityReservation,
    Eviction,
    FleetState,
    Observation,
    PlacementHint,
    Stop,
)
from controlplane.propagation.bindings import template_of
from controlplane.scheduling import reserved_refuge
from controlplane.scheduling.batch import may_depend_on_capacity
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import RESERVATION_EXPIRY
from controlplane.scheduling.question import Groups
from controlplane.scheduling.rehearsal import Rehearsal
from controlplane.settings import Settings

HEADS = 512  # queue rows that are read at once
MOST_HEADS = 2 * HEADS  # the same where a full bucket holds more tokens than that; all that are read can be evicted
IDLE_LOOK = timedelta(seconds=1)
HELD_LOOK = RESERVATION_EXPIRY  # held evictions are checked again after this time even if nothing has changed
STALE = "stale"  # stored instead of a digest: held evictions have to be checked again


def _row_queued(old: Eviction | None, new: Eviction | None) -> Iterable[Ref]:
    """The fleet is due when a queued row with a due time was written."""
    return (FLEET,) if new is not None and new.due_at is not None and new.state == QUEUED else ()


class EvictionsSnapshot(msgspec.Struct, frozen=True):
    """All that is needed to decide about the queue once.

    `held` None: nothing has changed since all held rows were checked.
    """

    subject: FailoverConfiguration
    fleet: FleetState
    clusters: tuple[Cluster, ...]
    heads: tuple[Eviction, ...]  # the first queued rows of each priority, due or not
    bindings: Mapping[Ref, Binding]
    rows: Mapping[str, Sequence[Eviction]]  # all rows of each binding, by reference as text
    held: tuple[Eviction, ...] | None  # the next page of held rows
    last_look: FleetState  # what was true when held rows were last checked, and the cursor of that check
    capacity: str  # digest of the clusters
    reserved_capacity: ReservedCapacity = ReservedCapacity()  # reserved, and not yet counted in any report
    holds: Holds = Holds()
    applications: Mapping[str, Sequence[Binding]] = {}  # by application: the bindings that are parts of it
    groups: Groups = {}  # the workload affinity groups of these bindings
    stops: tuple[Stop, ...] = ()  # times in which nothing was evicted
    plan: eviction_plan.EvictionPlan | None = None  # made by `ask`; None: `decide` makes it
    most: int = HEADS  # queue rows that were read at once, if there are so many
    observations: Mapping[str, Observation] = {}  # of the clusters of the first rows
    unread: Mapping[Ref, str] = {}  # by binding that cannot be read: why


class Evictions(Controller):
    """Key: the fleet. Writes bindings that are evicted, their rows and the capacity reserved for them."""

    name = "evictions"
    group = "failover"
    keys = (FAILOVER_CONFIGURATION,)
    watches = (
        Watch(CLUSTER, cluster_health_changed),
        Watch(FAILOVER_CONFIGURATION, lambda old, new: (FLEET,)),
        Watch(EVICTION_HOLD, lambda old, new: (FLEET,)),
        Watch(MAINTENANCE_WINDOW, lambda old, new: (FLEET,)),
        Watch("row/Eviction", _row_queued),
    )
    owns = Ownership(
        dict.fromkeys(
            BINDINGS,
            (
                *("spec.clusters", "spec.graceful_eviction_tasks", "metadata.annotations"),
                *("status.conditions", "status.pending_evictions"),
            ),
        ),
        rows=(Eviction, FleetState, PlacementHint, CapacityReservation),
    )
    due_at_start = (FLEET,)
    followed_by = ("scheduler", "graceful_eviction")

    def load_for(self, state: State, refs: Sequence[Ref], settings: Settings) -> Sequence[EvictionsSnapshot | None]:
        return self.load(state, refs, most=heads_at_once(settings))

    def load(self, state: State, refs: Sequence[Ref], *, most: int = HEADS) -> Sequence[EvictionsSnapshot | None]:
        """Return the snapshots. `most`: how many queue rows are read at once."""
        clusters = tuple(state.list(CLUSTER))
        fleet, tier, last_look = fleet_states(state, FLEET_ROW, TIER_ROW, QUEUE_ROW)
        capacity = self._capacity_digest.digest(clusters)
        check_held = last_look.cursor is not None or capacity != last_look.capacity.partition("/")[0]
        held = tuple(state.held_evictions(after=last_look.cursor, limit=HEADS)) if check_held else None
        heads = tuple(state.queue_heads(limit=most, per_cluster=last_look.scope == "Cluster"))
        names = sorted({row.binding for row in (*heads, *(held or ()))})
        flapping = {cluster.metadata.name: for_flapping(cluster) for cluster in clusters if cluster.flapping}
        holds = Holds(tuple(state.list(EVICTION_HOLD)), tuple(state.list(MAINTENANCE_WINDOW)), flapping)
        queued = queued_bindings(state, list(map(Ref.parse, names)), with_labels=holds.needs_labels())
        needs_capacity = any(may_depend_on_capacity(binding.spec) for binding in queued.bindings.values())
        snapshot = EvictionsSnapshot(
            subject=failover_configuration(state),
            fleet=fleet,
            stops=(*tier.stops, *last_look.stops),
            clusters=clusters,
            heads=heads,
            bindings=queued.bindings,
            unread=queued.unread,
            rows=state.rows(Eviction, "binding", names, known=[*heads, *(held or ())]),
            held=held,
            last_look=last_look,
            capacity=capacity,
            reserved_capacity=state.reserved_capacity(within=RESERVATION_EXPIRY, bindings=names)
            if needs_capacity
            else ReservedCapacity(),
            holds=replace(holds, labels=queued.labels),
            applications=queued.applications,
            groups=queued.groups,
            most=most,
            observations=observations_of(state, sorted({row.cluster for row in heads})),
        )
        return [snapshot if ref == FLEET else None for ref in refs]

    def __init__(self) -> None:
        # Caches only: unchanged clusters and settings are not encoded again.
        self._capacity_digest = CapacityDigest()
        self._fleet: Fleet | None = None
        self._settings_digest: tuple[Settings, str] | None = None

    def _cluster_arrays(self, snapshot: EvictionsSnapshot, settings: Settings) -> Fleet:
        fleet = self._fleet = Fleet.of(snapshot.clusters, settings=settings, previous=self._fleet)
        return fleet

    def _digest_of(self, settings: Settings) -> str:
        if self._settings_digest is None or self._settings_digest[0] is not settings:
            self._settings_digest = settings, digest([msgspec.json.encode(settings, order="sorted")])
        return self._settings_digest[1]

    def _plan(
        self, snapshot: EvictionsSnapshot, tier: eviction_tier.Tier, settings: Settings, *, now: datetime
    ) -> eviction_plan.EvictionPlan:
        return plan_of(snapshot, settings, tier, fleet=lambda: self._cluster_arrays(snapshot, settings), now=now)

    def ask(self, snapshots: Sequence[EvictionsSnapshot], settings: Settings, *, now: datetime) -> Inquiry:
        """Return how many tokens the evictions that could happen now need, and the plan that `decide` carries out.

        Some buckets are asked even if nothing waits (`tokens.buckets_to_ask`), and while the gate Failover is off.
        """
        if not snapshots:
            return Inquiry(snapshots)
        snapshot = snapshots[0]
        if not settings.gate("Failover"):
            buckets = tokens.buckets_to_ask(snapshot.heads, snapshot.clusters, 0.0, settings)
            return Inquiry(snapshots, tokens.question((), buckets, 0.0, settings))
        tier = tier_of(snapshot, settings, now=now)
        plan = self._plan(snapshot, tier, settings, now=now)
        buckets = tokens.buckets_to_ask(snapshot.heads, snapshot.clusters, tier.rate, settings)
        question = tokens.question(plan.moves, buckets, tier.rate, settings)
        return Inquiry([replace(snapshot, plan=plan), *snapshots[1:]], question)

    def decide(
        self, snapshot: EvictionsSnapshot, settings: Settings, *, now: datetime, answer: rate.Tokens | None = None
    ) -> Decision:
        if not settings.gate("Failover"):
            return _while_gate_is_off(snapshot, answer, now=now)
        tier = tier_of(snapshot, settings, now=now)
        plan = snapshot.plan or self._plan(snapshot, tier, settings, now=now)
        granted, short = tokens.granted(plan.moves, answer, settings)
        problem = answer.problem if answer is not None and snapshot.heads else ""
        unobserved, moves = () if plan.moves else plan.unobserved, bool(plan.moves)
        stops = queue_stops.stops_after(
            snapshot.last_look.stops, problem=problem, may_move=moves, unobserved=unobserved, now=now
        )[-STOPS_KEPT:]
        queue_state = _queue_state(snapshot, plan, settings, self._digest_of(settings), stops=stops, now=now)
        return Decision(
            changes=(
                *(Drop(row) for row in plan.dropped),
                *(Save(row) for row in plan.saved),
                *((Save(queue_state),) if queue_state != snapshot.last_look else ()),
            ),
            events=(*_held_events(snapshot, plan), *_token_problem_events(snapshot, plan, answer)),
            separate_decisions=_eviction_decisions(snapshot, granted, settings, now=now),
            wake_at=_wake_at(
                snapshot, plan, granted, queue_state=queue_state, short=short, answer=answer, tier=tier, now=now
            ),
            reason="Evictions",
        )


def heads_at_once(settings: Settings) -> int:
    """Return how many queue rows are read at once: the tokens of a full bucket, but from HEADS to MOST_HEADS."""
    return max(HEADS, min(MOST_HEADS, rate.capacity(settings.resource_eviction_rate)))


def _while_gate_is_off(snapshot: EvictionsSnapshot, answer: rate.Tokens | None, *, now: datetime) -> Decision:
    """Return the decision that drops what is queued, until nothing is [failover-gate].

    The buckets learn that their rate is 0, so that they do not fill meanwhile. If they cannot be reached, they are
    asked again.
    """
    unasked = now + IDLE_LOOK if answer is not None and answer.problem else None
    return Decision(
        changes=tuple(Drop(row) for row in snapshot.heads),
        wake_at=now if snapshot.heads else unasked,
        reason="GateFailoverOff",
    )


def tier_of(snapshot: EvictionsSnapshot, settings: Settings, *, now: datetime) -> eviction_tier.Tier:
    """Return the eviction tier that is in force now [eviction-tier]."""
    fleet = eviction_tier.fleet_health(snapshot.clusters, maintained=snapshot.holds.maintained(now=now))
    return eviction_tier.in_force(fleet, snapshot.fleet, settings)


def plan_of(
    snapshot: EvictionsSnapshot,
    settings: Settings,
    tier: eviction_tier.Tier,
    *,
    fleet: Callable[[], Fleet],
    now: datetime,
) -> eviction_plan.EvictionPlan:
    """Return which queued evictions may happen and which may not.

    `fleet` returns all clusters as arrays. It is called only if at least one eviction needs a dry run.
    """
    clocks_from = eviction_tier.clock_start(snapshot.fleet)
    if clocks_from is None:
        return eviction_plan.EvictionPlan()
    clusters = {cluster.metadata.name: cluster for cluster in snapshot.clusters}
    scope, most = settings.eviction.bucket_scope, min(snapshot.most, rate.capacity(tier.rate))
    taken_tokens = Counter[str]()  # tokens that planned evictions will take, by bucket
    dry_run = SchedulerDryRun(
        fleet,
        settings,
        reserved_capacity=snapshot.reserved_capacity,
        applications=snapshot.applications,
        groups=snapshot.groups,
        rehearses=True,
    )

    def tokens_for(cluster: str) -> int:
        return min(most - taken_tokens[rate.bucket_of(cluster, scope)], snapshot.most - taken_tokens.total())

    def place_without(binding: Binding, leaving: Collection[str]) -> DryRunResult:
        return dry_run.place_or_refuse(binding, leaving, now=now)

    def reserve(row: Eviction, binding: Binding, refuge: Refuge) -> Reservation:
        taken_tokens[rate.bucket_of(row.cluster, scope)] += 1
        return dry_run.reserve(binding, refuge, now=now)

    heads = snapshot.heads if tier.rate > 0 else ()
    about = (
        snapshot.bindings,
        snapshot.rows,
        clusters,
        clocks_from,
        snapshot.holds,
        snapshot.observations,
        snapshot.unread,
    )
    queue = eviction_plan.QueueHeads(heads, snapshot.held or (), *about)
    return eviction_plan.plan_evictions(
        queue, settings, tokens_for=tokens_for, dry_run=place_without, reserve=reserve, now=now
    )


def _eviction_decisions(
    snapshot: EvictionsSnapshot, moves: Sequence[eviction_plan.Move], settings: Settings, *, now: datetime
) -> tuple[Decision, ...]:
    """Return one decision for each binding, for all clusters that the binding leaves.

    The decisions are separate, so that a conflict on one binding loses the tokens of that binding only.
    """
    by_binding: dict[str, list[eviction_plan.Move]] = {}
    for move in moves:
        by_binding.setdefault(move.row.binding, []).append(move)
    unchanged = {one.metadata.name: Guard(one.ref, one.metadata.generation) for one in snapshot.clusters}
    no_new_hold = snapshot.holds.guards()

    def guards_of(moves: Sequence[eviction_plan.Move]) -> tuple[Guard, ...]:
        return (*(unchanged[move.row.cluster] for move in moves), *no_new_hold)

    return tuple(
        _eviction_decision(snapshot, name, moves_of_binding, guards_of(moves_of_binding), settings, now=now)
        for name, moves_of_binding in by_binding.items()
    )


def _eviction_decision(
    snapshot: EvictionsSnapshot,
    binding: str,
    moves: Sequence[eviction_plan.Move],
    guards: tuple[Guard, ...],
    settings: Settings,
    *,
    now: datetime,
) -> Decision:
    """Return the writes of all granted moves of a binding. `binding`: its reference as text.

    They are stored only if the clusters, with their taints, and all holds are still as they were read (`guards`), and
    if no user has given an order for the binding meanwhile. Orders are annotations of the binding.
    """
    after = old = snapshot.bindings[Ref.parse(binding)]
    events = list[Event]()
    last, before = moves[-1], [row for row in snapshot.reserved_capacity.own.get(binding, ()) if row.reserved]
    replaced_text = reserved_refuge.replaced_text(before, last.reserved.reservations)
    for move in moves:
        after = eviction_plan.binding_after_move(after, move, settings, stops=snapshot.stops, now=now)
        cause = f"{move.cause.key}:{move.cause.effect}"
        message = f"evicted from cluster {move.row.cluster} because of taint {cause}; {move.refuge.why}{replaced_text}"
        events += [Event(about, "EvictWorkloadFromClusterSucceed", message) for about in (old, template_of(old))]
    evicted_rows = {move.row.key: _evicted_row(move, now=now) for move in moves}
    rows = [evicted_rows.get(row.key, row) for row in snapshot.rows.get(binding, ())]
    # The condition EvictionPending is written with the eviction, so that no second write of the binding is needed.
    new = with_eviction_pending(with_departures(in_one_edit(old, after), old, now=now), rows, now=now)
    return Decision(
        changes=(
            Put(new, old, upon=("annotations",)),
            *map(Save, evicted_rows.values()),
            *reserved_refuge.replaced(before, last.reserved.reservations),
            *reserved_refuge.hinted(new, last.refuge.clusters, again=bool(before)),
        ),
        events=tuple(events),
        guards=guards,
        capacity_guards=last.reserved.capacity_guards,
        reason="Evictions",
        found=_rehearsal(moves, old),
    )


def _rehearsal(moves: Sequence[eviction_plan.Move], old: Binding) -> Rehearsal | None:
    """Return the rehearsal of the last move of a binding; None: it left out a cluster that the binding does not leave
    now."""
    found = moves[-1].refuge.rehearsal
    if found is None or found.left != {move.row.cluster for move in moves}:
        return None
    return replace(found, binding=old)


def _evicted_row(move: eviction_plan.Move, *, now: datetime) -> Eviction:
    """Return the queue row of an eviction that happens now, in its final state."""
    because = f"taint {move.cause.key}:{move.cause.effect}; {move.refuge.why}"
    return ended_row(move.row, move.cause.key, because, now=now, state=EVICTED)


def _queue_state(
    snapshot: EvictionsSnapshot,
    plan: eviction_plan.EvictionPlan,
    settings: Settings,
    settings_digest: str,
    *,
    stops: tuple[Stop, ...],
    now: datetime,
) -> FleetState:
    """Return the row that is stored about this look at the queue.

    It holds the `bucket_scope` that the queue is to be read by, the times without tokens, and how far held evictions
    have been checked: digests of what was true when the check began, and a cursor. While evictions wait for
    observations, the queue is read by cluster, so that they do not hide those of other clusters.

    `load` reads held evictions only if clusters have changed. Any other change that may end a hold is stored here as
    STALE, so that the next `load` reads them: a hold or window that begins or ends, a cluster that starts or stops
    flapping, another setting, or that HELD_LOOK has passed. The last one is needed because reserved capacity that is
    never used expires without a change. `settings_digest`: a digest of the settings.
    """
    scope = "Cluster" if plan.unobserved else settings.eviction.bucket_scope
    last_look = replace(snapshot.last_look, scope=scope, stops=stops)
    period = now.timestamp() // HELD_LOOK.total_seconds()
    capacity = f"{snapshot.capacity}/{settings_digest}/{period:.0f}"
    true_now = replace(last_look, capacity=capacity, holds=snapshot.holds.digest(now=now), cursor=None)
    if snapshot.held is None:
        return last_look if last_look == true_now else replace(last_look, capacity=STALE)
    if eviction_tier.clock_start(snapshot.fleet) is None:
        return last_look  # the gate is off: nothing was checked
    begun = true_now if last_look.cursor is None else last_look
    last = snapshot.held[-1] if len(snapshot.held) == HEADS else None
    return replace(begun, cursor=None if last is None else (last.priority, last.due_at, last.key))


def _held_events(snapshot: EvictionsSnapshot, plan: eviction_plan.EvictionPlan) -> Iterable[Event]:
    for row in plan.held:
        binding = snapshot.bindings[Ref.parse(row.binding)]
        for about in (binding, template_of(binding)):
            yield Event(about, "EvictionHeld", f"stays on cluster {row.cluster}: {row.message}", warning=True)


def _token_problem_events(
    snapshot: EvictionsSnapshot, plan: eviction_plan.EvictionPlan, answer: rate.Tokens | None
) -> Iterable[Event]:
    if plan.moves and answer is not None and answer.problem:
        message = f"no evictions take place: no tokens, {': '.join(filter(None, (answer.problem, answer.detail)))}"
        yield Event(snapshot.subject, "EvictionTokensUnavailable", message, warning=True)


def _wake_at(
    snapshot: EvictionsSnapshot,
    plan: eviction_plan.EvictionPlan,
    granted: Sequence[eviction_plan.Move],
    *,
    queue_state: FleetState,
    short: bool,
    answer: rate.Tokens | None,
    tier: eviction_tier.Tier,
    now: datetime,
) -> datetime | None:
    """Return when to look at the queue again: at the next token, due row, or change of a hold.

    While anything is queued or a cluster carries an evicting taint, this is at most IDLE_LOOK from now. None: nothing
    is queued and no cluster carries such a taint.
    """
    last_look = snapshot.last_look
    unchecked = queue_state != last_look and (
        queue_state.cursor is not None or queue_state.capacity == STALE or queue_state.scope != last_look.scope
    )
    wakes = [now] if plan.saved or plan.dropped or unchecked else list[datetime]()
    if any(cluster.has_taint(*EVICTING_EFFECTS) for cluster in snapshot.clusters) or snapshot.heads:
        wakes.append(now + IDLE_LOOK)
    if tier.rate > 0:
        wakes += [row.due_at for row in snapshot.heads if row.due_at is not None and row.due_at > now]
        wait = -1.0 if answer is None or answer.problem else answer.next_in
        more = short or not plan.exhausted or _has_unread_rows(snapshot, now=now)
        if more and wait >= 0 and (plan.moves or not plan.unobserved):
            wakes.append(now + max(rate.retry_delay(wait), timedelta(0) if granted else rate.SHORTEST_PAUSE))
    if (change := snapshot.holds.next_change(now=now)) is not None:
        wakes.append(change)
    return min(wakes, default=None)


def _has_unread_rows(snapshot: EvictionsSnapshot, *, now: datetime) -> bool:
    """Test whether `load` may have left due rows in the queue: a priority had as many rows as are read at once."""
    per_cluster = snapshot.last_look.scope == "Cluster"
    due = [row for row in snapshot.heads if row.due_at is not None and row.due_at <= now]
    counts = Counter((row.cluster if per_cluster else "", row.priority) for row in due)
    share = snapshot.most // max(1, len({row.cluster for row in snapshot.heads})) if per_cluster else snapshot.most
    return any(count >= max(1, share) for count in counts.values())
