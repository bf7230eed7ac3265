"""The answer about the readiness of the fleet, from the stored answers for its bindings."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.apimachinery.meta import Struct
from controlplane.insight.readiness_row import ATTACHED, BLOCKED, IMPAIRED, READY
from controlplane.kinds.fleet_readiness import FleetReadinessStatus, ObstacleCount, VerdictCount
from controlplane.kinds.obstacle import BLOCKS, WARNS, Obstacle
from controlplane.kinds.rows import BindingReadiness, ReadinessRound

MAX_EXAMPLES = 5  # bindings named for each obstacle
NOT_COVERED = (
    "covers {covered} of {in_all} bindings: the controller readiness checks the others in the background; read the "
    "readiness of a binding at once with: lifeboat readiness NAME -n NAMESPACE"
)
SWITCHED_OFF = (
    "the controller readiness is switched off, so the answers are old: remove -readiness from LIFEBOAT_CONTROLLERS, or "
    "add readiness, and restart"
)
WAITING = Obstacle("Waiting", WARNS, "an eviction waits", "see the eviction queue: kubectl get evictions -A")


class AnswerTally(Struct, frozen=True):
    """The number of bindings with the same verdict and the same obstacles, and the first of them by reference."""

    verdict: str
    named: str
    bindings: int
    examples: tuple[BindingReadiness, ...]


class StoredAnswers(Struct, frozen=True):
    """What is stored about the readiness of bindings.

    due: bindings that changed and wait to be checked again. waiting: bindings with an eviction that waits.
    """

    tallies: Sequence[AnswerTally]
    round: ReadinessRound
    in_all: int
    due: int = 0
    waiting: int = 0

    @property
    def covered(self) -> int:
        return sum(tally.bindings for tally in self.tallies)

    @property
    def outdated(self) -> int:
        """The number of stored answers that may be wrong until their bindings are checked again."""
        running = self.round.began_at is not None and self.round.ended_at is None
        unchecked = max(0, self.covered - self.round.checked) if running else 0
        return min(self.covered, max(self.due, unchecked))


def fleet_status(
    stored: StoredAnswers, fleet_wide: Sequence[Obstacle], *, switched_on: bool = True
) -> FleetReadinessStatus:
    """Return the answer about the fleet, with the obstacles of most bindings first.

    `fleet_wide`: obstacles of all bindings (`readiness.fleet_obstacles`). `switched_on`: the controller that keeps the
    answers runs.
    """
    own = [tally for tally in stored.tallies if tally.verdict != ATTACHED]
    total = sum(tally.bindings for tally in own)
    stopped = any(one.severity == BLOCKS for one in fleet_wide)
    messages = () if switched_on else (SWITCHED_OFF,)
    if stored.covered < stored.in_all:
        messages = (*messages, NOT_COVERED.format(covered=stored.covered, in_all=stored.in_all))
    return FleetReadinessStatus(
        bindings=total,
        ready=0 if stopped else sum(tally.bindings for tally in own if tally.verdict in (READY, IMPAIRED)),
        bindings_total=max(stored.in_all, stored.covered),
        bindings_covered=stored.covered,
        bindings_outdated=stored.outdated,
        oldest_answer_time=stored.round.settled_at,
        message="; ".join(messages),
        verdicts=tuple(
            VerdictCount(verdict, count)
            for verdict in (READY, IMPAIRED, BLOCKED, ATTACHED)
            if (count := sum(tally.bindings for tally in stored.tallies if tally.verdict == verdict))
        ),
        obstacles=_obstacles(own, fleet_wide, total=total, waiting=stored.waiting),
    )


def _obstacles(
    tallies: Sequence[AnswerTally], fleet_wide: Sequence[Obstacle], *, total: int, waiting: int
) -> tuple[ObstacleCount, ...]:
    """Return the obstacles, the most frequent first, each with examples and the remedy of its first example."""
    everyone = sorted(row.key for tally in tallies for row in tally.examples)[:MAX_EXAMPLES]
    lines = [
        ObstacleCount(one.what, one.severity, total, one.remedy, tuple(everyone))
        for one in {one.what: one for one in fleet_wide}.values()
    ]
    if waiting:
        lines.append(ObstacleCount(WAITING.what, WAITING.severity, waiting, WAITING.remedy))
    for what in {name for tally in tallies for name in tally.named.split(",") if name}:
        having = [tally for tally in tallies if what in tally.named.split(",")]
        examples = sorted((row for tally in having for row in tally.examples), key=lambda row: row.key)[:MAX_EXAMPLES]
        first = next(one for row in examples for one in row.obstacles if one.what == what)
        count, names = sum(tally.bindings for tally in having), tuple(row.key for row in examples)
        lines.append(ObstacleCount(what, first.severity, count, first.remedy, names))
    return tuple(sorted(lines, key=lambda line: (-line.bindings, line.what)))
