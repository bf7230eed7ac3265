"""Evictions: takes from the queue what may move, at the fleet's rate, once it has somewhere to go (D6-D10, D17).

Order of things: re-check, refuge, then the token, so that tokens are spent only on evictions that happen. Tokens are
the answer of the world to `ask`; without an answer nothing moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.clusters import health
from controlplane.clusters.taints import for_flapping
from controlplane.controllers.reads.applications import applications, workload_groups
from controlplane.controllers.reads.fleet_state import (
    FLEET,
    FLEET_ROW,
    QUEUE_ROW,
    STOPS_KEPT,
    TIER_ROW,
    cluster_health_changed,
    failover_configuration,
    fleet_states,
)
from controlplane.controllers.reads.workload_labels import workload_labels
from controlplane.engine.controller import Controller, Inquiry, Ownership
from controlplane.engine.decision import Decision, Drop, Event, Guard, Put, Save
from controlplane.engine.state import ReservedCapacity, State, Watch
from controlplane.eviction import eviction_plan, rate
from controlplane.eviction.capacity_digest import CapacityDigest, digest
from controlplane.eviction.holds import Holds
from controlplane.eviction.pending import with_eviction_pending
from controlplane.eviction.queue import ended_row
from controlplane.eviction.refuge import DryRunResult, Refuge, Reservation
from controlplane.eviction.scheduler_dry_run import SchedulerDryRun
from controlplane.kinds import BINDINGS, CLUSTER, EVICTION_HOLD, FAILOVER_CONFIGURATION, MAINTENANCE_WINDOW
from controlplane.kinds.binding import Binding
from controlplane.kinds.binding.origin import departed
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster
from controlplane.kinds.configuration import FailoverConfiguration
from controlplane.kinds.rows import (
    EVICTED,
    QUEUED,
    Eviction,
    FleetState,
    PlacementHint,
    Promise,
    Stop,
)
from controlplane.propagation.bindings import template_of
from controlplane.scheduling.batch import may_need_room
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import PROMISE_ENDS_AFTER
from controlplane.scheduling.question import Groups
from controlplane.settings import Settings

HEADS = 512
MOST_AT_ONCE = 400  # one decision writes a binding and two Events for each
IDLE_LOOK = timedelta(seconds=1)
HELD_LOOK = PROMISE_ENDS_AFTER  # after which held evictions are looked at again though nothing has changed
STALE = "stale"  # instead of a digest: what is held for it has to be looked at again


def _row_changed(old: Eviction | None, new: Eviction | None) -> Iterable[Ref]:
    return (FLEET,) if new is not None and new.due_at is not None and new.state == QUEUED else ()


class EvictionsSnapshot(msgspec.Struct, frozen=True):
    """All that one look at the queue needs. `heads`: the first rows per priority, due or not. `looked`: what was true
    when held rows were last looked at, and how far that has come; `held`: the next page of them, None where nothing
    has changed since all of them were looked at."""

    subject: FailoverConfiguration
    fleet: FleetState
    clusters: tuple[Cluster, ...]
    heads: tuple[Eviction, ...]
    bindings: dict[Ref, Binding]
    rows: Mapping[str, Sequence[Eviction]]
    held: tuple[Eviction, ...] | None
    looked: FleetState
    capacity: str
    promised: ReservedCapacity = ReservedCapacity()  # what no report counts yet
    holds: Holds = Holds()
    applications: Mapping[str, Sequence[Binding]] = {}  # the parts of those that these bindings are parts of
    groups: Groups = {}  # the workload affinity groups these bindings are in
    stops: tuple[Stop, ...] = ()  # when nothing was evicted
    plan: eviction_plan.EvictionPlan | None = None  # made by `ask`; None: `decide` makes it


class Evictions(Controller):
    name = "evictions"
    group = "failover"
    keys = (FAILOVER_CONFIGURATION,)
    watches = (
        Watch(CLUSTER, cluster_health_changed),
        Watch(FAILOVER_CONFIGURATION, lambda old, new: (FLEET,)),
        Watch(EVICTION_HOLD, lambda old, new: (FLEET,)),
        Watch(MAINTENANCE_WINDOW, lambda old, new: (FLEET,)),
        Watch("row/Eviction", _row_changed),
    )
    owns = Ownership(
        dict.fromkeys(
            BINDINGS,
            (
                *("spec.clusters", "spec.graceful_eviction_tasks", "metadata.annotations"),
                *("status.conditions", "status.pending_evictions"),
            ),
        ),
        rows=(Eviction, FleetState, PlacementHint, Promise),
    )
    due_at_start = (FLEET,)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[EvictionsSnapshot | None]:
        clusters = tuple(state.list(CLUSTER))
        fleet, told, looked = fleet_states(state, FLEET_ROW, TIER_ROW, QUEUE_ROW)
        capacity = self._room.digest(clusters)
        moved = looked.cursor is not None or capacity != looked.capacity.partition("/")[0]
        held = tuple(state.held_evictions(after=looked.cursor, limit=HEADS)) if moved else None
        heads = tuple(state.queue_heads(limit=HEADS, per_cluster=looked.scope == "Cluster"))
        names = sorted({row.binding for row in (*heads, *(held or ()))})
        unsteady = {one.metadata.name: for_flapping(one) for one in clusters if one.flapping}
        holds = Holds(tuple(state.list(EVICTION_HOLD)), tuple(state.list(MAINTENANCE_WINDOW)), unsteady)
        bindings = state.get([Ref.parse(name) for name in names])
        asks = any(may_need_room(one.spec) for one in bindings.values())
        one = EvictionsSnapshot(
            subject=failover_configuration(state),
            fleet=fleet,
            stops=(*told.stops, *looked.stops),
            clusters=clusters,
            heads=heads,
            bindings=bindings,
            rows=state.rows(Eviction, "binding", names),
            held=held,
            looked=looked,
            capacity=capacity,
            promised=state.reserved_capacity(within=PROMISE_ENDS_AFTER, bindings=names) if asks else ReservedCapacity(),
            holds=replace(holds, labels=workload_labels(state, bindings.values()) if holds.needs_labels() else {}),
            applications=applications(state, bindings.values()),
            groups=workload_groups(state, bindings.values()),
        )
        return [one if ref == FLEET else None for ref in refs]

    def __init__(self) -> None:
        self._room = CapacityDigest()
        self._fleet: Fleet | None = None  # only spares reading unchanged clusters again
        self._terms: tuple[Settings, str] | None = None  # and this digesting unchanged settings

    def _read(self, snapshot: EvictionsSnapshot, settings: Settings) -> Fleet:
        """Return the clusters read into arrays."""
        fleet = self._fleet = Fleet.of(snapshot.clusters, settings=settings, previous=self._fleet)
        return fleet

    def _digest_of(self, settings: Settings) -> str:
        if self._terms is None or self._terms[0] is not settings:
            self._terms = settings, digest([msgspec.json.encode(settings, order="sorted")])
        return self._terms[1]

    def _plan(
        self, snapshot: EvictionsSnapshot, tier: health.Tier, settings: Settings, *, now: datetime
    ) -> eviction_plan.EvictionPlan:
        return plan_of(snapshot, settings, tier, fleet=lambda: self._read(snapshot, settings), now=now)

    def ask(self, snapshots: Sequence[EvictionsSnapshot], settings: Settings, *, now: datetime) -> Inquiry:
        """Return how many tokens the evictions that could happen now need, and the plan that `decide` carries out.

        While the rate is below the normal one, the buckets are asked even if nothing waits. They learn the lower rate
        and collect no tokens while evictions are slowed down or stopped [bounded-rate].
        """
        if not snapshots or not settings.gate("Failover"):
            return Inquiry(snapshots)
        snapshot = snapshots[0]
        tier = tier_of(snapshot, settings, now=now)
        plan = self._plan(snapshot, tier, settings, now=now)
        scope = settings.eviction.bucket_scope
        wanted = Counter({rate.bucket_of(name, scope): 0 for name in _tapped(snapshot, tier, settings)})
        wanted.update(rate.bucket_of(move.row.cluster, scope) for move in plan.moves)
        question = rate.TakeTokens(dict(wanted), tier.rate) if wanted else None
        return Inquiry([replace(snapshot, plan=plan), *snapshots[1:]], question)

    def decide(
        self, snapshot: EvictionsSnapshot, settings: Settings, *, now: datetime, answer: rate.Tokens | None = None
    ) -> Decision:
        if not settings.gate("Failover"):
            return Decision(
                changes=tuple(Drop(row) for row in snapshot.heads),
                wake_at=now if snapshot.heads else None,
                reason="GateFailoverOff",
            )
        tier = tier_of(snapshot, settings, now=now)
        planned = snapshot.plan or self._plan(snapshot, tier, settings, now=now)
        granted, short = _granted(planned.moves, answer, settings)
        stops = _without_tokens(snapshot.looked.stops, planned, answer, now=now)
        noted = _noted(snapshot, settings, self._digest_of(settings), stops=stops, now=now)
        return Decision(
            changes=(
                *(Drop(row) for row in planned.dropped),
                *(Save(row) for row in planned.saved),
                *((Save(noted),) if noted != snapshot.looked else ()),
            ),
            events=(*_told_held(snapshot, planned), *_told_problem(snapshot, planned, answer)),
            separate_decisions=_evicted(snapshot, granted, settings, now=now),
            wake_at=_wake_at(snapshot, planned, granted, noted=noted, short=short, answer=answer, tier=tier, now=now),
            reason="Evictions",
        )


def _tapped(snapshot: EvictionsSnapshot, tier: health.Tier, settings: Settings) -> Iterable[str]:
    """Yield the clusters whose evictions take tokens, and those whose evictions soon may, at a rate that is lowered."""
    yield from (row.cluster for row in snapshot.heads)
    if tier.rate < settings.resource_eviction_rate:
        yield from (one.metadata.name for one in snapshot.clusters if health.faulty(one))


def tier_of(snapshot: EvictionsSnapshot, settings: Settings, *, now: datetime) -> health.Tier:
    """Return the tier in force now."""
    maintained = snapshot.holds.maintained(now=now)
    return health.in_force(health.fleet_health(snapshot.clusters, maintained=maintained), snapshot.fleet, settings)


def plan_of(
    snapshot: EvictionsSnapshot,
    settings: Settings,
    tier: health.Tier,
    *,
    fleet: Callable[[], Fleet],
    now: datetime,
) -> eviction_plan.EvictionPlan:
    """Return what may move and what may not. Pure: `ask` and `decide` come to the same plan. `fleet`: all clusters,
    read into arrays only once somebody is about to leave."""
    clocks_from = health.clock_start(snapshot.fleet)
    if clocks_from is None:
        return eviction_plan.EvictionPlan()
    known = {cluster.metadata.name: cluster for cluster in snapshot.clusters}
    scope, most = settings.eviction.bucket_scope, min(MOST_AT_ONCE, rate.capacity(tier.rate))
    moving = Counter[str]()  # by bucket
    rehearsal = SchedulerDryRun(
        fleet, settings, promised=snapshot.promised, applications=snapshot.applications, groups=snapshot.groups
    )

    def room(cluster: str) -> int:
        return min(most - moving[rate.bucket_of(cluster, scope)], MOST_AT_ONCE - moving.total())

    def attempt(binding: Binding, leaving: Collection[str]) -> DryRunResult:
        return rehearsal.without(binding, leaving, now=now)

    def taken(row: Eviction, binding: Binding, refuge: Refuge) -> Reservation:
        moving[rate.bucket_of(row.cluster, scope)] += 1
        return rehearsal.taken(binding, refuge, now=now)

    heads = snapshot.heads if tier.rate > 0 else ()
    queue = eviction_plan.QueueHeads(
        heads, snapshot.held or (), snapshot.bindings, snapshot.rows, known, clocks_from, snapshot.holds
    )
    return eviction_plan.plan_evictions(queue, settings, room=room, attempt=attempt, taken=taken, now=now)


def _granted(
    moves: Sequence[eviction_plan.Move], answer: rate.Tokens | None, settings: Settings
) -> tuple[list[eviction_plan.Move], bool]:
    """Return the moves that have a token, in order, and whether tokens were short."""
    left = Counter({} if answer is None else answer.granted)
    granted = []
    for move in moves:
        bucket = rate.bucket_of(move.row.cluster, settings.eviction.bucket_scope)
        if left[bucket] > 0:
            left[bucket] -= 1
            granted.append(move)
    return granted, len(granted) < len(moves)


def _evicted(
    snapshot: EvictionsSnapshot, moves: Sequence[eviction_plan.Move], settings: Settings, *, now: datetime
) -> tuple[Decision, ...]:
    """Return one decision per binding, however many clusters it leaves: a conflict costs that binding's tokens only."""
    together: dict[str, list[eviction_plan.Move]] = {}
    for move in moves:
        together.setdefault(move.row.binding, []).append(move)
    known = {cluster.metadata.name: cluster for cluster in snapshot.clusters}
    return tuple(
        _moved(snapshot, snapshot.bindings[Ref.parse(name)], ones, known, settings, now=now)
        for name, ones in together.items()
    )


def _moved(
    snapshot: EvictionsSnapshot,
    old: Binding,
    moves: Sequence[eviction_plan.Move],
    clusters: Mapping[str, Cluster],
    settings: Settings,
    *,
    now: datetime,
) -> Decision:
    """Return the writes of a binding's granted moves. They are stored only where the clusters' taints and all holds are
    still those that were read, and where nobody gave an order meanwhile: orders are annotations of the binding.
    """
    after, events = old, list[Event]()
    last, before = moves[-1], [one for one in snapshot.promised.own.get(str(old.ref), ()) if one.reserved]
    replaced = _replaced(before, last.reserved.promises)
    for move in moves:
        after = eviction_plan.binding_after_move(after, move, settings, stops=snapshot.stops, now=now)
        cause = f"{move.cause.key}:{move.cause.effect}"
        message = f"evicted from cluster {move.row.cluster} because of taint {cause}; {move.refuge.why}{replaced}"
        events += [Event(about, "EvictWorkloadFromClusterSucceed", message) for about in (old, template_of(old))]
    over = {move.row.key: _over(move, now=now) for move in moves}
    left = [over.get(row.key, row) for row in snapshot.rows.get(str(old.ref), ())]
    # The condition EvictionPending is written with the eviction, so that no second write of the binding is needed.
    new = with_eviction_pending(departed(_once(old, after), old, now=now), left, now=now)
    return Decision(
        changes=(
            Put(new, old, upon=("annotations",)),
            *map(Save, over.values()),
            *_reserving(before, last.reserved.promises),
            *_hinted(new, last.refuge),
        ),
        events=tuple(events),
        guards=(
            *(Guard(clusters[move.row.cluster].ref, clusters[move.row.cluster].metadata.generation) for move in moves),
            *snapshot.holds.guards(),
        ),
        capacity_guards=last.reserved.rooms,
        reason="Evictions",
    )


def _over(move: eviction_plan.Move, *, now: datetime) -> Eviction:
    """Return the row of an eviction that has happened."""
    because = f"taint {move.cause.key}:{move.cause.effect}; {move.refuge.why}"
    return ended_row(move.row, move.cause.key, because, now=now, state=EVICTED)


def _reserving(before: Iterable[Promise], reserved: Sequence[Promise]) -> Iterable[Save | Drop]:
    """Yield the writes of a binding's reservations. The last move's replace all others: its refuge names every cluster
    that the binding will be on."""
    renewed = {one.key for one in reserved}
    yield from (Drop(one) for one in before if one.key not in renewed)
    yield from map(Save, reserved)


def _replaced(before: Iterable[Promise], reserved: Iterable[Promise]) -> str:
    """Return what an Event adds where an earlier eviction of the binding had reserved other clusters, else ""."""
    lost = sorted({one.cluster for one in before} - {one.cluster for one in reserved})
    return f"; instead of {', '.join(lost)}, which an earlier eviction had reserved" if lost else ""


def _hinted(new: Binding, refuge: Refuge) -> Iterable[Save]:
    """Yield the hint that tells the scheduler what the last dry run found. Where free room plays no part, the scheduler
    finds the same clusters without it."""
    if refuge.clusters and may_need_room(new.spec):
        found = {one.name: one.replicas for one in refuge.clusters}
        yield Save(PlacementHint(str(new.ref), new.metadata.generation, found))


def _once(old: Binding, new: Binding) -> Binding:
    """Return the change as one: leaving several clusters together raises the generation once."""
    return old.with_spec(clusters=new.spec.clusters, graceful_eviction_tasks=new.spec.graceful_eviction_tasks)


def _without_tokens(
    stops: tuple[Stop, ...], planned: eviction_plan.EvictionPlan, answer: rate.Tokens | None, *, now: datetime
) -> tuple[Stop, ...]:
    """Return the times in which evictions waited because nobody could be asked for tokens, up to now."""
    problem = "" if answer is None else answer.problem
    if stops and stops[-1].until is None:
        return stops if problem else (*stops[:-1], replace(stops[-1], until=now))
    if not (problem and planned.moves):
        return stops
    return (*stops, Stop(now, f"no tokens: {problem}"))[-STOPS_KEPT:]


def _noted(
    snapshot: EvictionsSnapshot, settings: Settings, terms: str, *, stops: tuple[Stop, ...], now: datetime
) -> FleetState:
    """Return what to remember of this look: what was true when held evictions began to be looked at again, how far that
    has come, how the queue is to be read, and when there were no tokens.

    `load` reads held evictions only where clusters have changed. Whatever else may end a hold is noted here as STALE,
    so that the next `load` reads them: a hold or window that has begun or ended, a cluster that flaps or no longer
    does, another setting, and that HELD_LOOK has passed, since room that was promised and never taken becomes free
    without any change. `terms`: a digest of the settings.
    """
    looked = replace(snapshot.looked, scope=settings.eviction.bucket_scope, stops=stops)
    period = now.timestamp() // HELD_LOOK.total_seconds()
    capacity = f"{snapshot.capacity}/{terms}/{period:.0f}"
    true_now = replace(looked, capacity=capacity, holds=snapshot.holds.digest(now=now), cursor=None)
    if snapshot.held is None:
        return looked if looked == true_now else replace(looked, capacity=STALE)
    if health.clock_start(snapshot.fleet) is None:
        return looked  # nothing was looked at
    begun = true_now if looked.cursor is None else looked
    last = snapshot.held[-1] if len(snapshot.held) == HEADS else None
    return replace(begun, cursor=None if last is None else (last.priority, last.due_at, last.key))


def _told_held(snapshot: EvictionsSnapshot, planned: eviction_plan.EvictionPlan) -> Iterable[Event]:
    for row in planned.held:
        binding = snapshot.bindings[Ref.parse(row.binding)]
        for about in (binding, template_of(binding)):
            yield Event(about, "EvictionHeld", f"stays on cluster {row.cluster}: {row.message}", warning=True)


def _told_problem(
    snapshot: EvictionsSnapshot, planned: eviction_plan.EvictionPlan, answer: rate.Tokens | None
) -> Iterable[Event]:
    if planned.moves and answer is not None and answer.problem:
        message = f"no evictions take place: no tokens, {': '.join(filter(None, (answer.problem, answer.detail)))}"
        yield Event(snapshot.subject, "EvictionTokensUnavailable", message, warning=True)


def _wake_at(
    snapshot: EvictionsSnapshot,
    planned: eviction_plan.EvictionPlan,
    granted: Sequence[eviction_plan.Move],
    *,
    noted: FleetState,
    short: bool,
    answer: rate.Tokens | None,
    tier: health.Tier,
    now: datetime,
) -> datetime | None:
    """Return when the next token, due row or look at the queue is: while anything waits, every second as a net."""
    looked = snapshot.looked
    more_held = noted != looked and (noted.cursor is not None or noted.capacity == STALE or noted.scope != looked.scope)
    wakes = [now] if planned.saved or planned.dropped or more_held else list[datetime]()
    if any(cluster.has_taint(*EVICTING_EFFECTS) for cluster in snapshot.clusters) or snapshot.heads:
        wakes.append(now + IDLE_LOOK)
    if tier.rate > 0:
        wakes += [row.due_at for row in snapshot.heads if row.due_at is not None and row.due_at > now]
        wait = -1.0 if answer is None or answer.problem else answer.next_in
        more = short or not planned.exhausted
        if more and wait >= 0:
            wakes.append(now + max(rate.retry_delay(wait), timedelta(0) if granted else rate.SHORTEST_PAUSE))
    if (change := snapshot.holds.next_change(now=now)) is not None:
        wakes.append(change)
    return min(wakes, default=None)
