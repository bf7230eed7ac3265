"""Workers go on when no tick arrives, whatever the reason: a broker that refuses writes, no beat, no Redis at all."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import redis

from apps.failover.bucket import RedisBucket
from apps.objects.models import Lease
from apps.worker.groups import tick_names
from apps.worker.watchdog import QUIET_SECONDS
from controlplane.eviction.rate import TakeTokens
from tests.apps.stack import WITHIN, Stack, policy, stack
from tests.apps.test_workers import bindings, workloads
from tests.processes import until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

# What makes a Redis answer PING and refuse writes, what ends that, and the word for it in the cause.
REFUSALS = {
    "too few replicas": ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "NOREPLICAS"),
    "a replica": ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "READONLY"),
    "no memory": ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "OOM"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_workers_go_on_while_redis_answers_ping_and_refuses_writes(
    tmp_path: Path, broker: dict[str, Any], refusal: str
) -> None:
    refuse, accept, _ = REFUSALS[refusal]
    with stack(tmp_path, broker["url"], lease_seconds="8") as running, redis.Redis.from_url(broker["url"]) as client:
        running.create(policy("member1"))
        running.processes.worker()
        running.processes.beat()
        until(lambda: is_held(running), within=WITHIN)

        client.execute_command(*refuse.split())
        assert client.ping()
        since = time.monotonic()
        until(lambda: time.monotonic() - since > 2 * QUIET_SECONDS, within=WITHIN)
        wanted = workloads(running, "meanwhile")
        until(lambda: bindings(running) == wanted, within=WITHIN)

        client.execute_command(*accept.split())
        wanted |= workloads(running, "back")
        until(lambda: bindings(running) == wanted, within=WITHIN)


def is_held(running: Stack) -> bool:
    return {name.partition("/")[0] for name in tick_names()} <= set(running.holders())


def test_a_worker_runs_without_beat_and_without_redis(tmp_path: Path) -> None:
    with stack(tmp_path, "redis://127.0.0.1:1/0") as running:
        running.create(policy("member1"))
        arguments = ["-m", "celery", "-A", "config", "worker", "--without-gossip", "--without-mingle"]
        running.processes.start("worker", arguments, says="Cannot connect")

        wanted = workloads(running, "web")

        until(lambda: bindings(running) == wanted, within=WITHIN)


@pytest.mark.parametrize("ticks", [True, False], ids=["with ticks", "without ticks"])
def test_a_pool_that_is_smaller_than_the_number_of_groups_runs_all_of_them(
    tmp_path: Path, broker: dict[str, Any], ticks: bool
) -> None:
    with stack(tmp_path, broker["url"] if ticks else "redis://127.0.0.1:1/0") as running:
        arguments = ["-m", "celery", "-A", "config", "worker", "--without-gossip", "--without-mingle"]
        running.processes.start(
            "worker", [*arguments, "--loglevel=INFO", "--concurrency=1"], says=" ready." if ticks else "Cannot connect"
        )
        if ticks:
            running.processes.beat()

        groups = {name.partition("/")[0] for name in tick_names()}
        until(lambda: groups <= set(Lease.objects.values_list("name", flat=True)), within=WITHIN)


def test_a_worker_whose_main_process_alone_is_asked_to_end_gives_its_leases_back(
    tmp_path: Path, broker: dict[str, Any]
) -> None:
    with stack(tmp_path, broker["url"], lease_seconds="60") as running:
        worker = running.processes.worker()
        until(lambda: is_held(running), within=WITHIN)  # without a notification

        os.kill(worker.pid, signal.SIGTERM)

        worker.wait(WITHIN)
        assert not set(running.holders()) & {name.partition("/")[0] for name in tick_names()}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_redis_that_refuses_writes_grants_no_token_and_the_cause_is_reported(
    broker: dict[str, Any], refusal: str
) -> None:
    refuse, _, word = REFUSALS[refusal]
    with redis.Redis.from_url(broker["url"]) as client:
        RedisBucket(client).take(0, 1000.0)
        client.execute_command(*refuse.split())

        answer = RedisBucket(client).answer(TakeTokens({"fleet": 1}, 1000.0))

    assert answer.granted == {}
    assert answer.problem == "Redis grants no tokens"
    assert word in answer.detail
    assert "lifeboat:" not in answer.detail
