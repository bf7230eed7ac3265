"""The bucket in Redis does what the pure one does, step by step, and fails closed."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from threading import enumerate as enumerate_threads
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from apps.failover.bucket import SCRIPT, UNASKED_SECONDS, RedisBucket
from apps.failover.redis_client import redis_client
from controlplane.eviction.rate import Bucket, TakeTokens, capacity, take_tokens
from tests.apps.name_server import ZONE, NameServer


@pytest.mark.parametrize("seed", range(20))
def test_lua_and_python_agree_on_every_step_of_a_random_sequence(redis_client: redis.Redis, seed: int) -> None:
    script = redis_client.register_script(SCRIPT)
    chance = random.Random(seed)
    rates = (0.0, 0.1, 0.5, 1 / 3, 7.77, 50, 10_000)
    bucket: Bucket | None = None
    rate, micros = 0.5, 1_700_000_000_000_000
    for _ in range(200):
        if chance.random() < 0.2:
            rate = chance.choice(rates)
        micros += chance.choice((0, 1, 137_003, 2_000_000, 9_999_999, 3_600_000_000, -3_600_000_000))
        wanted = chance.randrange(5)
        clock = divmod(micros, 1_000_000)

        said = script(keys=["bucket"], args=[wanted, f"{float(rate):.17g}", capacity(rate), *clock])

        expected = take_tokens(bucket, wanted, rate=float(rate), at=clock[0] + clock[1] / 1_000_000)
        assert (int(said[0]), float(said[1]), float(said[2])) == (
            expected.granted,
            expected.next_in,
            expected.bucket.tokens,
        )
        bucket = expected.bucket


def test_a_flushed_bucket_starts_empty(redis_client: redis.Redis) -> None:
    bucket = RedisBucket(redis_client)
    bucket.take(0, 1000.0)

    redis_client.flushdb()

    assert bucket.take(5, 1000.0)[0] == 0


def test_a_redis_that_comes_back_with_an_old_copy_gives_no_token_twice(broker: dict[str, Any]) -> None:
    """It was killed, and loads its last snapshot: the token in it has been spent since."""
    rate = 0.01
    with redis.Redis.from_url(broker["url"]) as client:
        bucket = RedisBucket(client)
        bucket.take(0, rate)
        client.hset("lifeboat:eviction-bucket:fleet", "at", "0")  # long ago, so that it is full
        client.save()
        assert bucket.take(1, rate)[0] == 1

        broker["process"].kill()
        broker["process"].wait()
        broker["process"] = broker["start"]()

        granted, next_in = bucket.take(1, rate)

    assert granted == 0
    assert 99 < next_in <= 100


@pytest.mark.parametrize(("seconds", "most"), [(-3600, 0), (3600, 13)])
def test_a_clock_that_jumps_makes_no_burst(redis_client: redis.Redis, seconds: int, most: int) -> None:
    """At 50/s a bucket holds 13 [eviction-queue]: a leap fills it, and no more; a step back gives nothing, now or
    later."""
    script = redis_client.register_script(SCRIPT)

    def taken(at: float) -> int:
        clock = divmod(round(at * 1_000_000), 1_000_000)
        return int(script(keys=["bucket"], args=[10_000, "50", capacity(50), *clock])[0])

    assert taken(1_700_000_000) == 0
    jumped = 1_700_000_000 + seconds
    assert taken(jumped) == most
    assert taken(jumped) == 0
    assert sum(taken(jumped + step / 10) for step in range(1, 11)) <= 50


def test_tokens_come_with_time_and_not_before(redis_client: redis.Redis) -> None:
    bucket = RedisBucket(redis_client)

    granted, next_in = bucket.take(1, 0.5)

    assert granted == 0
    assert 1.9 < next_in <= 2.0


def test_a_bucket_reports_its_present_tokens(redis_client: redis.Redis) -> None:
    bucket = RedisBucket(redis_client)
    assert bucket.levels(["fleet", "cluster/a"]) == {"fleet": 0.0, "cluster/a": 0.0}
    bucket.take(0, 1000.0)
    redis_client.hset("lifeboat:eviction-bucket:fleet", "at", "0")

    assert bucket.levels(["fleet", "cluster/a"]) == {"fleet": capacity(1000.0), "cluster/a": 0.0}
    assert bucket.take(9999, 1000.0)[0] == capacity(1000.0)


@pytest.mark.parametrize("buckets", [1, 2])
def test_a_redis_without_enough_replicas_grants_nothing_and_says_so(broker: dict[str, Any], buckets: int) -> None:
    with redis.Redis.from_url(broker["url"]) as client:
        client.config_set("min-replicas-to-write", 1)

        answer = RedisBucket(client).answer(TakeTokens({f"cluster/{number}": 1 for number in range(buckets)}, 0.5))

    assert answer.granted == {}
    assert "NOREPLICAS" in answer.detail


def test_redis_away_grants_nothing_and_says_so() -> None:
    client = redis.Redis(host="127.0.0.1", port=1, socket_connect_timeout=0.2)

    answer = RedisBucket(client).answer(TakeTokens({"fleet": 3}, 0.5))

    assert answer.granted == {}
    assert (answer.problem, answer.detail) == ("Redis grants no tokens", "it is not reachable")


def test_a_redis_that_never_answers_costs_two_seconds(settings: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.REDIS_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        began = time.monotonic()

        answer = RedisBucket(redis_client()).answer(TakeTokens({"fleet": 3}, 0.5))

        seconds = time.monotonic() - began

    assert (answer.granted, answer.detail) == ({}, "it does not answer in time")
    assert seconds < 4, "redis-py repeats a call three times, with pauses, unless its retry is limited"


def test_a_redis_whose_name_takes_seconds_is_reached_with_what_the_lookup_found(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """For example because the first of two name servers does not answer. One bug: the next call asked again, and waited
    too short a time again. So a process that asked every few seconds never reached Redis."""
    real, answers, url = socket.getaddrinfo, Event(), urlsplit(settings.REDIS_URL)

    def look_up(host: Any, *rest: Any, **more: Any) -> Any:
        if host != "redis.slow.example":
            return real(host, *rest, **more)
        answers.wait(10)
        return real(url.hostname, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    settings.REDIS_URL = settings.REDIS_URL.replace(str(url.hostname), "redis.slow.example")
    client = redis_client()
    with pytest.raises(redis.TimeoutError):
        client.ping()
    answers.set()
    for thread in enumerate_threads():
        if thread.name == "resolve":
            thread.join(10)
    answers.clear()

    assert client.ping()


def test_a_redis_that_has_moved_is_looked_up_again(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """Addresses that take no connections are not remembered."""
    real, url = socket.getaddrinfo, urlsplit(settings.REDIS_URL)
    hosts = ["127.0.0.2", url.hostname]

    def look_up(host: Any, *rest: Any, **more: Any) -> Any:
        return real(hosts.pop(0) if host == "redis.moved.example" else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    settings.REDIS_URL = settings.REDIS_URL.replace(str(url.hostname), "redis.moved.example")

    assert redis_client().ping(), "the second attempt"
    assert hosts == []
    assert redis_client().ping(), "what was found is used for a while"


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_a_redis_whose_name_is_not_resolved_costs_two_seconds(
    scheme: str, name_server: NameServer, settings: Any
) -> None:
    """One bug: the time limits do not hold for the lookup of the name. It outlasted the lease of the whole group."""
    settings.REDIS_URL = f"{scheme}://redis{ZONE}:6379/0"
    began = time.monotonic()

    answers = [RedisBucket(redis_client()).answer(TakeTokens({"fleet": 3}, 0.5)) for _ in range(2)]

    assert [(one.granted, one.detail) for one in answers] == [({}, "it does not answer in time")] * 2
    assert time.monotonic() - began < 8
    assert name_server.asked.total() == 1, "one lookup at a time"


@contextmanager
def far_away(url: str, *, seconds: float) -> Iterator[int]:
    """A way to Redis on which each answer takes some time; its port."""
    there = urlsplit(url)

    def pass_on(source: socket.socket, to: socket.socket, delay: float) -> None:
        with suppress(OSError):
            while part := source.recv(1 << 16):
                time.sleep(delay)
                to.sendall(part)

    def serve(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = server.accept()
                far = socket.create_connection((there.hostname, there.port))
                Thread(target=pass_on, args=(near, far, 0.0), daemon=True).start()
                Thread(target=pass_on, args=(far, near, seconds), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=serve, args=(server,), daemon=True).start()
        yield server.getsockname()[1]


def test_a_slow_redis_is_not_asked_for_each_cluster_in_turn(redis_client: redis.Redis, redis_url: str) -> None:
    """One bug: with a bucket for each cluster of a large outage that took longer than the lease, and nothing left."""
    clusters, seconds = 60, 0.2
    wanted = {f"cluster/member{number}": 1 for number in range(clusters)}
    with far_away(redis_url, seconds=seconds) as port:
        way = urlsplit(redis_url)
        host = f"127.0.0.1:{port}"
        slow = way._replace(netloc=f":{way.password}@{host}" if way.password else host)
        with redis.Redis.from_url(slow.geturl()) as client:
            bucket = RedisBucket(client)
            bucket.answer(TakeTokens(dict.fromkeys(wanted, 0), 100.0))
            began = time.monotonic()

            answer = bucket.answer(TakeTokens(wanted, 100.0))

            assert time.monotonic() - began < clusters * seconds / 3

    assert answer.granted == wanted


def test_a_redis_that_never_answers_is_asked_seldom_while_no_token_is_wanted() -> None:
    """One bug: at each look at an empty queue, the other controllers of the group waited for Redis."""
    moment = [100.0]
    nothing, one = TakeTokens({"fleet": 0}, 0.5), TakeTokens({"fleet": 1}, 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = redis.Redis(port=silent.getsockname()[1], socket_timeout=0.05, retry=Retry(NoBackoff(), 0))
        bucket = RedisBucket(client, clock=lambda: moment[0])

        answer = bucket.answer(nothing)
        assert _connections(silent) == 1
        moment[0] += UNASKED_SECONDS - 1
        assert bucket.answer(nothing) == answer
        assert _connections(silent) == 0

        assert bucket.answer(one).granted == {}
        assert _connections(silent) == 1, "a wanted token is always asked for"
        bucket.answer(TakeTokens({"fleet": 0}, 0.1))
        assert _connections(silent) == 1, "another rate counts at once [bounded-rate]"
        moment[0] += UNASKED_SECONDS
        bucket.answer(nothing)
        assert _connections(silent) == 1


def _connections(server: socket.socket) -> int:
    """Return how many clients have connected since the last call."""
    server.setblocking(False)
    count = 0
    with suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            count += 1
    return count
