"""One hostile member costs the others nothing: memory is bounded, and their probes and applies go on in time."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from apps.clusters.joining import Member, join
from apps.objects.configuration import base
from tests.apps.hostile import ATTACKS
from tests.apps.stack import LEAVE_WHERE_NOT_READY, WITHIN, Stack, deployment, policy, stack
from tests.processes import peak_megabytes, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

GOOD = ("member1", "member2")
MORE_MEGABYTES = 200.0  # an attack adds at most 131; a gzip without the limit of decompression adds 251
SECONDS = 2.0  # each attack lasts at least so long
APPLIED_WITHIN = 20.0  # s; a workload on the good members meanwhile: 3.1 with load, and CI is slower
LONGEST_GAP = 10.0  # s, between two probes of a good member, which are due every half second: 2.3 with load
TELLING = {  # the attacks that exceed a limit of our own, and what is reported of it
    "gzip": "larger than 8 MiB",
    "endless": "(larger|longer) than 8 MiB",
    "pages": "more than 2,000 pages|takes longer than",
    "values": "more than 500,000 JSON values",
    "events": "take more than 32 MiB",
}


class Attacker:
    """The hostile member's process."""

    def __init__(self, running: Stack) -> None:
        arguments = ["-m", "tests.apps.hostile"]
        running.processes.start("hostile", arguments, says="listening on")
        (log,) = running.processes.folder.glob("hostile-*.log")
        self.url = f"http://127.0.0.1:{re.search(r'listening on (.+)', log.read_text())[1]}"  # type: ignore[index]

    def attack(self, name: str) -> None:
        with urllib.request.urlopen(f"{self.url}/attack/{name}", timeout=WITHIN):
            pass


@pytest.fixture
def fleet(tmp_path: Path, redis_url: str, redis_client: object) -> Iterator[tuple[Stack, Attacker]]:
    """Two good members and a hostile one, which behaves so far; each has a workload."""
    settings = {"members_watch_bytes": str(32 * 1024 * 1024), "cluster_status_update_frequency": "0.5"}
    with stack(tmp_path, redis_url, *GOOD, **settings) as running:
        attacker = Attacker(running)
        running.up()
        running.join(*GOOD)
        join(running.store, [Member("hostile", attacker.url, "token")], base())
        until(lambda: running.is_usable("hostile"), within=WITHIN)
        running.create(LEAVE_WHERE_NOT_READY)
        running.create(policy(*GOOD, "hostile"))
        running.create(deployment("before"))
        until(lambda: set(GOOD) <= running.healthy("before"), within=WITHIN)
        yield running, attacker


def test_one_hostile_member_costs_the_others_nothing(fleet: tuple[Stack, Attacker]) -> None:
    running, attacker = fleet
    assert running.watching is not None
    pid = running.watching.pid
    before, figures, failures = _peak(pid), {}, list[str]()

    for name in ATTACKS:
        began, at = time.monotonic(), datetime.now(UTC)
        attacker.attack(name)
        running.create(deployment(f"during-{name}"))
        until(lambda n=name: set(GOOD) <= running.healthy(f"during-{n}"), within=WITHIN)  # type: ignore[misc]
        applied = time.monotonic() - began
        time.sleep(max(0.0, SECONDS - applied))  # the attack itself: there is no event to wait for
        gap = max(_longest_gap(running, member, since=at) for member in GOOD)
        more = _peak(pid) - before
        reported = TELLING.get(name, "")
        assert not reported or until(lambda w=reported: re.search(w, _reported(running)), within=WITHIN), name  # type: ignore[misc]
        figures[name] = (round(applied, 1), round(gap, 1), round(more))
        print(f"{name}: applied after {applied:.1f} s, longest gap {gap:.1f} s, {more:.0f} MB more")
        attacker.attack("none")
        if applied > APPLIED_WITHIN or gap > LONGEST_GAP or more > MORE_MEGABYTES:
            failures.append(name)

    assert not failures, figures
    running.create(deployment("after"))
    until(lambda: "hostile" in _applied(running, "after"), within=WITHIN)
    assert running.is_usable("hostile"), "it behaves again"


def _applied(running: Stack, name: str) -> set[str]:
    """Return the clusters whose members accepted a Deployment. The hostile member reports no health of it."""
    binding = running.binding(name)
    items = () if binding is None else binding.status.aggregated_status
    return {one.cluster_name for one in items if one.applied}


def _reported(running: Stack) -> str:
    found = [one for one in running.store.list("Event") if one.involved_object.name == "hostile"]
    return "\n".join(f"{one.reason}: {one.message}" for one in found)


def _peak(pid: int) -> float:
    """Return the largest resident size since it was asked last, in MB."""
    found = peak_megabytes(pid)
    with open(f"/proc/{pid}/clear_refs", "w") as kernel:
        kernel.write("5")
    return found


def _longest_gap(running: Stack, member: str, *, since: datetime) -> float:
    """Return the longest time in which a member was not asked whether it is ready, in seconds."""
    assert running.fleet is not None
    asked = [one["at"] for one in running.fleet.requests(member) if one["path"].startswith("/readyz")]
    times = [since, *(at for one in asked if (at := datetime.fromisoformat(one)) >= since), datetime.now(UTC)]
    return max((later - sooner).total_seconds() for sooner, later in pairwise(times))
