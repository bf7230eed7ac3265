"""Threads that work while they hold a lease: one at a time, through failures, and the next one at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from apps.objects.store import store
from apps.worker.leased_thread import LEASE_SECONDS, LeasedThread
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)

WITHIN = 0.5 * LEASE_SECONDS  # so a lease that was not returned is seen


class Counting(LeasedThread):
    """Fails at its first call."""

    name = "counting"
    subject = "numbers"

    def __init__(self) -> None:
        super().__init__(store(), threading.Event())
        self._holder = f"{id(self)}"  # as if each were a process
        self.calls = 0
        self.worked = threading.Event()

    def work(self) -> float:
        self.calls += 1
        if self.calls == 1:
            raise ValueError("the first call")
        self.worked.set()
        return 0.01


@contextmanager
def running(thread: Counting) -> Iterator[Counting]:
    thread.start()
    try:
        yield thread
    finally:
        thread.stopping.set()
        thread.join(WITHIN)


def test_one_thread_works_also_after_a_failure_and_the_next_as_soon_as_it_has_ended() -> None:
    with running(Counting()) as first:
        assert first.worked.wait(WITHIN)
        with running(Counting()) as second:
            until(lambda: first.calls > 150, within=WITHIN)
            assert not second.calls
            first.stopping.set()

            assert second.worked.wait(WITHIN)
