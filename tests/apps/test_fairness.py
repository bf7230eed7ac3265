"""Clients take turns: many requests of one client delay no other client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from apps.api.fairness import BURST_SECONDS, Clients, Rates, Turns, client_of
from apps.api.incoming import Scope
from controlplane.apimachinery.errors import TooManyRequests


class Desk:
    """Requests that hold their slot until they are let go, in the order in which they got it."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.order: list[str] = []
        self.done = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    async def come(self, *clients: str) -> None:
        for client in clients:
            self.tasks.append(asyncio.create_task(self._request(client)))
            await asyncio.sleep(0)  # until the request waits or runs

    async def _request(self, client: str) -> None:
        async with self.turns.turn(client):
            self.order.append(client)
            await self.done.wait()

    async def finish(self) -> list[str]:
        self.done.set()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        return self.order


def served(arriving: Sequence[str], *, slots: int = 1) -> list[str]:
    async def play() -> list[str]:
        desk = Desk(Turns(slots, per_client=100))
        await desk.come(*arriving)
        return await desk.finish()

    return asyncio.run(play())


@pytest.mark.parametrize(
    ("arriving", "order"),
    [
        ("aaaab", "aabaa"),
        ("aaaabc", "aabcaa"),
        ("abab", "abab"),
        ("aaa", "aaa"),
        ("aabbb", "aabbb"),
    ],
)
def test_clients_alternate_and_each_keeps_its_own_order(arriving: str, order: str) -> None:
    assert "".join(served(arriving)) == order


def test_as_many_requests_run_as_there_are_slots() -> None:
    async def running() -> int:
        desk = Desk(Turns(3, per_client=100))
        await desk.come(*"aaaaab")
        at_once = len(desk.order)
        await desk.finish()
        assert desk.turns.free == 3
        return at_once

    assert asyncio.run(running()) == 3


def test_a_client_with_too_many_waiting_requests_is_refused_and_others_are_not() -> None:
    async def play() -> list[str]:
        desk = Desk(Turns(1, per_client=2))
        await desk.come(*"aaa")
        with pytest.raises(TooManyRequests, match="limit for a client") as refused:
            async with desk.turns.turn("a"):
                pass
        assert refused.value.details.retry_after_seconds
        await desk.come("b")
        return await desk.finish()

    assert asyncio.run(play()) == ["a", "a", "b", "a"]


@pytest.mark.parametrize("cancelled", [1, 2, 3])
def test_a_request_that_gives_up_leaves_its_slot_to_the_next(cancelled: int) -> None:
    async def play() -> Turns:
        desk = Desk(Turns(1, per_client=10))
        await desk.come(*"aabb")
        desk.tasks[cancelled].cancel()
        await desk.finish()
        assert len(desk.order) == 3
        return desk.turns

    assert asyncio.run(play()).free == 1


def test_a_slot_that_was_given_to_a_request_that_gives_up_is_not_lost() -> None:
    async def play() -> int:
        desk = Desk(Turns(1, per_client=10))
        await desk.come(*"ab")
        desk.done.set()
        await desk.tasks[0]  # its slot is now given to b, which has not run since
        desk.tasks[1].cancel()
        await desk.finish()
        return desk.turns.free

    assert asyncio.run(play()) == 1


def request(*headers: tuple[bytes, bytes], address: str = "10.0.0.1") -> Scope:
    return {"headers": headers, "client": (address, 1)}


def test_clients_are_users_of_credentials_that_were_valid_and_else_addresses() -> None:
    clients, token = Clients(), (b"authorization", b"Bearer secret")
    other = (b"authorization", b"Bearer other")

    assert clients.of(request(token)) == "10.0.0.1"
    clients.remember(request(token), "eva")
    clients.remember(request(other), "eva")
    assert clients.of(request(token)) == clients.of(request(other, address="10.0.0.2")) == client_of("eva")
    assert clients.of(request((b"authorization", b"Bearer invented"))) == "10.0.0.1"
    assert clients.of(request()) == "10.0.0.1"


def test_a_process_remembers_a_bounded_number_of_credentials() -> None:
    clients = Clients(most=2)

    for secret in (b"a", b"b", b"a", b"c"):
        clients.remember(request((b"authorization", secret)), "eva")

    known = {secret: clients.of(request((b"authorization", secret))) != "10.0.0.1" for secret in (b"a", b"b", b"c")}
    assert known == {b"a": True, b"b": False, b"c": True}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the process, in seconds; a test sets its only item."""
    now = [1000.0]
    monkeypatch.setattr("apps.api.fairness.ticks", lambda: now[0])
    return now


def sent(rates: Rates, client: str, count: int) -> int:
    """Return how many of some requests of a client are allowed."""
    allowed = 0
    for _ in range(count):
        with suppress(TooManyRequests):
            rates.check(client)
            allowed += 1
    return allowed


def test_a_client_sends_its_requests_per_second_after_a_burst_and_costs_other_clients_nothing(
    clock: list[float],
) -> None:
    rates = Rates(8)

    assert sent(rates, "a", 100) == 8 * BURST_SECONDS + 1  # the last one is allowed as the limit is reached
    clock[0] += 0.5
    assert sent(rates, "a", 100) == 4
    assert sent(rates, "b", 5) == 5
    with pytest.raises(TooManyRequests, match="more than 8 requests per second") as refused:
        rates.check("a")
    assert refused.value.details.retry_after_seconds == 1
    clock[0] += 60
    assert sent(rates, "a", 100) == 8 * BURST_SECONDS + 1


def test_a_limit_of_none_allows_as_many_as_come(clock: list[float]) -> None:
    assert sent(Rates(0), "a", 10_000) == 10_000


def test_clients_that_have_used_up_nothing_are_forgotten(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.api.fairness.MOST_KNOWN", 3)
    rates = Rates(10)
    for client in ("a", "b", "c"):
        sent(rates, client, 1)

    clock[0] += 1
    sent(rates, "d", 30)
    for client in ("e", "f", "g"):
        sent(rates, client, 1)

    assert not rates.allows("d")
    assert len(rates._ends) <= 4
