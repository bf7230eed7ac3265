"""Freed memory goes back to the system, and not only when a process ends."""

from __future__ import annotations

import gc
import sys
import weakref
from pathlib import Path

import pytest

from apps.objects import free_memory
from apps.objects.free_memory import return_free_memory

MIB = 2**20


def resident() -> int:
    """Return the bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other C libraries return memory by themselves")
def test_documents_that_are_gone_leave_no_memory_behind_also_if_a_later_one_stays() -> None:
    documents = [
        bytes([number % 256]) * 4000 for number in range(20_000)
    ]  # 80 MB, each too large for Python's own blocks
    last = bytes(4000)
    before = resident()
    del documents

    assert return_free_memory()

    assert before - resident() > 60 * MIB
    assert len(last) == 4000


class Linked:
    """An object that refers to itself, as a connection and its protocol refer to each other."""

    def __init__(self) -> None:
        self.own = self


@pytest.mark.parametrize(("survived", "everything"), [(0, False), (1, False), (3, True)])
def test_objects_that_only_refer_to_each_other_are_freed(survived: int, everything: bool) -> None:
    linked = Linked()
    for generation in range(survived):
        gc.collect(generation)
    gone = weakref.ref(linked)
    del linked

    return_free_memory(everything=everything)

    assert gone() is None


def test_each_tenth_look_concerns_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[bool] = []

    def look(*, everything: bool) -> None:
        looks.append(everything)
        if len(looks) == 20:
            raise InterruptedError

    monkeypatch.setattr(free_memory, "INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(free_memory, "return_free_memory", look)

    with pytest.raises(InterruptedError):
        free_memory._run()

    assert [number for number, everything in enumerate(looks, 1) if everything] == [10, 20]
