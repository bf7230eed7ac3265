"""Random trouble heals, whatever it was, and breaks no invariant on the way."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controlplane.eviction.holds import Holds
from tests.simulation import chaos
from tests.simulation.histogram import ALL, LEAST, LONG, PROPERTY, Histogram
from tests.simulation.trouble import FAULTS
from tests.simulation.yardstick import yardstick

AT_ONCE = 20  # seeds in one test: small enough to be spread over processes evenly
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, ALL, AT_ONCE))
def test_everything_heals(first: int, record_property: Callable[[str, Any], None]) -> None:
    fired = Counter(dict.fromkeys(FAULTS, 0))
    chaos.fleet()  # which all seeds begin with, is made once
    seconds, failed, host = dict[int, float](), list[str](), yardstick()
    for seed in range(first, first + AT_ONCE):
        began = time.process_time()
        try:
            fired.update(set(chaos.run(seed).fired))
        except AssertionError as error:
            failed.append(str(error))
        seconds[seed] = round(time.process_time() - began, 4)
    record_property(PROPERTY, {"fired": dict(fired), "seconds": seconds, "yardstick": host})

    assert not failed, "\n\n".join(failed)


def test_a_seed_runs_the_same_way_every_time() -> None:
    script = "from tests.simulation import chaos; print(chaos.reported(chaos.run(3).world))"
    stories = {
        subprocess.run([sys.executable, "-c", script], cwd=ROOT, env={"PYTHONHASHSEED": hashes}, **_TEXT).stdout
        for hashes in ("1", "2")
    }

    assert len(stories) == 1
    assert len(next(iter(stories)).splitlines()) > 100


def test_a_failing_seed_says_how_to_run_it_again_and_what_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Holds, "why", lambda self, row, binding, cluster, *, now: ("", ""))

    seed, text = next((seed, text) for seed in range(ALL) if (text := _failure(seed)))

    assert text.startswith(f"seed {seed}: ")
    assert f"replay: python -m tests.simulation.chaos {seed}\n" in text
    assert re.search(r"^ordered: \w+ at \d", text, re.MULTILINE)
    assert "fault down" in text  # what was done to the members
    assert "Ready: True -> False" in text  # and what we made of it


def _failure(seed: int) -> str:
    try:
        chaos.run(seed)
    except AssertionError as error:
        return str(error)
    return ""


def test_the_replay_command_prints_the_timeline() -> None:
    reported = subprocess.run([sys.executable, *chaos.replay(3).split()[1:]], cwd=ROOT, **_TEXT)

    assert reported.returncode == 0
    assert "ScheduleBindingSucceed" in reported.stdout


def test_a_kind_of_trouble_that_is_too_rare_is_named() -> None:
    found = _found(dict.fromkeys(range(ALL), 0.2), fired={"partition": LEAST, "killed": LEAST - 1})

    assert found.rare == [f"killed: {LEAST - 1} of {ALL}"]
    assert f"happened too rarely: killed: {LEAST - 1} of {ALL}" in found.lines()


def test_seeds_that_take_long_are_counted_beside_how_fast_the_host_is() -> None:
    reported = _found({seed: LONG + 0.1 if seed in (7, 9) else 0.1 for seed in range(9, 0, -1)}, fired={}).lines()

    assert reported[-2].startswith(
        f"2 of 9 seeds took more than {LONG} s of processor time: longest 0.400 s (seed 9), "
    )
    assert reported[-1].endswith("took this host 28 ms at its best, 28 ms mostly, 28 ms at its worst")


def _found(seconds: dict[int, float], *, fired: dict[str, int]) -> Histogram:
    found = Histogram()
    found.add([(PROPERTY, {"fired": fired, "seconds": seconds, "yardstick": 0.028})])
    return found


_TEXT: dict[str, Any] = {"capture_output": True, "text": True, "check": False}
