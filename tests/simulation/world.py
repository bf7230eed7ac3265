"""The seeded simulator: the product's own controllers and run loop under a virtual clock, with k interleaved workers.

Time only moves when nothing is due. Workers interleave where it matters: between what a controller read and what it
writes, another worker may get its whole turn (`Store.apply`), and a worker may die between any two effects: before
and after a write, after it took a token, after a member did what it was asked.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from controlplane import kinds
from controlplane.apimachinery.meta import Object, Ref
from controlplane.apimachinery.names import execution_namespace
from controlplane.clusters.questions import Discard, Ensure
from controlplane.controllers import CONTROLLERS
from controlplane.controllers.work_status import WorkStatus
from controlplane.engine import run
from controlplane.engine.cascade import followers
from controlplane.engine.controller import Controller
from controlplane.engine.failure import Failure
from controlplane.engine.memory import MemoryStore
from controlplane.engine.run import World, run_batch
from controlplane.engine.state import LeaseLost
from controlplane.eviction.rate import Bucket, TakeTokens, Tokens, take_tokens
from controlplane.settings import Settings
from tests.simulation.agents import Agent
from tests.simulation.member import DOWN, UNAUTHORIZED, Member, place_of
from tests.simulation.store import Kept, Killed, Store

START = datetime(2026, 3, 1, 2, 36, 26, tzinfo=UTC)
LEASE_SECONDS = 5.0
LIMITS = (1, 3, 500, 500, 500, 500)  # how many objects a worker takes at once
BETWEEN = 0.3  # chance of another worker's turn between what one read and what it writes

Check = Callable[["Simulation"], None]
Serving = dict[str, int]  # replicas that serve, by member


@dataclass
class Simulation:
    """One run. `kill_rate`: chance of a worker dying at each point between two effects; `workers`: how many
    interleave."""

    seed: int = 0
    settings: Settings = field(default_factory=Settings)
    workers: int = 3
    kill_rate: float = 0.0
    now: datetime = START
    members: dict[str, Member] = field(default_factory=dict)
    agents: dict[str, Agent] = field(default_factory=dict)  # of the members that are Pull clusters
    failures: list[Failure] = field(default_factory=list)
    kills: int = 0
    redis_away: bool = False

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.controllers: tuple[Controller, ...] = tuple(type(one)() for one in CONTROLLERS)
        self.store = Store(self)
        self.buckets: dict[str, Bucket] = {}
        self.died: Counter[str] = Counter()  # by where the worker was
        self.dies: dict[str, int] = {}  # a worker dies when it comes to such a point for the n-th time
        self.slept = 0  # how many workers slept over the end of their lease
        self.tokens: list[datetime] = []  # when each token was given
        self.excused: dict[str, datetime] = {}  # until when fewer copies of a workload are its user's own wish
        self.granted: dict[str, int] = {}  # how many replicas of a workload were placed when all it asked for was
        self.journal: list[tuple[datetime, str]] = []  # what happened besides changes of objects
        self.checks: list[Check] = []  # after every step
        self.asked: list[Callable[[Simulation, TakeTokens, Tokens], None]] = []  # before a worker has its tokens
        # of a workload: what served before and after we asked a member for something
        self.taken: list[Callable[[Simulation, str, Serving, Serving], None]] = []
        self.losses = 0  # how often the database lost its last commits
        self.stalled_until = START  # no worker runs before
        self.hesitates = 0.0  # chance of another worker's turn between what one read and what it asks a member
        self.unwatched: set[str] = set()  # members whose watch is late: it reports nothing for now
        self.history: deque[Kept] | None = None  # what the database was before the last turns, where a test asked
        self._outside = World(self._answer, self.failures.append)
        self._turns = 0
        self._depth = 0
        self._events: list[tuple[datetime, int, Callable[[], None]]] = []
        self._ordered = 0
        self._seen: dict[Ref, Any] = {}  # what the watch on a member last said of a Work's object
        self._stepped: tuple[int, ...] = ()  # what was written when the checks ran last

    # What a story says

    def create(self, *objects: Object) -> None:
        """Apply objects as a user would."""
        self.store.create(*objects)

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something so many seconds after the start of the simulation."""
        self._ordered += 1
        self._events.append((START + timedelta(seconds=seconds), self._ordered, action))
        self._events.sort(key=lambda one: one[:2])

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something so many seconds from now."""
        self.at((self.now - START).total_seconds() + seconds, action)

    def note(self, text: str) -> None:
        """Keep in the journal what happened just now."""
        self.journal.append((self.now, text))

    def fault(self, member: str, fault: str) -> None:
        """Order a fault of a member, from now on."""
        self.note(f"{member}: fault {fault}")
        if self.members[member].fault in (DOWN, UNAUTHORIZED):  # a watch that begins again lists everything
            self.seen_again(member)
        self.members[member].fault = fault
        self._mark_statuses(member)

    def stall(self, seconds: float) -> None:
        """Let no worker run for so long: ticks are late."""
        self.stalled_until = self.now + timedelta(seconds=seconds)

    def restart(self) -> None:
        """Let all workers begin again: what they kept in memory is gone, and they look at what processes begin with."""
        self.note("all workers begin again")
        self.controllers = tuple(type(one)() for one in self.controllers)
        run.mark_due_at_start(self.controllers, self.store)
        for agent in self.agents.values():
            agent.listens_again()

    def lose_commits(self, kept: Kept) -> None:
        """Put the database back to what it was; members, Redis and the clock know nothing of it. All workers die."""
        lost = self.store.version - kept.version
        self.note(f"the database loses its last {lost} versions")
        self.losses += 1
        self.store.put_back(kept)
        self._seen.clear()  # processes list their members again after their connections broke
        self.restart()
        for name in self.members:
            self._mark_statuses(name)

    def run(self, seconds: float) -> None:
        """Let the world go on until so many seconds after the start."""
        ends = START + timedelta(seconds=seconds)
        while True:
            if self.now >= self.stalled_until:
                self._work_off()
            upcoming = self._next()
            if upcoming is None or upcoming > ends:
                self.now = ends
                return
            self.now = upcoming
            self._happen()
            for name, member in self.members.items():
                if member.turned(now=self.now):
                    self._mark_statuses(name)
            self._check()

    # How it goes

    def _next(self) -> datetime | None:
        """Return the next moment at which anything can happen."""
        moments = [self._events[0][0]] if self._events else []
        if self.stalled_until > self.now:
            return min([*moments, self.stalled_until])
        moments += [one for one in self.store.moments() if one > self.now]
        for member in self.members.values():
            change = member.next_change(now=self.now)
            moments += [change] if change is not None else []
        for agent in self.agents.values():
            moments += [moment for moment in agent.moments() if moment > self.now]
        return min(moments, default=None)

    def _happen(self) -> None:
        """Let happen what was ordered for now."""
        while self._events and self._events[0][0] <= self.now:
            self._events.pop(0)[2]()

    def _work_off(self) -> None:
        for _ in range(5000):
            if not self._round():
                return
        raise AssertionError(f"seed {self.seed}: controllers undo each other's work at {self.now}: {self._loudest()}")

    def _loudest(self) -> list[Any]:
        rows = ((name, ref, due) for name, rows in self.store.due.items() for ref, due in rows.items())
        return sorted((str(ref), name) for name, ref, due in rows if due.due_at <= self.now)[:8]

    def _round(self) -> int:
        turns = self._turns_now()
        self.chance.shuffle(turns)
        claimed = 0
        for turn in turns:
            self._happen()
            if self.history is not None:
                self.history.append(self.store.keep())
            claimed += turn()
        return claimed

    def _turns_now(self) -> list[Callable[[], int]]:
        """Return the turns of workers and agents that have something to do, in their order."""
        turns: list[Callable[[], int]] = [partial(self._turn, one) for one in self._due_now()]
        for agent in self.agents.values():
            turns += [partial(self._agent_turn, turn) for turn in agent.turns()]
        return turns

    def _agent_turn(self, turn: Callable[[], int]) -> int:
        claimed = turn()
        self._check()
        return claimed

    def _due_now(self) -> list[Controller]:
        """Return the controllers something is due for, in their order."""
        due = self.store.due_now()
        return [controller for controller in self.controllers if controller.name in due] if due else []

    def _turn(self, controller: Controller) -> int:
        """Let a worker run one batch of a controller; 0 where another worker has the lease of its group."""
        self._turns += 1
        holder = f"turn-{self._turns}"
        claimed = 0
        for shard in range(controller.shards):
            lease = self.store.take_lease(controller.group, shard, holder=holder, seconds=LEASE_SECONDS)
            if lease is None:
                continue
            self.store.working += 1
            try:
                claimed += run_batch(
                    controller,
                    self.store,
                    self.settings,
                    world=self._outside,
                    shard=shard,
                    lease=lease,
                    limit=self.chance.choice(LIMITS),
                    following=followers(controller, self.controllers, self.settings),
                ).claimed
            except Killed:
                claimed += 1
                continue  # its lease runs out, and so do its claims
            finally:
                self.store.working -= 1
            self.store.drop_lease(lease, holder=holder)
        self._check()
        return claimed

    def _check(self) -> None:
        """Assert what must hold after every step: where anything changed since the last one."""
        stepped = self.store.lost, self.store.version, self.store.kept_in_all
        if stepped == self._stepped:
            return
        self._stepped = stepped
        for check in self.checks:
            check(self)

    def between(self) -> None:
        """Let another worker have its turn between what this one read and what it will write."""
        self.may_die("before a write")
        if self._depth + 1 >= self.workers or self.chance.random() >= BETWEEN:
            return
        if others := self._turns_now():
            self._depth += 1
            try:
                self.chance.choice(others)()
            finally:
                self._depth -= 1

    def may_die(self, where: str) -> None:
        """End the worker here, by chance or where that was ordered."""
        if where in self.dies:
            self.dies[where] -= 1
            if not self.dies[where]:
                del self.dies[where]
                self.die(where)
        if self.kill_rate and self.chance.random() < self.kill_rate:
            self.die(where)

    def die(self, where: str) -> None:
        """End the worker here."""
        self.kills += 1
        self.died[where] += 1
        self.note(f"a worker dies {where}")
        raise Killed

    def oversleep(self, write: Callable[[], Any]) -> None:
        """Let a worker sleep before its write until its lease is another's; then the write has to be refused."""

        def wake() -> None:
            try:
                write()
            except LeaseLost:
                self.note("a late write is refused: its lease has passed")
            else:
                raise AssertionError(f"seed {self.seed}: a write was accepted after its lease had passed")

        self.after(LEASE_SECONDS + 1, wake)
        self.slept += 1
        self.note("a worker falls asleep before its write")
        raise Killed

    # The world outside

    def _answer(self, question: Any) -> Any:
        if isinstance(question, TakeTokens):
            tokens = self._tokens(question)
            for hook in self.asked:
                hook(self, question, tokens)
            if any(tokens.granted.values()):
                self.note(f"{sum(tokens.granted.values())} tokens at {question.rate}/s")
                self.may_die("after taking tokens")
            return tokens
        if self.hesitates and self.chance.random() < self.hesitates:
            self.between()
        return [None if one is None else self.ask_member(one) for one in question]

    def _tokens(self, question: TakeTokens) -> Tokens:
        if self.redis_away:
            return Tokens({}, 1.0, problem="Redis does not answer")
        granted, waits = {}, []
        for name, wanted in question.wanted.items():
            taken = take_tokens(self.buckets.get(name), wanted, rate=question.rate, at=self.now.timestamp())
            self.buckets[name] = taken.bucket
            granted[name] = taken.granted
            self.tokens += [self.now] * taken.granted
            waits += [taken.next_in] if taken.next_in >= 0 else []
        return Tokens(granted, min(waits, default=-1.0))

    def ask_member(self, question: Any) -> Any:
        """Return the answer of a member to a worker, or to its own agent."""
        if not isinstance(question, Ensure | Discard):
            name = question.cluster if hasattr(question, "cluster") else question.target.cluster
            return self.members[name].answer(question, now=self.now)
        place = place_of(question.manifest)
        before = self.serving(place[3])
        answer = self.members[question.target.cluster].answer(question, now=self.now)
        for hook in self.taken:
            hook(self, place[3], before, self.serving(place[3]))
        self._mark_statuses(question.target.cluster)
        self.may_die("after a member acted")
        return answer

    def serving(self, workload: str) -> Serving:
        """Return how many replicas of a Deployment serve now, by member."""
        place = ("apps/v1", "Deployment", "default", workload)
        return {name: member.ready_replicas(place, now=self.now) for name, member in self.members.items()}

    def _mark_statuses(self, name: str) -> None:
        """Play the watch stream of a member: every Work whose object changed there is looked at again."""
        member, store = self.members[name], self._watching(name)
        if store is None or name in self.unwatched or member.fault in (DOWN, UNAUTHORIZED):
            return
        for work in store.by_index(kinds.WORK, "cluster", [name]).get(name, ()):
            held = member.seen(place_of(work.manifest)) if work.manifest else None
            seen = None if held is None else member.document(held, now=self.now).get("status")
            if self._seen.get(work.ref) != (seen, held is None):
                self._seen[work.ref] = (seen, held is None)
                store.mark(WorkStatus.name, [work.ref])

    def _watching(self, name: str) -> MemoryStore | None:
        """Return the store of the process that watches a member; None: its agent does not run."""
        if name not in self.agents:
            return self.store
        process = self.agents[name].process
        return None if process is None else process.store

    def seen_again(self, name: str) -> None:
        """Let a watch on a member begin again, which lists everything."""
        self._seen = {ref: seen for ref, seen in self._seen.items() if ref.namespace != execution_namespace(name)}
        if name in self.agents:
            self._mark_statuses(name)
