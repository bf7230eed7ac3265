"""Several beats: one sends the ticks, and another does so when that one has ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from apps.objects.models import Lease
from apps.objects.store import DjangoStore
from apps.worker.beat_presence import BEAT, BeatPresence
from tests.processes import Processes, environment, until

pytestmark = pytest.mark.django_db(transaction=True)


def end_leases() -> None:
    """Let the leases of all beats expire, as they do when nothing renews them."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE objects_lease SET until = clock_timestamp() - interval '1 second'")


@pytest.fixture
def beats() -> list[BeatPresence]:
    store = DjangoStore(controllers=[])
    found = [BeatPresence(store), BeatPresence(store)]
    for beat in found:
        beat.renew()
    return found


def test_of_two_beats_one_sends(beats: list[BeatPresence]) -> None:
    assert [beat.sends() for beat in beats] == [True, False]
    for beat in reversed(beats):
        beat.renew()
    assert [beat.sends() for beat in beats] == [True, False]


def test_when_the_beat_that_sends_has_ended_the_other_sends(beats: list[BeatPresence]) -> None:
    first, second = beats
    end_leases()

    second.renew()

    assert second.sends()
    first.renew()  # it was only stopped for a while
    assert [beat.sends() for beat in beats] == [False, True]


def test_a_beat_that_follows_one_that_was_ended_sends_at_once(tmp_path: Path, broker: dict[str, Any]) -> None:
    """After a restart no group ran for up to 9 s: beat waited for the lease of its predecessor to expire."""
    with Processes(tmp_path, environment(tmp_path, redis_url=broker["url"])) as processes:
        process = processes.beat()
        until(lambda: Lease.objects.filter(name=BEAT, shard=0).exclude(holder="").exists(), within=60)
        processes.end(process)

    next_one = BeatPresence(DjangoStore(controllers=[]))
    next_one.renew()

    assert next_one.sends()


def test_a_beat_that_has_not_asked_the_database_sends() -> None:
    assert BeatPresence(DjangoStore(controllers=[])).sends()
