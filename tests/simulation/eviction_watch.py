"""What must hold of every eviction and every token, asserted from rows, clusters and buckets.

The rules are written down here a second time, from the decisions ([judged-once] to [blind-fleet]), not taken from the
code they check.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.clusters.taints import Identity, ending
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.eviction.rate import Bucket, TakeTokens, Tokens, capacity
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import EVICTING_EFFECTS, Cluster, Taint
from controlplane.kinds.eviction_hold import EvictionHold
from controlplane.kinds.maintenance_window import MaintenanceWindow
from controlplane.kinds.rows import ENDED, EVICTED, QUEUED, Eviction, FleetState, Judgement
from tests.simulation.audit import eviction_is_reported
from tests.simulation.seen import Seen
from tests.simulation.world import Simulation

Arrival = tuple[str, str, str, str, datetime | None]  # binding, cluster, key, effect, timeAdded
FOR_EVER = timedelta(days=36500)
WHOLE = 1e-6
NOTHING_YET = FleetState("default")  # nothing is remembered of the fleet


class EvictionWatch:
    """Remembers what each binding tolerated when a taint met it, and how many tokens there can have been."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, datetime | None]] = set()
        self._bears: dict[Arrival, timedelta] = {}
        self._clusters: Sequence[Cluster] = ()  # as they were looked at last
        self._listed: Sequence[Binding] = ()
        self._bindings: dict[Ref, Binding] = {}
        self._rows: dict[str, Eviction] = {}
        self._buckets: dict[str, Bucket] = {}
        self._made = 0.0  # tokens the rates have made so far
        self._made_at: tuple[datetime, float] | None = None
        self._capacity = 1  # the largest a bucket has had
        self._room = 0.0  # the least of (tokens given - tokens made) before any of the tokens given
        self._given = 0
        self._losses = 0
        self._looked_at = Seen()
        self._rate = _Rate()

    def attach(self, world: Simulation) -> None:
        """Be called from now on."""
        self._buckets = dict(world.buckets)
        world.checks.append(self)
        world.asked.append(self.tokens_are_due)

    def __call__(self, world: Simulation) -> None:
        if world.losses != self._losses:
            self._losses = world.losses
            self._forget_lost(world)
        self._count_made(world)
        clusters, bindings = world.store.list(kinds.CLUSTER), world.store.list(kinds.RESOURCE_BINDING)
        if self._looked_at.again(clusters, bindings, *world.store.written_rows(Eviction)):
            return
        if self._note_arrivals(clusters, bindings):
            self._rows.clear()
        for row in world.store.all_rows(Eviction):
            if self._rows.get(row.key) is row:
                continue
            self._rows[row.key] = row
            self._judged_once(row)
            if row.state == EVICTED and (row.key, row.ended_at) not in self._seen:
                self._seen.add((row.key, row.ended_at))
                self._check(world, row)

    def _forget_lost(self, world: Simulation) -> None:
        """What the database has lost did not happen; the tokens spent on it are gone all the same."""
        rows = world.store.all_rows(Eviction)
        self._seen &= {(row.key, row.ended_at) for row in rows}
        self._clusters, self._listed, self._bindings = (), (), {}
        self._rows.clear()
        self._bears = {_arrival(row, one): _waited(one) for row in rows for one in row.judged}

    # [tolerated-is-not-evicted]

    def _note_arrivals(self, clusters: Sequence[Cluster], listed: Sequence[Binding]) -> bool:
        """Keep how long a binding tolerated a taint when they met ([judged-once] judged once, and again on a later
        arrival). A binding that is made again meets them again. Returns whether any has met one."""
        moved, self._clusters = clusters is not self._clusters, clusters
        before_all = self._bindings
        if listed is not self._listed:
            self._listed, self._bindings = listed, {one.ref: one for one in listed}
            if gone := {str(ref) for ref in before_all.keys() - self._bindings.keys()}:
                self._bears = {arrival: waited for arrival, waited in self._bears.items() if arrival[0] not in gone}
        tainted = {one.metadata.name: taints for one in clusters if (taints := moving_taints(one))}
        met = False
        for ref, binding in self._bindings.items() if tainted else ():
            before = before_all.get(ref)
            if before is binding and not moved:
                continue
            for target in binding.spec.clusters:
                back = before is not None and (
                    before.spec.target(target.name) is None or before.metadata.uid != binding.metadata.uid
                )
                for taint in tainted.get(target.name, ()):
                    key = (str(ref), target.name, taint.key, taint.effect, taint.time_added)
                    if back or key not in self._bears:
                        met = True
                        self._bears[key] = tolerates(binding, taint)
        return met

    def _judged_once(self, row: Eviction) -> None:
        """[tolerated-is-not-evicted] what a taint means for a copy is what the policy said when they met; later edits
        change nothing."""
        for one in row.judged if row.state not in ENDED else ():
            known = self._bears.setdefault(_arrival(row, one), _waited(one))
            assert known == _waited(one), (
                f"[tolerated-is-not-evicted] {row.key}: {one.key} tolerated for {known}, is judged {one.wait_seconds}"
            )

    # [bounded-rate], [tier-makes-no-tokens]

    def _count_made(self, world: Simulation, *, looking: bool = False) -> None:
        """Add up what the rates have made. A rate is in force from when a worker looks: a worker that died or sleeps
        leaves the one before in force until the next one comes."""
        rate = self._rate(world)
        if self._made_at is not None:
            self._made += (world.now - self._made_at[0]).total_seconds() * self._made_at[1]
            if not looking and rate < self._made_at[1] and world.store.busy(FLEET):
                rate = self._made_at[1]
        self._made_at = (world.now, rate)

    def tokens_are_due(self, world: Simulation, question: TakeTokens, answer: Tokens) -> None:
        """[bounded-rate], [paused-is-paused], [tier-makes-no-tokens] tokens are asked for at the rate in force, for
        evictions that may happen, and never too many."""
        where = f"at {world.now}"
        self._count_made(world, looking=True)
        rate = self._rate(world)
        assert question.rate == rate, (
            f"[paused-is-paused] tokens are asked for at {question.rate}/s, in force is {rate}/s, {where}"
        )
        self._capacity = max(self._capacity, capacity(rate))
        meant = _meant(world)
        may = sum(1 for row in world.store.all_rows(Eviction) if may_happen(world, row, meant))
        asked = sum(question.wanted.values())
        assert asked <= may, f"{asked} tokens are asked for and {may} evictions may happen, {where}: re-check first"
        for name in question.wanted:
            if name in world.buckets:
                self._follow(name, world.buckets[name], answer.granted.get(name, 0), where)
        for _ in range(sum(answer.granted.values())):
            self._room = min(self._room, self._given - self._made) if self._given else -self._made
            self._given += 1
            used = self._given - self._made - self._room
            assert used <= self._capacity + WHOLE, (
                f"[bounded-rate] {used:.2f} tokens in one window beside what the rate made, {where}"
            )

    def _follow(self, name: str, new: Bucket, granted: int, where: str) -> None:
        """[tier-makes-no-tokens] a bucket is filled by time alone, at the lower of the rates before and after; a new
        one is empty."""
        old = self._buckets.get(name)
        filled = 0.0 if old is None else old.tokens + max(0.0, new.at - old.at) * min(old.rate, new.rate)
        self._buckets[name] = new
        held = new.tokens + granted
        assert held <= filled + WHOLE, (
            f"[tier-makes-no-tokens] bucket {name} held {held:.3f} tokens where {filled:.3f} were made, {where}"
        )

    def flushed(self) -> None:
        """Learn that Redis has forgotten its buckets: they begin empty."""
        self._buckets.clear()

    # [tolerated-is-not-evicted], [paused-is-paused], [decisions-are-traced], [recovery-cancels]

    def _check(self, world: Simulation, row: Eviction) -> None:
        where = f"{row.key} at {world.now}"
        assert len(self._seen) <= self._given, f"[bounded-rate] {where}: evicted without a token"
        assert not covering(world, row), f"[paused-is-paused] {where}: evicted in spite of {covering(world, row)}"
        cluster = world.store.object(Ref(kinds.CLUSTER, "", row.cluster))
        present = moving_taints(cluster)
        assert present, f"[recovery-cancels] {where}: evicted from a cluster that has recovered"
        due = [self._due(world, row, one) for one in present]
        assert min(due) <= world.now, f"[tolerated-is-not-evicted] {where}: it tolerated the taint until {min(due)}"
        eviction_is_reported(world, row)

    def _due(self, world: Simulation, row: Eviction, taint: Taint) -> datetime:
        key = (row.binding, row.cluster, taint.key, taint.effect, taint.time_added)
        fleet = fleet_of(world)
        clocks = [one for one in (taint.time_added, fleet.sighted_at, fleet.failover_on_since) if one is not None]
        return max(clocks) + self._bears.get(key, timedelta(0))


def _arrival(row: Eviction, judged: Judgement) -> Arrival:
    return row.binding, row.cluster, judged.key, judged.effect, judged.time_added


def _waited(judged: Judgement) -> timedelta:
    return FOR_EVER if judged.wait_seconds is None else timedelta(seconds=judged.wait_seconds)


def tolerates(binding: Binding, taint: Taint) -> timedelta:
    """Return how long a binding tolerates a taint [prefer-no-execute] [judged-once]."""
    spec = binding.spec
    if taint.effect == "PreferNoExecute":
        behaviour = None if spec.failover is None else spec.failover.cluster
        return FOR_EVER if behaviour is None else timedelta(seconds=behaviour.waits)
    tolerations = () if spec.placement is None else spec.placement.cluster_tolerations
    for one in tolerations:
        same = one.key in ("", taint.key) and one.effect in ("", taint.effect)
        if same and (one.operator == "Exists" or one.value == taint.value):
            return FOR_EVER if one.toleration_seconds is None else timedelta(seconds=max(0, one.toleration_seconds))
    return timedelta(0)


def fleet_of(world: Simulation) -> FleetState:
    """Return what is remembered of the fleet."""
    return world.store.row(FleetState, NOTHING_YET.key) or NOTHING_YET


class _Rate:
    """The rate in force, worked out again where anything it depends on may be another."""

    def __init__(self) -> None:
        self._looked = Seen()
        self._rate = 0.0

    def __call__(self, world: Simulation) -> float:
        windows = world.store.list(kinds.MAINTENANCE_WINDOW)
        moment = world.now if windows else None  # they open and close by the clock alone
        if not self._looked.again(windows, moment, world.store.list(kinds.CLUSTER), fleet_of(world), world.settings):
            self._rate = rate_in_force(world)
        return self._rate


def rate_in_force(world: Simulation) -> float:
    """Return the rate of evictions by [eviction-tier] and [blind-fleet]."""
    settings = world.settings
    blind, unhealthy, total = fleet_health(world)
    if not settings.gate("Failover") or blind:
        return 0.0
    if not unhealthy:
        return settings.resource_eviction_rate
    small = total <= settings.large_cluster_num_threshold
    return 0.0 if small else settings.secondary_resource_eviction_rate


def fleet_health(world: Simulation) -> tuple[bool, bool, int]:
    """Return whether the fleet is blind, whether too many of it are faulty, and how many clusters count
    [eviction-tier] [blind-fleet]."""
    windows: list[MaintenanceWindow] = list(world.store.list(kinds.MAINTENANCE_WINDOW))
    maintained = {name for one in windows if one.open(now=world.now) for name in one.spec.clusters}
    total = faulty = 0
    for cluster in world.store.list(kinds.CLUSTER):
        conditions = {one.type: one.status for one in cluster.status.conditions}
        once = conditions.get("Established") == "True" or cluster.ready == "True"
        if cluster.metadata.name in maintained or not once or cluster.metadata.deletion_timestamp is not None:
            continue
        total += 1
        faulty += cluster.ready != "True" or bool(moving_taints(cluster))
    blind = fleet_of(world).blind_since is not None or (total > 0 and faulty == total)
    return blind, 10_000 * faulty > round(10_000 * world.settings.unhealthy_cluster_threshold) * total, total


def moving_taints(cluster: Cluster | None) -> list[Taint]:
    """Return the taints of a cluster that move workloads."""
    return [] if cluster is None else [one for one in cluster.spec.taints if one.effect in EVICTING_EFFECTS]


def covering(world: Simulation, row: Eviction) -> str:
    """Return what holds an eviction now: an open hold or window; "" where nothing does [paused-is-paused]."""
    windows: list[MaintenanceWindow] = list(world.store.list(kinds.MAINTENANCE_WINDOW))
    for window in windows:
        if window.open(now=world.now) and row.cluster in window.spec.clusters:
            return f"window {window.metadata.name}"
    return on_hold(world, row)


def on_hold(world: Simulation, row: Eviction) -> str:
    """Return the open hold that covers an eviction, or a copy that a Drain or a Failback moves; "": none does."""
    holds: list[EvictionHold] = list(world.store.list(kinds.EVICTION_HOLD))
    namespace = Ref.parse(row.binding).namespace
    for one in holds:
        if one.open(now=world.now) and one.covers(row.cluster, namespace, {}):
            return f"hold {one.metadata.name}"
    return ""


def _meant(world: Simulation) -> dict[str, set[Identity]]:
    """Return the taints that move workloads and whose reason has not passed, by cluster."""
    clusters: Sequence[Cluster] = world.store.list(kinds.CLUSTER)
    return {
        cluster.metadata.name: {(one.key, one.effect) for one in taints} - ending(cluster)
        for cluster in clusters
        if (taints := moving_taints(cluster))
    }


def may_happen(world: Simulation, row: Eviction, meant: Mapping[str, Collection[Identity]]) -> bool:
    """Test whether a queued eviction may happen now, refuge aside: what a token may be asked for."""
    if row.due_at is None or row.due_at > world.now or row.state != QUEUED:
        return False
    taints = meant.get(row.cluster, ())
    if not any((one.key, one.effect) in taints for one in row.judged if one.due_at is not None):
        return False
    binding: Binding | None = world.store.object(Ref.parse(row.binding))
    return binding is not None and binding.spec.target(row.cluster) is not None and not covering(world, row)
