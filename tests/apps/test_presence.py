"""Members processes know of each other, so what a killed one had claimed need not wait until its claims run out."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from apps.api.heartbeat_intake import Listening
from apps.members.liveness import Presence
from apps.objects.models import Lease
from apps.objects.store import DjangoStore
from apps.worker import broker, restored
from apps.worker.clock import monotonic_seconds
from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.controllers import CONTROLLERS
from controlplane.engine.run import CLAIM_SECONDS
from tests.apps.stack import WITHIN, Stack, stack
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


LOOKED_AT_SECONDS = 10.0  # two checks for a restore while Redis does not answer


@pytest.fixture
def silent_redis() -> Iterator[str]:
    """The URL of a Redis that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as silent:
        yield f"redis://127.0.0.1:{silent.getsockname()[1]}/0"


def least_left(name: str) -> float:
    """Return for how many seconds a lease of this name was valid when it was nearest to its end."""
    until(lambda: Lease.objects.filter(name=name).exists(), within=WITHIN)
    ends, least = monotonic_seconds() + LOOKED_AT_SECONDS, 3600.0
    query = "SELECT max(extract(epoch FROM until - clock_timestamp())) FROM objects_lease WHERE name = %s"
    while monotonic_seconds() < ends:
        with connection.cursor() as cursor:
            cursor.execute(query, [name])
            least = min(least, float(cursor.fetchone()[0]))
    return least


@pytest.mark.slow
def test_a_members_process_is_present_while_redis_does_not_answer(tmp_path: Path, silent_redis: str) -> None:
    """One bug: the check for a restore held it up. Another process then took what it works on for abandoned."""
    with stack(tmp_path, silent_redis, lease_seconds="5") as running:
        running.processes.members()

        assert least_left("members") > 0


def test_agents_can_report_while_redis_does_not_answer(silent_redis: str, settings: Any) -> None:
    """One bug: the lease that shows this ended again and again, and the silence of an agent did not count meanwhile."""
    settings.REDIS_URL = silent_redis
    broker.client.cache_clear()
    restored.detector.cache_clear()
    listening = Listening()
    try:
        listening.start()

        assert least_left("api") > 0
    finally:
        listening.stop()
        broker.client.cache_clear()
        restored.detector.cache_clear()
