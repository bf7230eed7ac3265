"""Both stores do the same with the same decisions: what is stored, what is lost, and what is due afterwards."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from controlplane.apimachinery.meta import Condition, Object, Ref
from controlplane.engine.decision import Decision, Delete, Drop, Guard, Put, Save
from controlplane.engine.state import Claim
from controlplane.kind import text_of
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.binding import TargetCluster
from controlplane.kinds.rows import CapacityReservation
from tests.builders.bare import binding
from tests.stores.grounds import PLACER, USER, DjangoGround, Ground, MemoryGround

NAMES = ("web", "db", "cache")
STEPS = 40
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


class Script:
    """One store with a seeded series of writes. `read`: earlier states of objects, from which stale writes are made."""

    def __init__(self, ground: Ground, seed: int) -> None:
        self.store: Any = ground.store
        self.draw = random.Random(seed)
        self.read: dict[str, list[Any]] = {name: [] for name in NAMES}

    def step(self) -> object:
        """Write something; return everything that can be seen of it."""
        self._remember()
        outcomes = self._by_user() if self.draw.random() < 0.4 else self._by_controller()
        return {
            "lost": [outcome.lost for outcome in outcomes],
            "written": [[version > 0 for version in outcome.versions] for outcome in outcomes],
            "objects": [None if obj is None else _document(obj) for one in outcomes for obj in one.objects],
            "stored": [_document(obj) for obj in self.store.list(RESOURCE_BINDING)],
            "due": sorted(map(str, (claim.ref for claim in self._claims()))),
        }

    def _claims(self) -> Sequence[Claim]:
        found: Sequence[Claim] = self.store.claim("placer", shard=0, shards=1, limit=100, lease_seconds=0).claims
        return found

    def _remember(self) -> None:
        for name in NAMES:
            current = self.store.get([_ref(name)]).get(_ref(name))
            if current is not None and current not in self.read[name]:
                self.read[name].append(current)

    def _old(self, name: str) -> Any:
        """Return a state of an object: mostly the newest, sometimes an earlier one, None if there was none."""
        known = self.read[name]
        if not known:
            return None
        return known[-1] if self.draw.random() < 0.75 else self.draw.choice(known)

    def _by_user(self) -> Any:
        name = self.draw.choice(NAMES)
        old = self._old(name)
        if old is None or self.draw.random() < 0.1:
            return self._apply([(None, Decision(changes=(Put(binding(name), None),)))], by=USER)
        way = self.draw.randrange(4)
        changes: Any = Put(old.with_meta(labels={"n": str(self.draw.randrange(3))}), old)
        if way == 1:
            changes = Put(old.with_spec(replicas=self.draw.randrange(1, 4)), old)
        elif way == 2:
            changes = Delete(old)
        return self._apply([(None, Decision(changes=(changes,)))], by=USER)

    def _by_controller(self) -> Any:
        claims = {claim.ref: claim for claim in self._claims()}
        batch: list[tuple[Claim | None, Decision]] = []
        for name in self.draw.sample(NAMES, self.draw.randrange(1, 4)):
            decision = Decision(
                changes=tuple(self._changes(name)),
                guards=tuple(self._guards(name)),
                wake_at=self.draw.choice([None, None, self.store.now() + timedelta(hours=1)]),
                reason="Test",
            )
            batch.append((claims.get(_ref(name)), decision))
        return self._apply(batch, by=PLACER)

    def _changes(self, name: str) -> Iterable[Any]:
        """Yield up to three changes; several may be of one object, each made from the state that was read."""
        for _ in range(self.draw.randrange(4)):
            target = name if self.draw.random() < 0.8 else self.draw.choice(NAMES)
            old, number = self._old(target), self.draw.randrange(3)
            if old is None:
                yield Put(binding(target), None)
            elif self.draw.random() < 0.5:
                yield Put(old.with_spec(clusters=(TargetCluster(f"member{number}", 2),)), old)
            else:
                condition = Condition("Scheduled", "True", "Test", f"take {number}")
                yield Put(old.with_status(conditions=(condition,)), old)

    def _guards(self, name: str) -> Iterable[Guard]:
        other = self.draw.choice(NAMES)
        if other != name and self.draw.random() < 0.2 and (old := self._old(other)) is not None:
            yield Guard(old.ref, old.metadata.generation)

    def _apply(self, batch: Any, **given: Any) -> Any:
        return self.store.apply(batch, **given)


def _reservation(draw: random.Random) -> CapacityReservation:
    made_at = MOMENT + timedelta(seconds=draw.randrange(3))
    return CapacityReservation(draw.choice(NAMES), "a binding", "member1", draw.randrange(1, 4), "{}", made_at)


def _rows_after_each_batch(store: Any, seed: int) -> Iterator[object]:
    """Write batches with several changes of the same row-native values; yield what is stored after each batch."""
    draw = random.Random(seed)
    for _ in range(STEPS):
        changes = [draw.choice((Save, Drop))(_reservation(draw)) for _ in range(draw.randrange(1, 7))]
        store.apply([(None, Decision(changes=(change,))) for change in changes], by=PLACER)
        yield store.rows(CapacityReservation, "key", NAMES)


def _ref(name: str) -> Ref:
    return Ref(RESOURCE_BINDING, "shop", name)


def _document(obj: Object) -> object:
    """Return an object without its version: the stores may count differently."""
    document = msgspec.json.decode(text_of(obj))
    document["metadata"].pop("resourceVersion", None)
    return document


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", range(12))
def test_both_stores_do_the_same_with_the_same_decisions(seed: int) -> None:
    memory, database = Script(MemoryGround(), seed), Script(DjangoGround(), seed)
    for number in range(STEPS):
        assert memory.step() == database.step(), f"step {number} of seed {seed}"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("seed", range(4))
def test_both_stores_keep_the_same_rows_after_several_changes_of_one_in_a_batch(seed: int) -> None:
    memory, database = (_rows_after_each_batch(ground.store, seed) for ground in (MemoryGround(), DjangoGround()))
    for number, (left, right) in enumerate(zip(memory, database, strict=True)):
        assert left == right, f"batch {number} of seed {seed}"
