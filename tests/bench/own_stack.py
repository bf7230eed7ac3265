"""Not a bench: all processes of a run, with PostgreSQL and Redis of their own, and what they use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psycopg
import yaml

from apps.development.supervise import lifetime, records
from apps.development.supervise.run_folder import RunFolder
from controlplane.settings import Settings

# The intervals of an installation, instead of those of `make run`, which show a failover within seconds.
USUAL_INTERVALS = {
    f"LIFEBOAT_{name}": str(getattr(Settings(), name.lower())).removesuffix(".0")
    for name in (
        "CLUSTER_STATUS_UPDATE_FREQUENCY",
        "CLUSTER_SUCCESS_THRESHOLD",
        "CLUSTER_FAILURE_THRESHOLD",
        "CLUSTER_MONITOR_PERIOD",
        "CLUSTER_MONITOR_GRACE_PERIOD",
        "CLUSTER_STARTUP_GRACE_PERIOD",
        "GRACEFUL_EVICTION_TIMEOUT",
    )
}
STAND_INS = ("simulator", "supervisor")  # no part of an installation: simulated members, and what starts processes here
TICKS = os.sysconf("SC_CLK_TCK")
WITHIN = 1800.0  # seconds until a bench gives up


class Usage(NamedTuple):
    """What all processes together have used so far."""

    seconds: float  # monotonic
    cpu: float  # seconds
    wal: int  # bytes

    def since(self, before: Usage) -> Usage:
        return Usage(self.seconds - before.seconds, self.cpu - before.cpu, self.wal - before.wal)


class Share(NamedTuple):
    """The memory of one or several processes, in MB. `proportional`: shared pages count for each process in part.

    `anonymous`: what is no part of a file, shared or not. It does not change when a process gets a copy of its own of
    a page that it shared, so it grows only if a process keeps more.
    """

    role: str
    processes: int
    proportional: float
    private: float
    anonymous: float


class OwnStack:
    """What runs, and how it is asked."""

    def __init__(self, folder: Path, more: dict[str, str]) -> None:
        self.home = RunFolder(folder)
        self._more = more

    def start(self) -> None:
        """Start everything. Returns when it is ready."""
        self._supervise("up")
        facts = self.home.published()
        assert facts is not None
        self.environment: dict[str, str] = facts["environment"]
        self.api = urlsplit(facts["api"]).netloc
        kubeconfig = yaml.safe_load((self.home.root / "kubeconfig").read_text())
        self.token: str = kubeconfig["users"][0]["user"]["token"]

    def stop(self, *, clean: bool = False) -> None:
        """End everything. clean: also remove the data."""
        self._supervise("clean" if clean else "down")

    def manage(self, *arguments: str) -> float:
        """Run `manage.py` beside the processes. Returns the CPU seconds that it used."""
        before = os.times()
        subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=lifetime.PROJECT,
            env={**os.environ, **self.environment},
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    def open(self, method: str, path: str, body: Any = None, *, accept: str = "*/*") -> HTTPResponse:
        """Send a request and return the answer, of which the body is not read. Raises AssertionError for an error."""
        headers = {"Authorization": f"Bearer {self.token}", "Accept": accept}
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
        connection = HTTPConnection(self.api, timeout=120)
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        assert answer.status < 400, (method, path, answer.status, answer.read(2000))
        return answer

    def ask(self, method: str, path: str, body: Any = None, *, accept: str = "*/*") -> bytes:
        """Send a request and return the body of the answer."""
        with self.open(method, path, body, accept=accept) as answer:
            return answer.read()

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with psycopg.connect(self.environment["DATABASE_URL"], autocommit=True) as connection:
            return connection.execute(statement, values).fetchall()

    def number(self, statement: str, *values: Any) -> int:
        """Return the only value of a query."""
        return int(self.sql(statement, *values)[0][0] or 0)

    def vacuum(self) -> None:
        """Have PostgreSQL clear up what was written. Otherwise it does that during the next minutes (autovacuum)."""
        with psycopg.connect(self.environment["DATABASE_URL"], autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")

    def until(self, statement: str, *values: Any, within: float = WITHIN, every: float = 0.02) -> None:
        """Wait until the only value of a query is true. Raises AssertionError after `within` seconds.

        `every`: seconds between two queries. Their CPU is part of what is measured, so ask about a long act seldom.
        """
        deadline = time.monotonic() + within
        with psycopg.connect(self.environment["DATABASE_URL"], autocommit=True) as connection:
            while not connection.execute(statement, values).fetchall()[0][0]:
                assert time.monotonic() < deadline, f"not true after {within:g} s: {statement} {values}"
                time.sleep(every)

    def pids(self) -> dict[str, list[int]]:
        """Return the processes by role. Those below a recorded process have the role `<name>.pool`."""
        children = _children()
        found: dict[str, list[int]] = {"supervisor": [self.home.holder() or 0]}
        for record in records.read_records(self.home.run):
            found[record.name] = [record.pid]
            below = list(_below(record.pid, children))
            if below:
                found["postgres.backends" if record.name == "postgres" else f"{record.name}.pool"] = below
        return found

    def usage(self) -> Usage:
        """Return what all processes but the stand-ins have used since their start."""
        cpu = sum(_cpu(pid) for role, pids in self.pids().items() if role not in STAND_INS for pid in pids)
        wal = self.number("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')")
        return Usage(time.monotonic(), cpu, wal)

    def memory(self) -> list[Share]:
        """Return the memory of each role, the largest first."""
        shares = []
        for role, pids in self.pids().items():
            sizes = [found for pid in pids if (found := _sizes(pid)) is not None]
            shares.append(Share(role, len(sizes), *(sum(one[column] for one in sizes) for column in range(3))))
        return sorted(shares, key=lambda share: -share.proportional)

    def measured(self, act: Callable[[], Any]) -> Usage:
        """Return what all processes used while `act` ran."""
        before = self.usage()
        act()
        return self.usage().since(before)

    def _supervise(self, verb: str) -> None:
        subprocess.run(
            [sys.executable, "-m", "apps.development.supervise", verb, "--dir", str(self.home.root)],
            cwd=lifetime.PROJECT,
            env={**_without_servers(), **self._more},
            check=True,
            stdout=subprocess.DEVNULL,
        )


@contextmanager
def own_stack(**more: str) -> Iterator[OwnStack]:
    """Start everything in a new folder with these environment variables, and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="lifeboat-bench-") as folder:
        stack = OwnStack(Path(folder) / "run", more)
        try:
            stack.start()
            yield stack
        finally:
            stack.stop(clean=True)


def sizes(default: str) -> list[tuple[int, int]]:
    """Return numbers of clusters and bindings from the variable SIZES, e.g. "10x1000,100x10000"."""
    pairs = (one.lower().split("x") for one in (os.environ.get("SIZES") or default).replace(" ", "").split(","))
    return [(int(clusters), int(bindings)) for clusters, bindings in pairs]


def _without_servers() -> dict[str, str]:
    names = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "LIFEBOAT_ENCRYPTION_KEYS", "LIFEBOAT_SECRET_KEY")
    return {name: value for name, value in os.environ.items() if name not in names}


def _children() -> dict[int, list[int]]:
    found = defaultdict(list)
    for entry in Path("/proc").glob("[0-9]*"):
        if (fields := _fields(int(entry.name))) is not None:
            found[int(fields[1])].append(int(entry.name))
    return found


def _below(pid: int, children: dict[int, list[int]]) -> Iterator[int]:
    for child in children.get(pid, ()):
        yield child
        yield from _below(child, children)


def _fields(pid: int) -> Sequence[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _cpu(pid: int) -> float:
    """Return the CPU seconds of a process and of its children that have ended."""
    fields = _fields(pid)
    return 0.0 if fields is None else sum(int(value) for value in fields[11:15]) / TICKS


def _sizes(pid: int) -> tuple[float, float, float] | None:
    """Return the proportional set size, the private and the anonymous memory of a process in MB. None: it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return None
    found = {name: int(value.split()[0]) / 1024 for name, _, value in (line.partition(":") for line in lines)}
    return found["Pss"], found["Private_Dirty"] + found["Private_Clean"], found["Anonymous"]
