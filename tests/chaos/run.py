"""One run of the chaos: up, trouble while clients write, quiet, and the checks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import psycopg

from tests.chaos import checks
from tests.chaos.ledger import Ledger
from tests.chaos.site import PATHS, Site
from tests.chaos.trouble import Trouble, until
from tests.chaos.writers import POLICY, Writers

SETTLED_WITHIN = 240.0  # seconds, on a busy machine: back-offs of the supervisor, time limits of evictions
EVERY = 1.0


class Report(NamedTuple):
    """What a run showed. `problems` is empty where all held."""

    lines: list[str]
    problems: list[str]
    kills: Mapping[str, int]
    acknowledged: int


def run(root: Path, *, seconds: float, seed: int, say: Callable[[str], None] = print) -> Report:
    """Run the chaos in a folder for so many seconds. The folder keeps the logs and the ledger."""
    site = Site(root)
    site.up()
    path = root / f"chaos-{int(time.time())}.jsonl"
    ledger = Ledger(path)
    try:
        say(f"chaos for {seconds:g} s with seed {seed}; the ledger: {path}")
        _begin(site)
        trouble, writers = Trouble(site, ledger, seed=seed), Writers(site, ledger, seed=seed)
        ends = time.monotonic() + seconds
        writers.start()
        trouble.start()
        try:
            until(ends)
        finally:
            trouble.stop()
            writers.stop()
        took, problems = _settle(site)
        found = problems + _checked(site, ledger)
        acknowledged = sum(one.outcome == "acknowledged" for one in ledger.writes)
        return Report([*ledger.summary(), *_reported(site, found, took)], found, ledger.kills, acknowledged)
    finally:
        ledger.close()
        site.down()


def _evictions(site: Site) -> str:
    try:
        return str(checks.evictions(site))
    except psycopg.Error as error:
        return f"cannot be counted: {error}"


def _begin(site: Site) -> None:
    answer = site.ask("POST", PATHS["PropagationPolicy"], POLICY)
    if answer.status not in (201, 409):
        raise RuntimeError(f"the policy was refused: {answer}")


def _settle(site: Site) -> tuple[float, list[str]]:
    """Wait until everything is as it has to be; return the seconds that took, and what is not so in the end."""
    began = time.monotonic()
    while True:
        try:
            problems = checks.unsettled(site)
        except (ConnectionError, OSError) as error:
            problems = [f"does not answer: {error}"]
        took = time.monotonic() - began
        if not problems or took > SETTLED_WITHIN:
            return took, problems
        time.sleep(EVERY)


def _checked(site: Site, ledger: Ledger) -> list[str]:
    try:
        return checks.lost(site, ledger) + checks.twice(site) + checks.beyond_the_rate(site)
    except (ConnectionError, psycopg.Error) as error:
        return [f"cannot be checked: {error}"]


def _reported(site: Site, problems: list[str], took: float) -> list[str]:
    def count(word: str) -> int:
        return sum(one.startswith(f"{word}:") for one in problems)

    return [
        f"settled after {took:.0f} s",
        f"lost {count('lost')}, twice {count('twice')}, nowhere {count('nowhere')}, copies wrong {count('copies')}",
        f"evictions: {_evictions(site)}, beyond the rate {count('rate')}",
        *problems,
    ]
