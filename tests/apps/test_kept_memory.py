"""A process of the pool that has kept much memory of large batches ends between two turns, and a new one takes over."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.request import urlopen

import pytest

from apps.worker.groups import tick_names
from apps.worker.kept_memory import FEW, MOST_KEPT, QUIET, SLOWLY, YOUNGEST, KeptMemory, own_memory
from apps.worker.tick_times import MASS_COPIES, MASS_SECONDS, TickTimes
from controlplane import kinds
from tests import forked
from tests.api.server import free_ports
from tests.apps.stack import WITHIN, Stack, deployment, policy, stack
from tests.processes import CELERY, Process, family, until


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What this process has, in its only item, instead of what the system says."""
    now = [100 << 20]
    monkeypatch.setattr("apps.worker.kept_memory.own_memory", lambda: now[0])
    return now


LARGE = FEW + 1


@pytest.mark.parametrize(
    ("turns", "ends"),
    [
        pytest.param([(LARGE, 0), (FEW, YOUNGEST)], True, id="after a large batch"),
        pytest.param([(LARGE, 0), (FEW, YOUNGEST - 1)], False, id="young"),
        pytest.param([(LARGE, YOUNGEST)], False, id="in a large batch"),
        pytest.param([(LARGE, YOUNGEST), (FEW, YOUNGEST + QUIET - 1)], False, id="soon after a large batch"),
        pytest.param([(LARGE, YOUNGEST), (FEW, YOUNGEST + QUIET)], True, id="some seconds after a large batch"),
        pytest.param([(FEW, SLOWLY - 1)], False, id="without large batches"),
        pytest.param([(FEW, SLOWLY)], True, id="without large batches, after a long time"),
    ],
)
def test_a_process_that_has_kept_much_ends(memory: list[int], turns: list[tuple[int, float]], ends: bool) -> None:
    kept = KeptMemory(1000.0)
    memory[0] += MOST_KEPT + 1

    for processed, later in turns:
        kept.turn_ended(processed, 1000.0 + later)

    assert kept.too_much == ends


def test_no_process_ends_while_many_copies_are_evicted(memory: list[int]) -> None:
    kept = KeptMemory(1000.0)
    memory[0] += MOST_KEPT + 1

    kept.turn_ended(0, 1000.0 + SLOWLY, evicting=True)
    assert not kept.too_much
    kept.turn_ended(0, 1000.0 + SLOWLY + QUIET)
    assert kept.too_much


@pytest.mark.parametrize(
    ("evicted", "until"),
    [
        pytest.param([(0, MASS_COPIES - 1)], None, id="few"),
        pytest.param([(0, MASS_COPIES)], MASS_SECONDS, id="many at once"),
        pytest.param([(at, 1) for at in range(1000)], None, id="one a second, for long"),
        pytest.param([(at / 40, 1) for at in range(400)], 9.975 + MASS_SECONDS, id="40 a second"),
        pytest.param([(0, MASS_COPIES - 1), (MASS_SECONDS, 1)], None, id="many in a longer time"),
    ],
)
def test_all_processes_see_that_many_copies_are_evicted(evicted: list[tuple[float, int]], until: float | None) -> None:
    times = TickTimes(tick_names())
    if not (child := os.fork()):
        for at, copies in evicted:
            times.evicted(copies, 1000.0 + at)
        os._exit(0)
    os.waitpid(child, 0)
    seen = [times.mass_eviction(1000.0 + at) for at in ([0.0] if until is None else [until - 0.1, until])]

    assert seen == ([False] if until is None else [True, False])
    assert not times.ended
    assert not times.all_ran_within(MASS_SECONDS, 1000.0)


def test_a_process_that_has_kept_little_stays(memory: list[int]) -> None:
    kept = KeptMemory(1000.0)
    memory[0] += MOST_KEPT

    kept.turn_ended(LARGE, 1000.0)
    kept.turn_ended(0, 1000.0 + SLOWLY)

    assert not kept.too_much


def test_a_process_that_can_return_what_it_has_stays(memory: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    kept = KeptMemory(1000.0)
    before = memory[0]
    memory[0] += MOST_KEPT + 1
    monkeypatch.setattr("apps.worker.kept_memory.return_free_memory", lambda: memory.__setitem__(0, before))

    kept.turn_ended(0, 1000.0 + SLOWLY)

    assert not kept.too_much


def test_memory_that_a_process_takes_is_counted() -> None:
    before = own_memory()
    taken = bytearray(b"x") * (32 << 20)

    assert own_memory() - before > 30 << 20
    assert len(taken) == 32 << 20


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_processes_are_replaced_between_turns_and_work_and_metrics_go_on(
    tmp_path: Path, redis_url: str, redis_client: object
) -> None:
    (port,) = free_ports(1)
    with stack(tmp_path, redis_url, lease_seconds="6", controllers="policies") as running:
        running.create(policy("member1"))
        running.processes.environment["LIFEBOAT_METRICS_PORT"] = str(port)
        worker = running.processes.worker(application="tests.apps.replaced")
        first = children(worker)
        del running.processes.environment["LIFEBOAT_METRICS_PORT"]
        running.processes.beat()
        running.create(deployment("web"))
        until(lambda: bindings(running) == {"web-deployment"}, within=WITHIN)
        until(lambda: first.isdisjoint(children(worker)) and len(children(worker)) == len(first), within=WITHIN)

        running.create(deployment("shop"))

        until(lambda: bindings(running) == {"web-deployment", "shop-deployment"}, within=WITHIN)
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WITHIN) as answer:
            shown = answer.read().decode()
        assert 'lifeboat_reconciled_objects_total{controller="policies"}' in shown
        names = {file.name.rpartition("_")[2] for file in (tmp_path / "metrics" / str(port)).iterdir()}
        assert names <= {"main.db", *(f"pool-{index}.db" for index in range(len(first)))}
        log = (running.processes.folder / "worker-0.log").read_text()
    assert "Traceback" not in log, log
    assert log.count("this process ends") >= len(first)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_second_worker_with_the_same_port_ends_and_the_first_one_goes_on(
    tmp_path: Path, redis_url: str, redis_client: object
) -> None:
    (port,) = free_ports(1)
    with stack(tmp_path, redis_url, lease_seconds="6", controllers="policies") as running:
        running.create(policy("member1"))
        running.processes.environment["LIFEBOAT_METRICS_PORT"] = str(port)
        worker = running.processes.worker(application="tests.apps.replaced")

        second = forked.python([*CELERY, "config", "worker"], env=running.processes.environment)

        assert second.returncode != 0
        assert f"LIFEBOAT_METRICS_PORT={port}" in second.stdout + second.stderr
        first = children(worker)
        del running.processes.environment["LIFEBOAT_METRICS_PORT"]
        running.processes.beat()
        until(lambda: first.isdisjoint(children(worker)) and len(children(worker)) == len(first), within=WITHIN)
        running.create(deployment("web"))
        until(lambda: bindings(running) == {"web-deployment"}, within=WITHIN)
        log = (running.processes.folder / "worker-0.log").read_text()
    assert "Traceback" not in log, log


def children(worker: Process) -> set[int]:
    """Return the processes of the pool."""
    return set(family(worker)) - {worker.pid}


def bindings(running: Stack) -> set[str]:
    return {one.metadata.name for one in running.store.list(kinds.RESOURCE_BINDING)}
