"""What a process knows of stored objects is read by one thread; others wait only for the first reading."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from apps.objects.refreshed import Refreshed


class Known(Refreshed):
    """Counts its readings. A reading waits for `go`, and fails if `broken`."""

    def __init__(self) -> None:
        super().__init__()
        self.readings = 0
        self.broken = False
        self.began, self.go = Event(), Event()
        self.go.set()

    def _read(self) -> None:
        self.began.set()
        assert self.go.wait(10)
        if self.broken:
            raise OSError("no database")
        self.readings += 1


def test_until_the_first_reading_ends_every_thread_waits_for_it() -> None:
    known = Known()
    known.go.clear()

    def readings() -> int:
        known.refresh()
        return known.readings

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(readings) for _ in range(4)]
        assert known.began.wait(10)
        known.go.set()

        assert [answer.result(10) for answer in asked] == [1, 1, 1, 1]


def test_during_a_later_reading_other_threads_use_what_was_read_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.objects.refreshed.FRESH_SECONDS", 0.0)
    known = Known()
    known.refresh()
    known.began.clear()
    known.go.clear()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(known.refresh)
        assert known.began.wait(10)

        known.refresh()

        assert known.readings == 1
        known.go.set()
        reading.result(10)
    assert known.readings == 2


def test_a_first_reading_that_fails_is_repeated_at_once_and_a_later_one_only_when_it_is_due() -> None:
    known = Known()
    known.broken = True
    for _ in range(2):
        with pytest.raises(OSError, match="no database"):
            known.refresh()
    known.broken = False
    known.refresh()
    assert known.readings == 1

    known.broken = True
    with pytest.raises(OSError, match="no database"):
        known.refresh(at_once=True)
    known.refresh()
    assert known.readings == 1


def test_what_another_object_read_is_used_unless_it_is_older_than_what_is_known() -> None:
    known, taken = Known(), list[str]()
    before = time.monotonic()
    known.refresh()

    known.take_over(lambda: taken.append("older"), as_of=before)
    known.take_over(lambda: taken.append("newer"), as_of=time.monotonic())

    assert taken == ["newer"]
