"""rate: what the bucket in Redis lets through, with 1, 2 and 8 worker processes that all want more."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from apps.failover.bucket import PREFIX
from controlplane.eviction.rate import capacity
from tests.bench.figure import Figure

WORKERS = (1, 2, 8)
SLOW, FAST = 0.5, (50.0, 500.0)
SECONDS, IN_A_WHOLE_RUN = (60, 10), (30, 5)  # that are measured at the slow and at each fast rate
ALL_BUT = 1e-6  # of a token: sums of floats
SPARE_SECONDS = 5.0  # for processes to start in

_WORKER = """
import sys, time
import redis
from apps.failover.bucket import RedisBucket
url, prefix, rate, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
client = redis.Redis.from_url(url)
bucket = RedisBucket(client, prefix=prefix)
ends = time.monotonic() + seconds
while time.monotonic() < ends:
    before = client.time()
    granted, next_in = bucket.take(200, rate)
    if granted:
        now = client.time()
        print(f"{before[0] + before[1] / 1e6:.6f} {now[0] + now[1] / 1e6:.6f} {granted}", flush=True)
    time.sleep(min(max(next_in, 0.001), 0.5))
"""


def run() -> list[Figure]:
    """Run the slow rate with every number of workers at once, then the fast ones one after the other.

    In a run of all benches, for half as long, and of the fast ones only the fastest.
    """
    whole = bool(os.environ.get("BENCH_WHOLE"))
    slow, fast = IN_A_WHOLE_RUN if whole else SECONDS
    rates = FAST[-1:] if whole else FAST
    return _slow(slow) + [_fast(rate, workers, fast) for rate in rates for workers in WORKERS]


def _slow(seconds: int) -> list[Figure]:
    figures: list[Figure] = []
    for workers, started in [(workers, _start(workers, SLOW, seconds + 2 + SPARE_SECONDS)) for workers in WORKERS]:
        taken = _collect(started, SLOW)
        first = taken[0]
        count = sum(1 for one in taken if one < first + seconds)
        gaps = [after - before for before, after in pairwise(taken)]
        on = f"{workers} workers, {SLOW:g}/s"
        figures.append(Figure(f"rate.{SLOW:g}.tokens_in_{seconds}s", count, "tokens", len(taken), on))
        figures.append(Figure(f"rate.{SLOW:g}.gap_min", min(gaps) * 1000, "ms", len(gaps), on))
        figures.append(Figure(f"rate.{SLOW:g}.gap_max", max(gaps) * 1000, "ms", len(gaps), on))
        assert abs(count - SLOW * seconds) <= 1, f"{count} tokens in {seconds} s with {on}"
        assert all(1.9 <= gap <= 2.1 for gap in gaps), f"gaps {min(gaps):.3f} to {max(gaps):.3f} s with {on}"
    return figures


def _fast(rate: float, workers: int, seconds: int) -> Figure:
    taken = _collect(_start(workers, rate, seconds + SPARE_SECONDS), rate)
    begins = taken[0] + 1  # all workers are there
    within = sum(1 for one in taken if begins <= one < begins + seconds)
    measured = within / seconds
    assert abs(measured - rate) <= 0.02 * rate, f"{measured:.1f}/s instead of {rate:g}/s with {workers} workers"
    return Figure(f"rate.{rate:g}", measured, "tokens/s", within, f"{workers} workers, {rate:g}/s")


def _start(workers: int, rate: float, seconds: float) -> list[subprocess.Popen[str]]:
    prefix = f"{PREFIX}bench:{uuid.uuid4().hex}:"
    command = [sys.executable, "-c", _WORKER, os.environ["REDIS_URL"], prefix, str(rate), str(seconds)]
    return [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(workers)]


def _collect(started: list[subprocess.Popen[str]], rate: float) -> list[float]:
    """Return the moment of every token, by the clock of Redis, once no window has more than it may."""
    taken: list[tuple[float, float]] = []  # just before, and just after
    for process in started:
        output, _ = process.communicate()
        assert process.returncode == 0, "a worker failed"
        for before, after, granted in map(str.split, output.splitlines()):
            taken += [(float(before), float(after))] * int(granted)
    _check_windows(np.array(taken), rate)
    return sorted(after for _, after in taken)


def _check_windows(taken: npt.NDArray[np.float64], rate: float) -> None:
    """No window exceeds capacity plus rate times its length [bounded-rate]: what was asked for and had within it
    counts."""
    begins, ends = taken[:, 0], taken[:, 1]
    for begin in np.sort(begins)[:: max(1, len(begins) // 200)]:
        within = np.sort(ends[begins >= begin])
        allowed = capacity(rate) + rate * (within - begin) + ALL_BUT
        over = np.flatnonzero(np.arange(1, len(within) + 1) > allowed)
        assert not len(over), f"{over[0] + 1} tokens within {within[over[0]] - begin:.6f} s at {rate:g}/s"
