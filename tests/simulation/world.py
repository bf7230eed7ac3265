"""The seeded simulator: the product's own controllers and run loop under a virtual clock, with k interleaved workers.

Time only moves when nothing is due. Workers interleave where it matters: between what a controller read and what it
writes, another worker may get its whole turn (`_Interleaved.apply`), and a worker may die on either side of a write.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane import kinds
from controlplane.controllers import CONTROLLERS
from controlplane.controllers.work_status import WorkStatus
from controlplane.decision import Decision
from controlplane.eviction.rate import Bucket, TakeTokens, Tokens, take
from controlplane.memory import MemoryStore
from controlplane.meta import Object, Ref
from controlplane.run import Failure, World, run_batch
from controlplane.settings import Settings
from controlplane.state import Actor, Claim, Fence, Outcome
from tests.simulation.member import Member, place_of

START = datetime(2026, 3, 1, 2, 36, 26, tzinfo=UTC)


class Killed(Exception):
    """The worker died here (kill -9): nothing after this line of it happens."""


class _Interleaved(MemoryStore):
    """A MemoryStore whose writes are where other workers and death come in between."""

    before_apply: Callable[[], None] = staticmethod(lambda: None)
    after_apply: Callable[[], None] = staticmethod(lambda: None)

    def apply(
        self,
        decisions: Sequence[tuple[Claim | None, Decision]],
        *,
        by: Actor,
        fence: Fence | None = None,
        dry_run: bool = False,
    ) -> Sequence[Outcome]:
        if by.controller:
            self.before_apply()
        outcomes = super().apply(decisions, by=by, fence=fence, dry_run=dry_run)
        if by.controller:
            self.after_apply()
        return outcomes


@dataclass
class Simulation:
    """One run. `kill_rate`: chance of a worker dying at each side of a write; `workers`: how many interleave."""

    seed: int = 0
    settings: Settings = field(default_factory=Settings)
    workers: int = 3
    kill_rate: float = 0.0
    now: datetime = START
    members: dict[str, Member] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    kills: int = 0
    redis_away: bool = False

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.store = _Interleaved(controllers=CONTROLLERS, clock=lambda: self.now)
        self.store.before_apply = self._between
        self.store.after_apply = self._maybe_die
        self.buckets: dict[str, Bucket] = {}
        self.tokens: list[datetime] = []  # when each token was given
        self.excused: dict[str, datetime] = {}  # until when fewer copies of a workload are its user's own wish
        self._running: set[str] = set()  # groups whose lease is held: one worker at a time has it
        self._depth = 0
        self._checked = 0  # the version up to which the invariants have been asserted
        self._events: list[tuple[datetime, int, Callable[[], None]]] = []
        self.checks: list[Callable[[Simulation], None]] = []

    # What a story says

    def create(self, *objects: Object) -> None:
        """Apply objects as a user would."""
        self.store.create(*objects)

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something so many seconds after the start of the simulation."""
        self._events.append((START + timedelta(seconds=seconds), len(self._events), action))
        self._events.sort(key=lambda one: one[:2])

    def fault(self, member: str, fault: str) -> None:
        """Order a fault of a member, from now on."""
        self.members[member].fault = fault
        self._mark_statuses()

    def run(self, seconds: float) -> None:
        """Let the world go on until so many seconds after the start."""
        ends = START + timedelta(seconds=seconds)
        while True:
            self._work_off()
            upcoming = self._next(ends)
            if upcoming is None:
                self.now = ends
                return
            self.now = max(upcoming, self.now)
            while self._events and self._events[0][0] <= self.now:
                self._events.pop(0)[2]()
            self._mark_statuses()

    # How it goes

    def _next(self, ends: datetime) -> datetime | None:
        moments = [self._events[0][0]] if self._events else []
        due = self.store.next_due([one.name for one in CONTROLLERS])
        moments += [due] if due is not None else []
        for member in self.members.values():
            change = member.next_change(now=self.now)
            moments += [change] if change is not None else []
        upcoming = min(moments, default=None)
        return upcoming if upcoming is not None and upcoming <= ends else None

    def _work_off(self) -> None:
        for _ in range(5000):
            if not self._round():
                return
        raise AssertionError(f"seed {self.seed}: controllers undo each other's work at {self.now}: {self._loudest()}")

    def _loudest(self) -> list[Any]:
        return sorted((str(ref), name) for (name, ref), due in self.store.due.items() if due.due_at <= self.now)[:8]

    def _round(self) -> int:
        due = {name for (name, _), row in self.store.due.items() if row.due_at <= self.now}
        controllers = [controller for controller in CONTROLLERS if controller.name in due]
        self.chance.shuffle(controllers)
        return sum(self._turn(controller) for controller in controllers)

    def _turn(self, controller: Any) -> int:
        """Let a worker run one batch of a controller; 0 where another worker has the lease of its group."""
        if controller.group in self._running:
            return 0
        self._running.add(controller.group)
        try:
            return self._batches(controller)
        finally:
            self._running.discard(controller.group)

    def _batches(self, controller: Any) -> int:
        claimed = 0
        for shard in range(controller.shards):
            try:
                claimed += run_batch(
                    controller,
                    self.store,
                    self.settings,
                    world=World(self._answer, self.failures.append),
                    shard=shard,
                    limit=self.chance.choice((1, 3, 500)),
                ).claimed
            except Killed:
                claimed += 1
        if claimed and self.store.version != self._checked:
            self._checked = self.store.version
            for check in self.checks:
                check(self)
        return claimed

    def _between(self) -> None:
        """Let another worker have its turn between what this one read and what it will write."""
        self._maybe_die()
        if self._depth + 1 < self.workers and self.chance.random() < 0.3:
            self._depth += 1
            try:
                self._turn(self.chance.choice(CONTROLLERS))
            finally:
                self._depth -= 1

    def _maybe_die(self) -> None:
        if self.kill_rate and self.chance.random() < self.kill_rate:
            self.kills += 1
            raise Killed

    def _answer(self, question: Any) -> Any:
        if isinstance(question, TakeTokens):
            return self._tokens(question)
        return [None if one is None else self._ask_member(one) for one in question]

    def _tokens(self, question: TakeTokens) -> Tokens:
        if self.redis_away:
            return Tokens({}, 1.0, problem="Redis does not answer")
        granted, waits = {}, []
        for name, wanted in question.wanted.items():
            taken = take(self.buckets.get(name), wanted, rate=question.rate, at=self.now.timestamp())
            self.buckets[name] = taken.bucket
            granted[name] = taken.granted
            self.tokens += [self.now] * taken.granted
            waits += [taken.next_in] if taken.next_in >= 0 else []
        return Tokens(granted, min(waits, default=-1.0))

    def _ask_member(self, question: Any) -> Any:
        name = question.cluster if hasattr(question, "cluster") else question.target.cluster
        answer = self.members[name].answer(question, now=self.now)
        self._mark_statuses()
        return answer

    def _mark_statuses(self) -> None:
        """Play the watch streams: every Work whose object is on a reachable member is looked at again."""
        for work in self.store.list(kinds.WORK):
            cluster = work.metadata.namespace.removeprefix("karmada-es-")
            member = self.members.get(cluster)
            if member is not None and member.fault in ("none", "notready") and work.manifest:
                held = member.objects.get(place_of(work.manifest))
                seen = None if held is None else member.document(held, now=self.now).get("status")
                if self._seen.get(work.ref) != (seen, held is None):
                    self._seen[work.ref] = (seen, held is None)
                    self.store.mark(WorkStatus.name, [work.ref])

    @property
    def _seen(self) -> dict[Ref, Any]:
        found: dict[Ref, Any] = self.__dict__.setdefault("_seen_statuses", {})
        return found
