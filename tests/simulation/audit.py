"""What must hold of the record of every run, asserted after every step from the change log."""

from __future__ import annotations

from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Decision, deleting
from controlplane.engine.state import Actor, Change
from controlplane.kind import text_of
from controlplane.kinds import BINDINGS, EVENT
from controlplane.kinds.binding import Binding
from controlplane.kinds.event import Event
from controlplane.kinds.rows import Eviction
from tests.simulation.world import Simulation

EVICTED_EVENT = "EvictWorkloadFromClusterSucceed"


class Audit:
    """Plays the log as a reader would who has nothing else, and compares with what is stored."""

    def __init__(self) -> None:
        self._played: dict[Ref, bytes] = {}
        self._version = 0
        self._read = 0
        self._losses = 0
        self._written: tuple[int, ...] = ()
        self._tried: Binding | None = None  # what a dry run deleted last

    def __call__(self, world: Simulation) -> None:
        if (written := world.store.written()) == self._written:
            return
        self._written = written
        if world.losses != self._losses:  # what was lost never happened: the log shows that too
            self._losses, self._played, self._version, self._read = world.losses, {}, 0, 0
        fresh = world.store.log[self._read :]
        self._read = len(world.store.log)
        for change in fresh:
            self._play(world, change)
        self._compare(world, fresh)
        self._dry_run_writes_nothing(world)

    def _play(self, world: Simulation, change: Change) -> None:
        """[decisions-are-traced] who and by which rule; [audit-with-the-write] a line for each version, none left
        out, each beginning where one ended."""
        assert change.version == self._version + 1, (
            f"[audit-with-the-write] version {change.version} follows {self._version} in the log"
        )
        self._version = change.version
        assert change.actor, f"[decisions-are-traced] no actor wrote {change.ref} at version {change.version}"
        by_controller = change.actor in world.store.router.controllers
        assert change.reason or not by_controller, (
            f"[decisions-are-traced] {change.actor} wrote {change.ref} for no reason"
        )
        assert change.old_document == self._played.get(change.ref), (
            f"[replay-is-equal] {change.ref} was another before {change.version}"
        )
        if change.type == "DELETED":
            self._played.pop(change.ref, None)
        else:
            self._played[change.ref] = change.document

    def _compare(self, world: Simulation, fresh: list[Change]) -> None:
        """[replay-is-equal] playing the log gives what is stored; [audit-with-the-write] nothing is stored that the
        log does not tell."""
        assert self._version == world.store.version, (
            f"[audit-with-the-write] version {world.store.version}, the log ends at {self._version}"
        )
        assert len(self._played) == len(world.store.objects), (
            "[replay-is-equal] the log tells of other objects than are stored"
        )
        for ref in {change.ref for change in fresh}:
            stored = world.store.object(ref)
            text = None if stored is None else text_of(stored)
            assert self._played.get(ref) == text, f"[replay-is-equal] {ref} is stored otherwise than the log tells"

    def _dry_run_writes_nothing(self, world: Simulation) -> None:
        """[dry-run-writes-nothing] what is only tried leaves no trace: no version, row, due mark or line in the log.
        Tried after every step
        in which the binding is another."""
        store = world.store
        placed = (one for one in store.list(BINDINGS[0]) if one.spec.clusters or one.spec.graceful_eviction_tasks)
        binding = next(placed, None)
        if binding is None or binding is self._tried:
            return
        self._tried = binding
        before = store.stamp()
        tried = Decision(changes=(deleting(binding, now=world.now),))
        outcome = store.apply([(None, tried)], by=Actor("tries"), dry_run=True)[0]
        assert not outcome.lost, f"[dry-run-writes-nothing] a dry run was refused: {outcome.lost}"
        assert store.stamp() == before, "[dry-run-writes-nothing] a dry run has written"

    def whole(self, world: Simulation) -> None:
        """[replay-is-equal], for all objects and the whole log at once: at the end of a run."""
        self(world)
        for ref, stored in world.store.objects.items():
            assert self._played[ref] == text_of(stored), f"[replay-is-equal] {ref}"


def eviction_is_reported(world: Simulation, row: Eviction) -> None:
    """[decisions-are-traced] an eviction can be read afterwards: why, in its row, and as an Event about its binding."""
    ref = Ref.parse(row.binding)
    reported: list[Event] = [
        one for one in world.store.list(EVENT, namespace=ref.namespace) if one.reason == EVICTED_EVENT
    ]
    here = [one.message for one in reported if one.involved_object.name == ref.name]
    assert row.message, f"[decisions-are-traced] {row.key} does not say why it happened"
    assert any(f"cluster {row.cluster} " in one for one in here), (
        f"[decisions-are-traced] no Event tells of {row.key}: {here}"
    )
