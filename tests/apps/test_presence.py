"""Members processes know of each other, so what a killed one had claimed need not wait until its claims run out."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from django.db import connection

from apps.members.liveness import Presence
from apps.objects.models import Lease
from apps.objects.store import DjangoStore
from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.controllers import CONTROLLERS
from controlplane.engine.run import CLAIM_SECONDS
from tests.apps.stack import Stack, stack
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)

PROBES = "probes"


@pytest.fixture
def store() -> DjangoStore:
    return DjangoStore(controllers=CONTROLLERS)


def claimed(store: DjangoStore, *names: str) -> None:
    """Let another process claim the probes of these clusters."""
    store.mark(PROBES, [Ref(kinds.CLUSTER, "", name) for name in names])
    assert len(claim(store)) == len(names)


def claim(store: DjangoStore) -> list[str]:
    found = store.claim(PROBES, shard=0, shards=1, limit=100, lease_seconds=CLAIM_SECONDS)
    return sorted(one.ref.name for one in found.claims)


def presence(store: DjangoStore) -> Presence:
    """Another process, just begun."""
    made = Presence(store, [PROBES])
    made.begin()
    return made


def die(one: Presence) -> None:
    """Let a process's lease run out, as when it was killed a while ago."""
    assert one.lease is not None
    with connection.cursor() as cursor:
        query = "UPDATE objects_lease SET until = clock_timestamp() WHERE name = 'members' AND shard = %s"
        cursor.execute(query, [one.lease.shard])


def test_a_process_alone_takes_up_what_a_dead_process_had_claimed(store: DjangoStore) -> None:
    killed = presence(store)
    claimed(store, "member1", "member2")
    die(killed)

    presence(store)

    assert claim(store) == ["member1", "member2"]


def test_a_process_beside_others_leaves_their_claims(store: DjangoStore) -> None:
    living = presence(store)
    claimed(store, "member1")

    presence(store)
    living.renew()

    assert claim(store) == []


def test_a_process_killed_just_now_is_inherited_from_as_soon_as_its_lease_ends(store: DjangoStore) -> None:
    killed = presence(store)
    claimed(store, "member1")
    successor = presence(store)
    claimed(store, "own")
    successor.renew()
    assert claim(store) == []

    die(killed)
    successor.renew()

    assert claim(store) == ["member1"]  # and not what it has claimed itself since it began


def test_nothing_is_given_back_twice(store: DjangoStore) -> None:
    alone = presence(store)
    claimed(store, "member1")

    alone.renew()

    assert claim(store) == []


def test_a_process_that_ends_gives_its_place_back(store: DjangoStore) -> None:
    presence(store).leave()
    claimed(store, "member1")

    presence(store)

    assert claim(store) == ["member1"]


def test_every_process_has_a_place_of_its_own_and_keeps_it(store: DjangoStore) -> None:
    three = [presence(store) for _ in range(3)]
    for one in three:
        one.renew()

    places = {row.shard: row.holder for row in Lease.objects.filter(name="members")}

    assert places == {number: one.holder for number, one in enumerate(three)}
    assert {one.lease.epoch for one in three if one.lease is not None} == {1}


@pytest.mark.slow
def test_a_killed_members_process_holds_up_its_successor_for_seconds_only(
    tmp_path: Path, redis_url: str, redis_client: object
) -> None:
    with stack(tmp_path, redis_url, "member1") as running:
        assert running.fleet is not None
        with running.processes.at_once():
            running.processes.worker()
            running.processes.beat()
            first = running.processes.members()
        running.join("member1")
        os.killpg(first.pid, signal.SIGKILL)
        running.store.mark(PROBES, [Ref(kinds.CLUSTER, "", "member1")])
        running.store.claim(PROBES, shard=0, shards=1, limit=10, lease_seconds=CLAIM_SECONDS)  # its last deed, perhaps
        probed = len(probes(running))

        running.processes.members()

        until(lambda: len(probes(running)) > probed, within=CLAIM_SECONDS - 5)  # how long a start takes is no matter


def probes(running: Stack) -> list[str]:
    assert running.fleet is not None
    return [one["path"] for one in running.fleet.requests("member1") if one["path"].startswith("/readyz")]
