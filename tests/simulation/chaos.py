"""Random trouble: for every seed a fleet, some workloads and a string of faults; at the end everything has healed.

    python -m tests.simulation.chaos 4711

runs one seed again and prints its timeline.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any

import msgspec

from controlplane import kinds
from controlplane.apimachinery.meta import ObjectMeta, Ref
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.engine.decision import Decision, Put
from controlplane.eviction.failback import ready_long_enough_at
from controlplane.kinds import LEASE
from controlplane.kinds.configuration import FailoverConfiguration
from controlplane.kinds.rows import EVICTED, HELD, QUEUED, Eviction, FleetState
from controlplane.settings import Settings
from controlplane.settings.checks import with_overrides
from tests.simulation import edits, trouble
from tests.simulation.asked_watch import AskedWatch
from tests.simulation.audit import Audit
from tests.simulation.eviction_watch import EvictionWatch
from tests.simulation.manifests import ANYWHERE, DIVIDED, DUPLICATED, NGINX, admitted
from tests.simulation.member import DOWN, UP
from tests.simulation.settled import unsettled
from tests.simulation.stories import EACH_SECOND, again, in_service
from tests.simulation.taint_watch import TaintWatch
from tests.simulation.timeline import reported
from tests.simulation.world import START, Simulation

BEGINS = 16.5  # seconds: every workload runs by then
SPREAD = 38.0  # seconds within which all faults begin
EARLY = 14.0  # seconds within which those begin that wait long for the moment in which they hurt
FIRST = 2.0  # seconds within which those begin that go through several stages
HEADSTART = 8.0  # seconds they have before others begin
HEALS = 74.0  # seconds: then everything that is still broken is mended
AT_REST = 3.0  # seconds in which nothing changes any more: the end
CALMS = 130.0  # seconds: then clusters do not flap any more, and reports of their room have been read again
QUIET_AT = 400.0  # seconds: by then everything has to be healed
PER_SEED = 7  # faults
SHARED = 0.7  # share of those that need an outage and make do with one there is
POLICIES = (DIVIDED, DUPLICATED, ANYWHERE)
APPS = tuple(f"app-{number}" for number in range(3))
SETTINGS: Settings = msgspec.structs.replace(EACH_SECOND, graceful_eviction_timeout=25)

Predicate = Callable[[], bool]


class Chaos:
    """One seeded run. `fired` counts the faults that really happened, not only those that were ordered. `uncleaned`:
    members that were left with what runs there, because a user wanted that or they were out of reach."""

    settings = SETTINGS
    rest = 0.0  # seconds for which a run goes on when all has healed

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.fired: Counter[str] = Counter()
        self.uncleaned: set[str] = set()
        self.world = again(self._fleet(), seed=seed)
        self.watch = EvictionWatch()
        self.watch.attach(self.world)
        self.world.checks += [TaintWatch(), AskedWatch(), self._look]
        self.chance = random.Random(f"trouble {seed}")  # apart from the workers': an edited fault leaves others alone
        self.plan = self._planned()
        self.spared = set[str]()  # members that the story needs, which fail only where no other can
        self._broken_until: dict[str, float] = {}  # seconds since the start, by member
        self._waiting: list[tuple[Predicate, Callable[[], None], float]] = []
        for name in APPS:
            self._apply(name, self.chance.choice(POLICIES))

    def _fleet(self) -> Simulation:
        """Return what every seed begins with."""
        return fleet()

    def _planned(self) -> list[tuple[float, str]]:
        """Return when which fault shall happen. The first goes by the seed, so that each is the first in its turn."""
        names = list(trouble.FAULTS)
        often = [trouble.OFTEN.get(name, 1.0) for name in names]
        chosen = [names[self.seed % len(names)], *self.chance.choices(names, often, k=PER_SEED - 1)]
        start = HEADSTART if set(chosen) & set(trouble.LONG) else 0.0
        within = dict.fromkeys(names, (start, SPREAD)) | dict.fromkeys(trouble.PATIENT, (start, start + EARLY))
        within |= dict.fromkeys(trouble.LONG, (0.0, FIRST))
        return sorted((BEGINS + self.chance.uniform(*within[name]), name) for name in chosen)

    def _apply(self, name: str, policy: str) -> None:
        for text in (policy, NGINX % 3):
            self.world.create(admitted(text, self.world.settings, now=self.world.now, rename=("nginx", name)))

    def run(self) -> Simulation:
        """Let the faults happen, then let everything heal. Raises AssertionError where something does not hold."""
        for moment, fault in self.plan:
            self.world.at(moment, lambda fault=fault: self.happens(fault))
        self.world.at(HEALS, self._heal)
        moment, version = HEALS, -1
        while moment < QUIET_AT and (self._changes() != version or self.left_over()):
            moment, version = moment + AT_REST, self._changes()
            self.world.run(moment)
        assert not (problem := self.left_over()), f"not healed: {problem}"
        self._rests(moment)
        Audit().whole(self.world)
        return self.world

    def _rests(self, since: float) -> None:
        """Assert that nothing is written any more, and that all is as it has to be in the end."""
        if not self.rest:
            return
        self.world.run(since + CALMS)
        before = len(self.world.store.log)
        self.world.run(since + CALMS + self.rest)
        late = [change for change in self.world.store.log[before:] if change.ref.kind != LEASE]
        written = [f"{change.actor} {change.reason} {change.ref} at {change.at}" for change in late]
        assert not written, f"not at rest: {written[:6]}"
        assert not (problem := self.left_over() or unsettled(self.world, self.uncleaned)), f"not settled: {problem}"

    def _changes(self) -> int:
        """Return how much was written so far. A run ends when it stays the same."""
        return self.world.store.version

    def happens(self, fault: str) -> None:
        """Let a kind of trouble begin."""
        trouble.FAULTS[fault](self)

    def left_over(self) -> str:
        """Return what has not healed; "" where everything has."""
        return unhealed(self.world)

    # What faults are made of

    def fires(self, fault: str) -> None:
        """Count a fault that happened."""
        self.fired[fault] += 1
        self.world.note(f"fault: {fault}")

    def when(self, predicate: Predicate, action: Callable[[], None], *, within: float = 45.0) -> None:
        """Do something once, right after the step that makes something true."""
        self._waiting.append((predicate, action, self.seconds + within))
        self._look(self.world)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return (self.world.now - START).total_seconds()

    def _look(self, world: Simulation) -> None:
        seconds = self.seconds
        for one in list(self._waiting):
            predicate, action, until = one
            if seconds > min(until, HEALS):
                self._waiting.remove(one)
            elif predicate():
                self._waiting.remove(one)
                world.after(0, action)

    def victim(self, *, long: bool = False) -> str:
        """Return a member that is well and holds something; any where there is none. `long`: well for ten minutes."""
        well = [name for name, member in sorted(self.world.members.items()) if member.fault == UP]
        well = [name for name in well if name not in self.spared] or well
        if long:
            well = [
                name
                for name in well
                if (at := ready_long_enough_at(self.cluster(name))) is not None and at <= self.world.now
            ]
        placed = {target.name for one in self.world.store.list(kinds.RESOURCE_BINDING) for target in one.spec.clusters}
        return self.chance.choice([name for name in well if name in placed] or well or sorted(self.world.members))

    def outage(self, least: float, most: float) -> None:
        """Let a member be out for some seconds: one that is out already, mostly, where that is one. What goes wrong
        with workers, Redis, database and people needs an outage; not each needs its own."""
        out = [name for name, member in sorted(self.world.members.items()) if member.fault == DOWN]
        shared = out and self.chance.random() < SHARED
        self.breaks(self.chance.choice(out) if shared else self.victim(), seconds=self.chance.uniform(least, most))

    def breaks(self, member: str, fault: str = "down", *, seconds: float = 0.0) -> None:
        """Order a fault of a member, for so long where that is said."""
        if self.world.members[member].fault != fault:
            self.world.fault(member, fault)
        if seconds:
            self._broken_until[member] = max(self._broken_until.get(member, 0.0), self.seconds + seconds)
            self.world.after(seconds, lambda: self._mended(member, fault))

    def _mended(self, member: str, fault: str) -> None:
        """End a fault, unless it was ordered for longer meanwhile."""
        if self.seconds >= self._broken_until.get(member, QUIET_AT) - 0.001:
            self.mends(member, fault)

    def mends(self, member: str, fault: str = "down") -> None:
        """End a fault, unless it has become another one."""
        if self.world.members[member].fault == fault:
            self._broken_until.pop(member, None)
            self.world.fault(member, UP)

    def ready(self, member: str) -> str:
        """Return what is published of a member: True, False, Unknown."""
        found: str = self.cluster(member).ready
        return found

    def cluster(self, member: str) -> Any:
        """Return a Cluster as it is now."""
        return self.world.store.objects[Ref(kinds.CLUSTER, "", member)]

    def evictions(self, member: str, state: str) -> list[Eviction]:
        """Return the rows of a member's queue, or of all, in a state."""
        rows: list[Eviction] = self.world.store.all_rows(Eviction)
        return [row for row in rows if row.state == state and member in ("", row.cluster)]

    def queued(self, member: str = "") -> bool:
        """Test whether an eviction from a member, or any, waits for its token."""
        return any(row.due_at is not None for row in self.evictions(member, QUEUED))

    def held(self, member: str) -> bool:
        """Test whether an eviction from a member is held."""
        return bool(self.evictions(member, HELD))

    def evicted(self, member: str = "") -> bool:
        """Test whether something has been evicted from a member, or any, since its taint."""
        return bool(self.evictions(member, EVICTED))

    def leaving(self, member: str = "") -> list[Any]:
        """Return the bindings that leave a member, or any."""
        found = self.world.store.list(kinds.RESOURCE_BINDING)
        return [
            one
            for one in found
            if any(task.from_cluster == member or not member for task in one.spec.graceful_eviction_tasks)
        ]

    def blind(self) -> bool:
        """Test whether the fleet is known to be blind."""
        return any(row.blind_since is not None for row in self.world.store.all_rows(FleetState))

    def excuse(self, workload: str) -> None:
        """A user's own edit may cost copies while what it asks for comes up [no-healthy-copy-lost]."""
        self.world.excused[workload] = self.world.now + timedelta(seconds=30)

    def configure(self, **overrides: Any) -> None:
        """Change settings as a user does, at run time; what is not named is as it was at the start."""
        store, ref = self.world.store, FLEET
        old: Any = store.object(ref)
        number = 1 if old is None else old.metadata.generation + 1
        meta = ObjectMeta(name=ref.name, uid="uid-settings", generation=number) if old is None else old.metadata
        meta = msgspec.structs.replace(meta, generation=number)
        new = FailoverConfiguration(edits.API_VERSION, "FailoverConfiguration", meta, overrides)
        self.world.settings = with_overrides(self.settings, overrides)
        assert not store.apply([(None, Decision(changes=(Put(new, old),)))], by=edits.PERSON)[0].lost

    def _heal(self) -> None:
        self.world.note("everything is mended")
        self.world.redis_away, self.world.kill_rate = False, 0.0
        self.world.dies.clear()
        self.world.store.withheld, self.world.history = "", None
        self._waiting.clear()
        edits.unused(self.world)
        for member in self.world.members:
            self.world.fault(member, UP)
            edits.untaint(self.world, member)
            edits.uncordon(self.world, member)
        self.configure()


@cache
def fleet() -> Simulation:
    """Return the fleet that every seed begins with; it is made once."""
    return in_service(*(f"member{number}" for number in range(1, 6)), settings=SETTINGS)


def unhealed(world: Simulation) -> str:
    """Return what is left over of the trouble; "" where workloads are placed whole, nothing waits, and members hold
    what they should."""
    if world.failures:
        return f"{world.failures[0].error}\n{world.failures[0].trace}"
    for binding in world.store.list(kinds.RESOURCE_BINDING):
        placed = {target.name: target.replicas for target in binding.spec.clusters}
        name, wants = binding.spec.resource.name, binding.spec.replicas
        if binding.spec.graceful_eviction_tasks:
            return f"{binding.ref} still leaves {[one.from_cluster for one in binding.spec.graceful_eviction_tasks]}"
        if binding.spec.placement.divided and sum(placed.values()) != wants:
            return f"{binding.ref} is placed {placed}, not {wants}"
        if not binding.spec.placement.divided and list(placed.values()) != [wants, wants]:
            return f"{binding.ref} is placed {placed}, not twice {wants}"
        for member in world.members.values():
            held = member.objects.get(("apps/v1", "Deployment", "default", name))
            count = None if held is None else held.wanted
            if count != placed.get(member.name):
                return f"{member.name} holds {count} of {name}, placed {placed}"
    if waiting := world.store.evictions_by_cluster():
        return f"{waiting} still queued"
    return ""


def replay(seed: int, module: str = "chaos") -> str:
    """Return how a seed is run again."""
    return f"python -m tests.simulation.{module} {seed}"


def run(seed: int) -> Chaos:
    """Run one seed. Raises AssertionError with what does not hold, how to run it again, and what happened."""
    chaos = Chaos(seed)
    ran(chaos, replay(seed))
    return chaos


def ran(chaos: Chaos, command: str) -> None:
    """Run what a seed has made; `command`: how that is done again. Raises AssertionError as `run` does."""
    try:
        chaos.run()
    except AssertionError as error:
        ordered = ", ".join(f"{what} at {moment:.1f} s" for moment, what in chaos.plan)
        story = f"seed {chaos.seed}: {error}\nreplay: {command}\nordered: {ordered}\n{reported(chaos.world)}"
        raise AssertionError(story) from error


if __name__ == "__main__":
    try:
        print(reported(run(int(sys.argv[1])).world))
    except AssertionError as failed:
        sys.exit(str(failed))
