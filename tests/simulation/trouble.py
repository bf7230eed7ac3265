"""Every kind of trouble chaos knows. Each is a function of a run; it says `fires` when the trouble really happened.

Some wait for a moment in which they hurt: a worker dies with a token in its hand, a cluster returns while its copies
move, a workload is scaled while it is being evicted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, condition
from controlplane.kinds.cluster import NO_EXECUTE, PREFER_NO_EXECUTE
from controlplane.kinds.policy import Toleration
from controlplane.kinds.rows import RECOVERING, Observation
from tests.simulation import edits, requested

if TYPE_CHECKING:
    from tests.simulation.chaos import Chaos

WRITERS = ("cluster_status", "cluster_taints", "evictions", "graceful_eviction", "scheduler", "works", "execution")

# Members


def probe_lost(chaos: Chaos) -> None:
    """One probe fails, the next one gets through."""
    member = chaos.victim()

    def failed() -> bool:
        rows = chaos.world.store.all_rows(Observation)
        return any(row.key == member and row.status == "False" for row in rows)

    def back() -> None:
        chaos.mends(member)
        chaos.fires("probe_lost")

    chaos.breaks(member, seconds=1.5)
    chaos.when(failed, back, within=1.4)


def partition(chaos: Chaos) -> None:
    """A member is in a black hole for a while: no answer at all."""
    member = chaos.victim()
    chaos.breaks(member, seconds=chaos.chance.uniform(5, 30))
    chaos.when(lambda: chaos.ready(member) != "True", lambda: chaos.fires("partition"))


def flapping(chaos: Chaos) -> None:
    """A member comes and goes, faster than it could be published."""
    member = chaos.victim()
    for turn in range(6):
        chaos.world.after(4 * turn, lambda: chaos.breaks(member, seconds=2))
    chaos.fires("flapping")


def all_down(chaos: Chaos) -> None:
    """No member answers: we may be the ones cut off."""
    for member in chaos.world.members:
        chaos.breaks(member, seconds=chaos.chance.uniform(5, 15))
    chaos.when(chaos.blind, lambda: chaos.fires("all_down"))


def most_down(chaos: Chaos) -> None:
    """Three of five are out: evictions stop, and go on when one returns."""
    lost = chaos.chance.sample(sorted(chaos.world.members), 3)
    for member in lost:
        chaos.breaks(member, seconds=chaos.chance.uniform(5, 25))
    chaos.when(lambda: all(chaos.ready(one) != "True" for one in lost), lambda: chaos.fires("most_down"))


def access_lost(chaos: Chaos) -> None:
    """A member no longer knows our credentials."""
    member = chaos.victim()

    def known() -> bool:
        found = condition(chaos.cluster(member).status.conditions, "AccessLost")
        return found is not None and found.status == "True"

    chaos.breaks(member, "unauthorized", seconds=chaos.chance.uniform(2, 20))
    chaos.when(known, lambda: chaos.fires("access_lost"))


def never_ready(chaos: Chaos) -> None:
    """What a member runs does not become ready."""
    chaos.breaks(chaos.victim(), "notready", seconds=chaos.chance.uniform(3, 20))
    chaos.fires("never_ready")


# Redis


def redis_lost(chaos: Chaos) -> None:
    """Redis does not answer while an eviction wants a token."""

    def away() -> None:
        chaos.world.redis_away = True
        chaos.world.after(chaos.chance.uniform(1, 8), back)
        chaos.fires("redis_lost")

    def back() -> None:
        chaos.world.redis_away = False

    chaos.outage(14, 30)
    chaos.when(chaos.queued, away)


def redis_flushed(chaos: Chaos) -> None:
    """Redis forgets its buckets, at any moment from the outage on."""
    tokens = len(chaos.world.tokens)
    more = chaos.chance.choice((0, 1))

    def flush() -> None:
        chaos.world.buckets.clear()
        chaos.watch.flushed()
        chaos.fires("redis_flushed")

    chaos.outage(14, 30)
    chaos.when(lambda: chaos.queued() and len(chaos.world.tokens) >= tokens + more, flush)


# Workers


def killed(chaos: Chaos) -> None:
    """Workers die between any two effects, again and again."""
    kills = chaos.world.kills
    chaos.outage(8, 25)
    chaos.world.kill_rate = 0.02
    chaos.world.after(12, lambda: setattr(chaos.world, "kill_rate", 0.0))
    chaos.when(lambda: chaos.world.kills > kills, lambda: chaos.fires("killed"))


def killed_with_token(chaos: Chaos) -> None:
    """A worker dies after it took tokens and before it evicts: the tokens are gone, nothing has moved."""
    _dies(chaos, "killed_with_token", "after taking tokens")


def killed_after_member(chaos: Chaos) -> None:
    """A worker dies after a member did what it asked and before that is written down."""
    _dies(chaos, "killed_after_member", "after a member acted")


def _dies(chaos: Chaos, fault: str, where: str) -> None:
    before = chaos.world.died[where]
    chaos.outage(14, 30)
    chaos.world.dies[where] = chaos.chance.randint(1, 2)
    chaos.when(lambda: chaos.world.died[where] > before, lambda: chaos.fires(fault))


def duplicate_ticks(chaos: Chaos) -> None:
    """Every object of every controller is looked at again, twice."""
    chaos.outage(5, 25)
    for moment in (chaos.chance.uniform(0, 10), chaos.chance.uniform(10, 20)):
        chaos.world.after(moment, lambda: _tick(chaos))
    chaos.fires("duplicate_ticks")


def _tick(chaos: Chaos) -> None:
    for name, rows in chaos.world.store.due.items():
        chaos.world.store.mark(name, [ref for ref, row in rows.items() if row.lease_until is None])


def late_ticks(chaos: Chaos) -> None:
    """No worker runs for a while, in the middle of an outage."""
    chaos.outage(5, 25)
    chaos.world.after(chaos.chance.uniform(0, 12), lambda: _stall(chaos))


def _stall(chaos: Chaos) -> None:
    chaos.world.stall(chaos.chance.uniform(2, 9))
    chaos.fires("late_ticks")


def late_write(chaos: Chaos) -> None:
    """A worker sleeps over the end of its lease and then writes what it had decided."""
    before = chaos.world.slept
    chaos.outage(8, 25)
    chaos.world.store.withheld = chaos.chance.choice(WRITERS)
    chaos.when(lambda: chaos.world.slept > before, lambda: chaos.fires("late_write"))


def restarts(chaos: Chaos) -> None:
    """Every process begins again, every three seconds, in the middle of an outage."""
    chaos.outage(20, 30)
    for turn in range(7):
        chaos.world.after(3 * turn + 1, chaos.world.restart)
    chaos.fires("restarts")


# The database


def commits_lost(chaos: Chaos) -> None:
    """The database fails over and has lost its last commits, at a moment in which that hurts."""
    losses = chaos.world.losses
    chaos.world.history = deque(maxlen=chaos.chance.randint(1, 4))
    hurts = chaos.chance.choice((chaos.queued, chaos.evicted, chaos.leaving))

    def fails_over() -> None:
        history, chaos.world.history = chaos.world.history, None
        if history:
            chaos.world.lose_commits(history[0])

    chaos.outage(14, 30)
    chaos.when(lambda: bool(hurts()), fails_over)
    chaos.when(lambda: chaos.world.losses > losses, lambda: chaos.fires("commits_lost"))


# People


def policy_edited(chaos: Chaos) -> None:
    """A user edits a policy's tolerations, at any moment of an outage."""
    chaos.outage(8, 25)
    chaos.world.after(chaos.chance.uniform(0, 15), lambda: _edit(chaos))


def _edit(chaos: Chaos) -> None:
    policy: Any = chaos.chance.choice(chaos.world.store.list(kinds.PROPAGATION_POLICY))
    seconds = chaos.chance.choice((0, 6, 12, None, None))
    bears = Toleration(key=chaos.chance.choice(("", "cluster.karmada.io/not-ready")), toleration_seconds=seconds)
    placement = msgspec.structs.replace(
        policy.spec.placement, cluster_tolerations=(msgspec.structs.replace(bears, operator="Exists"),)
    )
    edited = policy.with_spec(placement=placement)
    if edited is not policy:
        edits.put(chaos.world, edited, policy)
        chaos.excuse(policy.metadata.name.removesuffix("-propagation"))
        chaos.fires("policy_edited")


def scaled(chaos: Chaos) -> None:
    """A workload is scaled while it is being evicted."""

    def scale() -> None:
        for binding in chaos.leaving():
            ref = Ref("apps/Deployment", "default", binding.spec.resource.name)
            old: Any = chaos.world.store.object(ref)
            if old is None:
                continue  # a user has deleted it meanwhile
            spec = {**old.spec, "replicas": chaos.chance.choice((1, 2, 4, 5, 8))}
            edits.put(chaos.world, old.with_content({**old.content, "spec": spec}), old)
            chaos.excuse(ref.name)
            chaos.fires("scaled")
            return

    chaos.outage(16, 30)
    chaos.when(lambda: bool(chaos.leaving()), scale)


def rate_changed(chaos: Chaos) -> None:
    """A user changes the rate while evictions wait."""

    def change() -> None:
        rate = chaos.chance.choice((0.1, 0.2, 2.0, 8.0))
        chaos.configure(resourceEvictionRate=rate)
        chaos.world.after(chaos.chance.uniform(2, 10), chaos.configure)
        chaos.fires("rate_changed")

    chaos.outage(14, 30)
    chaos.when(chaos.queued, change)


def gate_closed(chaos: Chaos) -> None:
    """A user stops everything in the middle of an outage, and lets it go on later."""
    chaos.outage(10, 30)

    def close() -> None:
        chaos.configure(featureGates={"Failover": False})
        chaos.world.after(chaos.chance.uniform(1, 10), chaos.configure)
        chaos.fires("gate_closed")

    chaos.world.after(chaos.chance.uniform(2, 20), close)


def person_taints(chaos: Chaos) -> None:
    """A person taints a cluster that is well, and takes the taint off again."""
    member = chaos.victim()
    edits.taint(chaos.world, member, chaos.chance.choice((NO_EXECUTE, NO_EXECUTE, PREFER_NO_EXECUTE)))
    chaos.world.after(chaos.chance.uniform(1, 25), lambda: edits.untaint(chaos.world, member))
    chaos.fires("person_taints")


def on_hold(chaos: Chaos) -> None:
    """A user holds the fleet's evictions during an outage."""
    member = chaos.victim()
    expires = chaos.world.now + timedelta(seconds=chaos.chance.uniform(15, 28))
    clusters = chaos.chance.choice(((), (member,), (member,)))
    chaos.world.create(edits.hold(edits.named(chaos.world, "stop"), expires_at=expires, clusters=clusters))
    chaos.breaks(member, seconds=chaos.chance.uniform(12, 30))
    chaos.when(lambda: chaos.held(member), lambda: chaos.fires("on_hold"))


def maintained(chaos: Chaos) -> None:
    """A cluster is being worked on while it is out."""
    member = chaos.victim()
    until = chaos.world.now + timedelta(seconds=chaos.chance.uniform(8, 25))
    meta = edits.named(chaos.world, "disks")
    chaos.world.create(edits.window(meta, member, until=until))
    chaos.breaks(member, seconds=chaos.chance.uniform(10, 30))
    chaos.when(lambda: chaos.ready(member) != "True", lambda: chaos.fires("maintained"))


# Recovery, at every stage


def recovered_untainted(chaos: Chaos) -> None:
    """A cluster returns when it is known to be out and nothing follows from that yet."""
    _recovers(chaos, "recovered_untainted", lambda member: chaos.ready(member) != "True")


def recovered_queued(chaos: Chaos) -> None:
    """A cluster returns while its evictions wait for their tokens."""
    _recovers(chaos, "recovered_queued", chaos.queued)


def recovered_held(chaos: Chaos) -> None:
    """A cluster returns while a user holds its evictions."""
    member = chaos.victim()
    expires = chaos.world.now + timedelta(seconds=30)
    chaos.world.create(edits.hold(edits.named(chaos.world, "stop"), expires_at=expires, clusters=(member,)))
    _recovers(chaos, "recovered_held", chaos.held, member)


def recovered_moving(chaos: Chaos) -> None:
    """A cluster returns in the step that took the copy from it."""
    _recovers(chaos, "recovered_moving", lambda member: bool(chaos.leaving(member)))


def recovered_moved(chaos: Chaos) -> None:
    """A cluster returns after everything has left it."""
    _recovers(chaos, "recovered_moved", lambda member: chaos.evicted(member) and not chaos.leaving(member))


def _recovers(chaos: Chaos, fault: str, stage: Callable[[str], bool], which: str = "") -> None:
    member = which or chaos.victim()

    def back() -> None:
        chaos.mends(member)
        chaos.fires(fault)

    chaos.breaks(member, seconds=40)
    chaos.when(lambda: stage(member), back)


def relapsed(chaos: Chaos) -> None:
    """A cluster returns, and is lost again while its taint's removal window runs."""
    member = chaos.victim()

    def again() -> None:
        chaos.breaks(member, seconds=chaos.chance.uniform(4, 12))
        chaos.fires("relapsed")

    def back() -> None:
        chaos.mends(member)
        chaos.when(lambda: bool(chaos.evictions(member, RECOVERING)) or chaos.ready(member) == "True", again)

    chaos.breaks(member, seconds=40)
    chaos.when(lambda: chaos.queued(member), back)


FAULTS: dict[str, Callable[[Chaos], None]] = {
    one.__name__: one
    for one in (
        probe_lost,
        partition,
        flapping,
        all_down,
        most_down,
        access_lost,
        never_ready,
        redis_lost,
        redis_flushed,
        killed,
        killed_with_token,
        killed_after_member,
        duplicate_ticks,
        late_ticks,
        late_write,
        restarts,
        commits_lost,
        policy_edited,
        scaled,
        rate_changed,
        gate_closed,
        person_taints,
        on_hold,
        maintained,
        requested.drained,
        requested.failed_back,
        requested.failback_lost,
        recovered_untainted,
        recovered_queued,
        recovered_held,
        recovered_moving,
        recovered_moved,
        relapsed,
    )
}

# Those that wait for the moment in which they hurt begin early.
PATIENT = (
    "redis_lost",
    "redis_flushed",
    "rate_changed",
    "killed_with_token",
    "killed_after_member",
    "commits_lost",
    "scaled",
    "on_hold",
    "drained",
    "recovered_queued",
    "recovered_held",
    "recovered_moving",
    "recovered_moved",
    "relapsed",
)

# Those that go through several stages before it hurts begin first: others stand in their way soon enough.
LONG = ("failed_back", "failback_lost")

# Those that come to nothing at times are ordered more often than others.
OFTEN: dict[str, float] = {
    **dict.fromkeys(("access_lost", "redis_flushed", "recovered_queued", "person_taints", "failed_back"), 1.2),
    **dict.fromkeys(("killed_after_member", "maintained", "never_ready", "scaled"), 1.2),
    **dict.fromkeys(("killed_with_token", "failback_lost", "relapsed"), 1.5),
    **dict.fromkeys(("commits_lost", "drained"), 1.6),
    "recovered_moving": 2.1,
    **dict.fromkeys(("on_hold", "recovered_held"), 2.9),
    "recovered_moved": 3.6,
}

__all__ = ["FAULTS", "LONG", "OFTEN", "PATIENT"]
