"""The clock of PostgreSQL is put back by an hour: what is due, claims and leases end as soon as they would have."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import Ref
from controlplane.kinds import RESOURCE_BINDING
from tests.stores.grounds import DjangoGround, due_refs

pytestmark = pytest.mark.django_db(transaction=True)

WEB = Ref(RESOURCE_BINDING, "default", "web")
HOUR = 3600.0
LEASE = {"holder": "one", "seconds": 15.0}


@pytest.fixture
def ground() -> DjangoGround:
    return DjangoGround()


def put_back(ground: DjangoGround) -> None:
    """Put the clock back: all that is stored is an hour later than it was."""
    ground.pass_time(-HOUR)


def seconds_until_due(store: DjangoStore) -> float:
    return store.seconds_until_due({"placer": 1}, shard=0)["placer"]


def later(store: DjangoStore, seconds: float) -> Any:
    return store.now() + timedelta(seconds=seconds)


def test_what_is_due_in_a_while_is_due_then_and_not_an_hour_later(ground: DjangoGround) -> None:
    store = ground.store
    lease = store.take_lease("test", 0, **LEASE)
    store.mark("placer", [WEB], due_at=later(store, 10))

    put_back(ground)

    assert store.take_lease("test", 0, **LEASE) == lease, "its holder goes on"
    assert 0 < seconds_until_due(store) <= 11


def test_the_lease_of_a_process_that_has_ended_ends_in_time(ground: DjangoGround) -> None:
    store = ground.store
    store.take_lease("test", 0, holder="ended", seconds=15.0)

    put_back(ground)

    assert store.take_lease("test", 0, **LEASE) is None
    ground.pass_time(16)
    assert store.take_lease("test", 0, **LEASE) is not None


def test_a_lease_that_was_returned_before_shows_it_as_well(ground: DjangoGround) -> None:
    store = ground.store
    lease = store.take_lease("test", 0, **LEASE)
    assert lease is not None
    store.drop_lease(lease, holder="one")
    store.mark("placer", [WEB], due_at=later(store, 10))

    put_back(ground)

    assert store.take_lease("test", 0, holder="two", seconds=15.0) is not None
    assert 0 < seconds_until_due(store) <= 11


def test_the_claims_of_a_process_that_has_ended_end_in_time(ground: DjangoGround) -> None:
    store = ground.store
    store.take_lease("test", 0, **LEASE)
    store.mark("placer", [WEB])
    assert store.claim("placer", shard=0, shards=1, limit=1, lease_seconds=30.0).claims

    put_back(ground)
    store.take_lease("test", 0, **LEASE)

    assert due_refs(store) == []
    ground.pass_time(31)
    assert due_refs(store) == [WEB]


def test_it_is_moved_once_however_many_processes_notice(ground: DjangoGround) -> None:
    store = ground.store
    leases = [store.take_lease("test", shard, **LEASE) for shard in range(3)]
    store.mark("placer", [WEB], due_at=later(store, 3000))

    put_back(ground)

    assert [store.take_lease("test", shard, **LEASE) for shard in range(3)] == leases
    assert 2900 < seconds_until_due(store) <= 3001


def test_a_step_of_seconds_moves_nothing(ground: DjangoGround) -> None:
    store = ground.store
    store.take_lease("test", 0, **LEASE)
    store.mark("placer", [WEB], due_at=later(store, 10))

    ground.pass_time(-30)

    assert store.take_lease("test", 0, **LEASE) is not None
    assert 30 < seconds_until_due(store) <= 40


def test_a_claim_that_is_made_after_it_stays_with_its_process(ground: DjangoGround) -> None:
    """One bug: it was moved as well, so that another process claimed the object while the first one worked on it."""
    store = ground.store
    store.take_lease("test", 0, **LEASE)
    put_back(ground)
    store.mark("placer", [WEB])
    assert store.claim("placer", shard=0, shards=1, limit=1, lease_seconds=30.0).claims

    assert store.take_lease("test", 0, **LEASE) is not None

    assert due_refs(store) == []
    ground.pass_time(31)
    assert due_refs(store) == [WEB]
