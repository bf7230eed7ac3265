"""The trouble: processes are killed and members fail, at random from one seed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter

from apps.development.supervise.stack import MEMBERS
from tests.chaos.ledger import Ledger
from tests.chaos.site import Site

VICTIMS = ("api", "worker", "beat", "members", "postgres", "redis")
WITH_CHILDREN = ("worker", "postgres")  # one of their own processes may be killed instead of all
PAUSE = (1.5, 5.0)  # seconds between two kills
FAULTS = (
    "down",
    "blackhole",
    "unhealthy",
    "down",
    "unhealthy",
    "slow",
    "unauthorized",
)  # most make a cluster not Ready
LASTS = (25.0, 45.0)  # seconds a member fails: controllers that are killed all the time take about 20 s to evict
FAULT_PAUSE = (2.0, 8.0)  # seconds between two faults


class Trouble:
    """Two threads, one for processes and one for members, until `stop`."""

    def __init__(self, site: Site, ledger: Ledger, *, seed: int) -> None:
        self.site = site
        self.ledger = ledger
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._kill, args=(random.Random(f"kills {seed}"),), name="kills"),
            threading.Thread(target=self._fail, args=(random.Random(f"faults {seed}"),), name="faults"),
        ]

    def start(self) -> None:
        for one in self._threads:
            one.start()

    def stop(self) -> None:
        """End the trouble; every member is mended."""
        self._stopping.set()
        for one in self._threads:
            one.join()
        self.site.heal()

    def _kill(self, chance: random.Random) -> None:
        order: list[str] = []
        while not self._stopping.wait(chance.uniform(*PAUSE)):
            order = order or chance.sample(VICTIMS, len(VICTIMS))  # every program has its turn
            name, one_of_its_own = order.pop(), chance.random() < 0.5
            record = self.site.running(name)
            if record is None:
                continue  # it has not been started again yet
            children = _children(record.pid) if name in WITH_CHILDREN and one_of_its_own else []
            what, pid = ("a child", chance.choice(children)) if children else ("the main process", record.pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it has just ended by itself
            self.ledger.kill(name, what)

    def _fail(self, chance: random.Random) -> None:
        order: list[str] = []
        while not self._stopping.wait(chance.uniform(*FAULT_PAUSE)):
            order = order or chance.sample(FAULTS, len(FAULTS))
            (member,) = chance.choices(MEMBERS, self._weights())
            fault = order.pop()
            self._suffer(member, fault)
            self._stopping.wait(chance.uniform(*LASTS))
            self._suffer(member, "none")

    def _weights(self) -> list[float]:
        """Return how likely each member is to fail: the more workloads are on it, the more there is to evict."""
        try:
            bindings = self.site.items("ResourceBinding")
        except ConnectionError:
            return [1.0] * len(MEMBERS)  # the API has just been killed
        placed = Counter(one["name"] for binding in bindings for one in binding["spec"].get("clusters") or ())
        return [0.2 + placed[member] for member in MEMBERS]

    def _suffer(self, member: str, fault: str) -> None:
        self.site.set_fault(member, fault)
        self.ledger.fault(member, fault)


def _children(pid: int) -> list[int]:
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in done.stdout.split()]


def until(deadline: float) -> None:
    """Wait until a moment of time.monotonic()."""
    time.sleep(max(0.0, deadline - time.monotonic()))
