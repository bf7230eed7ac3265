"""Leases of the store in memory: who holds a shard of a group, and what an older holder may still do."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from controlplane.engine.memory_leases import MemoryLeases
from controlplane.engine.state import HeldLease, LeaseLost
from tests.builders.bare import START


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def taken(leases: MemoryLeases, holder: str, seconds: float = 0, *, name: str = "failover", shard: int = 0) -> int:
    """Take a lease for ten seconds; return its epoch. 0: another holder has it."""
    held = leases.take(name, shard, holder=holder, seconds=10, now=at(seconds))
    return 0 if held is None else held.epoch


@pytest.mark.parametrize(("second", "seconds", "epoch"), [("m", 9, 1), ("m", 10, 2), ("a", 9, 0), ("z", 9, 0)])
def test_a_lease_is_renewed_by_its_holder_and_taken_by_others_once_it_expired(
    second: str, seconds: int, epoch: int
) -> None:
    leases = MemoryLeases()
    assert taken(leases, "m") == 1

    assert taken(leases, second, seconds) == epoch
    assert taken(leases, second, seconds, shard=1) == 1


@pytest.mark.parametrize(
    ("holder", "epoch", "ends"), [("m", 2, True), ("a", 2, False), ("z", 2, False), ("m", 1, False), ("m", 3, False)]
)
def test_a_lease_is_ended_by_its_holder_under_its_epoch_alone(holder: str, epoch: int, *, ends: bool) -> None:
    leases = MemoryLeases()
    taken(leases, "m")
    taken(leases, "m", 20)  # epoch 2

    leases.drop(HeldLease("failover", 0, epoch), holder=holder, now=at(21))

    assert taken(leases, "other", 21) == (3 if ends else 0)


def test_a_lease_that_was_never_taken_cannot_be_ended() -> None:
    leases = MemoryLeases()
    leases.drop(HeldLease("failover", 0, 1), holder="m", now=START)

    assert leases == {}


@pytest.mark.parametrize(("epoch", "seconds"), [(1, 20), (3, 20), (2, 30), (2, 31)])
def test_a_decision_under_another_epoch_or_after_the_end_is_refused(epoch: int, seconds: int) -> None:
    leases = MemoryLeases()
    taken(leases, "m")
    taken(leases, "n", 20)

    leases.check(HeldLease("failover", 0, 2), now=at(29))
    with pytest.raises(LeaseLost, match=f"failover/0 epoch {epoch}"):
        leases.check(HeldLease("failover", 0, epoch), now=at(seconds))


def test_the_last_end_of_a_name_is_that_of_its_own_shards() -> None:
    leases = MemoryLeases()
    taken(leases, "m", 5)
    taken(leases, "m", 7, shard=1)
    for name in ("alpha", "zulu"):
        taken(leases, "m", 100, name=name)

    assert leases.held_until("failover") == at(17)
    assert leases.held_until("none") is None
