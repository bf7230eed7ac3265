"""Real Celery workers: ticks, leases, a broker that goes away, and death at any moment."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from apps.worker.groups import GROUPS
from controlplane import kinds
from tests.apps.stack import LEAVE_WHERE_NOT_READY, WITHIN, Stack, deployment, policy, stack
from tests.apps.test_lost_connections import break_all
from tests.processes import Process, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

KILLS = 20
BINDINGS = 20


@pytest.fixture
def alone(tmp_path: Path, redis_url: str, redis_client: object) -> Iterator[Stack]:
    """No members, and only the controller that makes bindings. A crowded machine renews this lease in time."""
    with stack(tmp_path, redis_url, lease_seconds="6", controllers="policies") as running:
        running.create(policy("member1"))
        yield running


def bindings(running: Stack) -> set[str]:
    return {one.metadata.name for one in running.store.list(kinds.RESOURCE_BINDING)}


def workloads(running: Stack, *names: str) -> set[str]:
    """Create Deployments; return the names of the bindings they shall get."""
    running.create("\n---\n".join(deployment(name) for name in names))
    return {f"{name}-deployment" for name in names}


def test_beat_and_a_worker_turn_templates_into_bindings(alone: Stack) -> None:
    alone.processes.worker()
    alone.processes.beat()

    wanted = workloads(alone, "web", "shop")

    until(lambda: bindings(alone) == wanted, within=WITHIN)


def test_of_two_workers_one_has_the_lease_and_everything_is_done_once(alone: Stack) -> None:
    alone.processes.worker("first")
    alone.processes.worker("second")
    wanted = workloads(alone, *(f"web-{number}" for number in range(200)))

    alone.ring()
    alone.ring()
    alone.processes.beat()

    until(lambda: bindings(alone) == wanted, within=WITHIN)
    made = Counter(one.ref for one in alone.changes() if one.type == "ADDED" and one.ref.kind == kinds.RESOURCE_BINDING)
    assert set(made.values()) == {1}
    assert len(made) == len(wanted)


def test_when_the_holder_dies_another_takes_over(alone: Stack) -> None:
    first = alone.processes.worker("first")
    alone.ring("scheduling/0")
    until(lambda: "scheduling" in alone.holders(), within=WITHIN)
    os.killpg(first.pid, signal.SIGKILL)
    wanted = workloads(alone, "web")
    alone.processes.worker("second")

    alone.processes.beat()

    until(lambda: bindings(alone) == wanted, within=WITHIN)


def test_a_holder_that_slept_past_its_lease_writes_nothing_when_it_wakes(alone: Stack) -> None:
    sleeper = alone.processes.worker("sleeper")
    tries, wanted = count(), set[str]()
    until(lambda: _paused_with_work_left(alone, sleeper, f"web-{next(tries)}", wanted), within=3 * WITHIN)
    asleep = alone.holders().get("scheduling", "")
    alone.processes.worker("second")
    beat = alone.processes.beat()
    until(lambda: alone.holders().get("scheduling", asleep) != asleep, within=WITHIN)
    until(lambda: bindings(alone) == wanted, within=WITHIN)
    alone.processes.end(beat)
    before = alone.store.current_version()

    os.killpg(sleeper.pid, signal.SIGCONT)
    sleeper.send_signal(signal.SIGTERM)
    sleeper.wait(WITHIN)  # it has finished its turn by then

    group = {one.name for one in GROUPS["scheduling"].controllers}
    assert [one for one in alone.changes(before) if one.actor in group] == []
    changes = [one for one in alone.changes() if one.type == "ADDED" and one.ref.kind == kinds.RESOURCE_BINDING]
    assert set(Counter(one.ref for one in changes).values()) == {1}


def _paused_with_work_left(running: Stack, process: Process, name: str, wanted: set[str]) -> bool:
    """Pause a process that has the lease, has done some of its work and not all of it; one that was faster than we is
    woken again. `wanted` gets the bindings that the work makes. It sleeps while its work is written: it needs no tick
    to begin."""
    until(lambda: _paused_between_transactions(process), within=WITHIN, every=0.01)
    before = bindings(running)
    wanted |= workloads(running, *(f"{name}-{number}" for number in range(1500)))
    running.ring("scheduling/0")
    os.killpg(process.pid, signal.SIGCONT)
    until(lambda: bindings(running) != before, within=WITHIN, every=0.01)
    until(lambda: _paused_between_transactions(process), within=WITHIN, every=0.01)
    if "scheduling" in running.holders() and bindings(running) != wanted:
        return True
    os.killpg(process.pid, signal.SIGCONT)
    return False


def test_a_holder_paused_with_the_write_lock_in_its_hand_lets_go_of_it(alone: Stack) -> None:
    """It has sent its transaction as a whole, so the database goes on without it."""
    sleeper = alone.processes.worker("sleeper")
    alone.ring("scheduling/0")
    until(lambda: "scheduling" in alone.holders(), within=WITHIN)
    tries, wanted = count(), set[str]()
    until(lambda: _paused_as_it_looks_at_its_lease(alone, sleeper, f"web-{next(tries)}", wanted), within=WITHIN)
    until(lambda: not _backends("xact_start IS NOT NULL"), within=WITHIN)
    alone.processes.worker("second")
    alone.processes.beat()

    until(lambda: bindings(alone) == wanted, within=WITHIN)

    os.killpg(sleeper.pid, signal.SIGCONT)
    wanted |= workloads(alone, "late")
    until(lambda: bindings(alone) == wanted, within=WITHIN)
    changes = [one for one in alone.changes() if one.type == "ADDED" and one.ref.kind == kinds.RESOURCE_BINDING]
    assert set(Counter(one.ref for one in changes).values()) == {1}


def _paused_as_it_looks_at_its_lease(running: Stack, process: Process, name: str, wanted: set[str]) -> bool:
    """Pause a process that holds the write lock: it has work, and waits for the row of its lease, to see whether that
    is its own. `wanted` gets the bindings that the work makes.

    It sleeps between two transactions while that work is written: with the write lock in its hand it would keep us
    from writing, and we it from the row.
    """
    until(lambda: _paused_between_transactions(process), within=WITHIN, every=0.01)
    wanted |= workloads(running, name)
    running.ring("scheduling/0")
    with _connection() as own:
        own.execute("SET idle_in_transaction_session_timeout = 0")  # who holds the row is as long idle as it takes
        own.execute("SELECT 1 FROM objects_lease WHERE name = 'scheduling' FOR UPDATE")
        os.killpg(process.pid, signal.SIGCONT)
        until(lambda: _backends("wait_event_type = 'Lock'"), within=WITHIN, every=0.01)
        if not _backends("wait_event_type = 'Lock' AND query LIKE '%FOR SHARE%'"):
            return False  # it renews its lease: not yet
        os.killpg(process.pid, signal.SIGSTOP)
        return True


def _paused_between_transactions(process: Process) -> bool:
    """Pause a process; one that is paused within a transaction is woken again."""
    os.killpg(process.pid, signal.SIGSTOP)
    until(lambda: not _backends("state = 'active' AND wait_event IS DISTINCT FROM 'ClientRead'"), within=WITHIN)
    if _backends("xact_start IS NOT NULL"):
        os.killpg(process.pid, signal.SIGCONT)
        return False
    return True


def _backends(condition: str) -> int:
    """Count the connections of other processes of which this is true."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity "
            f"WHERE datname = current_database() AND pid <> pg_backend_pid() AND {condition}"
        )
        return int(cursor.fetchone()[0])


def _connection() -> psycopg.Connection[Any]:
    """Return a connection beside Django's; leaving its block commits."""
    return psycopg.connect(**connection.get_connection_params())  # type: ignore[arg-type]  # Django's are untyped


def test_without_its_broker_a_worker_goes_on_and_nothing_is_lost(tmp_path: Path, broker: dict[str, Any]) -> None:
    with stack(tmp_path, broker["url"], lease_seconds="8") as running:
        running.create(policy("member1"))
        running.processes.worker()
        running.ring("scheduling/0")
        until(lambda: "scheduling" in running.holders(), within=WITHIN)
        holder = running.holders()["scheduling"]
        broker["process"].kill()
        broker["process"].wait()
        went = time.monotonic()

        wanted = workloads(running, "soon")
        until(lambda: bindings(running) == wanted, within=WITHIN)
        until(lambda: time.monotonic() - went > 7, within=WITHIN)  # longer than a turn: no notification follows
        wanted |= workloads(running, "later")
        until(lambda: bindings(running) == wanted, within=WITHIN)
        assert running.holders()["scheduling"] == holder
        break_all()
        wanted |= workloads(running, "broken")
        until(lambda: bindings(running) == wanted, within=WITHIN)
        holder = until(lambda: running.holders().get("scheduling"), within=WITHIN)

        broker["process"] = broker["start"]()
        running.processes.beat()
        until(lambda: running.holders().get("scheduling") != holder, within=WITHIN)
        wanted |= workloads(running, "back")
        until(lambda: bindings(running) == wanted, within=WITHIN)


def test_a_worker_killed_at_20_moments_evicts_every_binding_once(
    tmp_path: Path, redis_url: str, redis_client: object
) -> None:
    chance = random.Random(4711)
    names = [f"web-{number}" for number in range(BINDINGS)]
    with stack(tmp_path, redis_url, "member1", "member2", "member3", resource_eviction_rate="4") as running:
        assert running.fleet is not None
        worker = running.up()
        running.join("member1", "member2")
        running.create(LEAVE_WHERE_NOT_READY)
        running.create(policy("member1", "member2", "member3", groups=2))
        workloads(running, *names)
        until(lambda: all(running.healthy(name) == {"member1", "member2"} for name in names), within=WITHIN)
        running.join("member3")
        since = running.store.current_version()

        running.fleet.set_fault("member1", "down")
        for _ in range(KILLS):
            _until_working(running, chance.uniform(0.0, 0.4))
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
            worker = running.processes.worker()

        there = {"member2", "member3"}  # what member1 still holds is let go when it is back
        until(lambda: all(running.healthy(name) >= there for name in names), within=3 * WITHIN)
        until(lambda: not any(_leaving(running, name) for name in names), within=WITHIN)
        evicted = Counter(one.ref for one in running.changes(since) if _begins_to_leave(one))
        assert len(evicted) == BINDINGS
        assert set(evicted.values()) == {1}
        assert {tuple(sorted(running.placed(name))) for name in names} == {("member2", "member3")}


def _until_working(running: Stack, seconds: float) -> None:
    """Wait until some worker holds a lease again, and this long beyond."""
    until(running.holders, within=WITHIN, every=0.02)
    ends = time.monotonic() + seconds
    until(lambda: time.monotonic() >= ends, within=WITHIN, every=0.01)


def _leaving(running: Stack, name: str) -> bool:
    return bool(running.binding(name).spec.graceful_eviction_tasks)


def _begins_to_leave(change: Any) -> bool:
    if change.ref.kind != kinds.RESOURCE_BINDING or change.type == "DELETED":
        return False
    return bool(_tasks(change.document) - _tasks(change.old_document))


def _tasks(document: bytes | None) -> set[str]:
    doc = json.loads(document or b"{}")
    return {one["fromCluster"] for one in doc.get("spec", {}).get("gracefulEvictionTasks", ())}
