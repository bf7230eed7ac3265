"""soak: the memory of every process after warm-up and at the end of a churn of writes, failovers, lists and watches.

MINUTES: how long after the warm-up. Fails if a process has grown by more than GROWTH_MB.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from contextlib import suppress

from apps.development.supervise import lifetime
from apps.development.supervise import stack as supervised
from tests.bench.figure import Figure, table
from tests.bench.own_stack import STAND_INS, OwnStack, Share, Usage, own_stack
from tests.builders import documents

MINUTES = 10.0
WARM_UP = 6  # rounds: caches are full after these
BATCH = 20  # Deployments that a round creates, edits and deletes
WATCHERS = 10
FAILED_SECONDS = 12.0  # the development profile evicts after about 9 s
# A process may keep this much more than after the warm-up, for freed memory that it uses again.
GROWTH_MB = 12.0
SERVERS = ("postgres", "postgres.backends")  # bounded by settings; pages of theirs come and go with sessions
SPACE = "soak"
PATHS = (
    "/",
    "/queue",
    documents.deployments(SPACE),
    "/apis/work.karmada.io/v1alpha2/resourcebindings?limit=500",
    "/apis/cluster.karmada.io/v1alpha1/clusters",
    "/apis/failover.lifeboat.io/v1alpha1/failoverrecords?limit=100",
)


def run() -> list[Figure]:
    """Return the memory of each role that is no part of a file, and what the processes used meanwhile."""
    minutes = float(os.environ.get("MINUTES") or MINUTES)
    with own_stack() as stack:
        churn = Churn(stack)
        with churn:
            for _ in range(WARM_UP):
                churn.round()
            before, used = shares(stack), stack.usage()
            ends = time.monotonic() + 60 * minutes
            while time.monotonic() < ends:
                churn.round()
            after, spent = shares(stack), stack.usage().since(used)
        return _figures(before, after, spent, churn)


class Churn:
    """Writes, failovers, reads and watches. A round ends with the objects and clusters with which it began."""

    def __init__(self, stack: OwnStack) -> None:
        self.stack = stack
        self.rounds = 0
        self.lines = 0  # of watches
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._watch, daemon=True) for _ in range(WATCHERS)]

    def __enter__(self) -> Churn:
        self.stack.ask("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}})
        spread = {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}
        policy = documents.policy("soak", placement=spread)
        self.stack.ask("POST", documents.policies(SPACE), policy)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()

    def round(self) -> None:
        """Create, edit and delete a batch, with a failover in between, and read."""
        self.rounds += 1
        names = [f"app-{self.rounds}-{number}" for number in range(BATCH)]
        for name in names:
            self.stack.ask("POST", documents.deployments(SPACE), documents.deployment(name, replicas=3))
        self._await("count(*) = %s", BATCH)
        for name in names:
            self.stack.ask("PATCH", documents.deployments(SPACE, name), {"spec": {"replicas": 2 + self.rounds % 5}})
        self._fault("down")
        for path in PATHS:
            self.stack.ask("GET", path)
        self._ends.wait(FAILED_SECONDS)
        self._fault("none")
        self.stack.until(
            "SELECT count(*) = 0 FROM clusters_taint WHERE key = %s", "cluster.karmada.io/not-ready", within=120
        )
        for name in names:
            self.stack.ask("DELETE", documents.deployments(SPACE, name))
        self._await("count(*) = %s", 0)

    def _await(self, condition: str, number: int) -> None:
        statement = f"SELECT {condition} FROM resources_binding WHERE namespace = %s"
        self.stack.until(statement, number, SPACE, within=120)

    def _fault(self, fault: str) -> None:
        command = supervised.fault_command(self.stack.home, member="member2", fault=fault)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=lifetime.PROJECT)

    def _watch(self) -> None:
        """Read a stream for a while, then another."""
        while not self._ends.is_set():
            with (
                suppress(OSError),
                self.stack.open("GET", f"{documents.deployments(SPACE)}?watch=true&timeoutSeconds=20") as answer,
            ):
                for _ in answer:
                    self.lines += 1


def shares(stack: OwnStack) -> dict[str, Share]:
    """Return the memory of each role. The anonymous part is compared: it grows only if the process keeps more."""
    return {share.role: share for share in stack.memory()}


def _figures(before: dict[str, Share], after: dict[str, Share], spent: Usage, churn: Churn) -> list[Figure]:
    rounds = f"{churn.rounds - WARM_UP} rounds, {churn.lines:,} lines of {WATCHERS} watches"
    on = f"{spent.seconds / 60:.1f} minutes, {rounds}"
    figures = [Figure("soak.cpu", spent.cpu / spent.seconds * 60, "s/min", churn.rounds, on)]
    for role, share in sorted(after.items()):
        grown = share.anonymous - before[role].anonymous
        own = f"{share.private:.1f} MB private, {before[role].private:.1f} before"
        figures.append(
            Figure(f"soak.{role}", share.anonymous, "MB", share.processes, f"anonymous; {grown:+.1f} MB; {own}; {on}")
        )
    print(table(figures))  # also if the check below fails
    grew = [
        f"{role}: {before[role].anonymous:.1f} to {share.anonymous:.1f} MB"
        for role, share in after.items()
        if role not in (*SERVERS, *STAND_INS) and share.anonymous - before[role].anonymous > GROWTH_MB * share.processes
    ]
    assert not grew, f"grew by more than {GROWTH_MB:g} MB for each process: {'; '.join(grew)}"
    return figures
