"""Records of started processes on disk, so that they can be ended after a crash, and no other process is.

A pid alone is not enough, because the system uses pids again. A record also has the start time of the process, and a
token that every process started by a supervisor has in its environment.
"""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apps.development.supervise.private import write_private

TOKEN_VARIABLE = "LIFEBOAT_SUPERVISED"
LINUX = sys.platform.startswith("linux")


@dataclass(frozen=True)
class Record:
    """A started process. It leads a process group and a session of its own."""

    name: str
    pid: int
    started: str  # from started()
    token: str  # value of LIFEBOAT_SUPERVISED in its environment
    stop_signal: int
    group: bool  # whether the stop signal goes to the whole group; for PostgreSQL only to the postmaster

    def alive(self) -> bool:
        return started(self.pid) == self.started

    def write(self, folder: Path) -> None:
        write_private(folder / f"{self.name}.json", json.dumps(dataclasses.asdict(self)))

    def erase(self, folder: Path) -> None:
        (folder / f"{self.name}.json").unlink(missing_ok=True)


def read_records(folder: Path) -> list[Record]:
    """Return the records in a folder. Files that are not records are ignored."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(Record(**json.loads(path.read_text())))
        except (TypeError, ValueError):
            continue
    return found


def started(pid: int) -> str | None:
    """Return a text that differs for every process with the same pid. None: the process does not run."""
    if LINUX:
        fields = _stat(pid)
        return None if fields is None or fields[0] in "ZX" else f"{_boot()}/{fields[19]}"
    listing = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, when = listing.stdout.strip().partition(" ")
    return None if not when or state.startswith("Z") else when.strip()


def end(record: Record, *, grace: float) -> bool:
    """End a recorded process and the rest of its session. Returns whether anything was running.

    grace: seconds between the stop signal and SIGKILL.
    """
    was_running = record.alive()
    if was_running:
        send(record.pid, record.stop_signal, group=record.group)
        if not wait_gone(record, grace):
            send(record.pid, signal.SIGKILL, group=record.group)
            wait_gone(record, 5.0)
    orphans = list(_session(record))
    for pid in orphans:
        send(pid, signal.SIGKILL, group=False)
    return was_running or bool(orphans)


def wait_gone(record: Record, seconds: float) -> bool:
    """Wait until the process has ended. Returns False if it still runs after `seconds`."""
    deadline = time.monotonic() + seconds
    while record.alive():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def send(pid: int, signum: int, *, group: bool) -> None:
    """Send a signal to a process, or to the group that it leads. A process that has ended is ignored."""
    try:
        if group:
            os.killpg(pid, signum)
        else:
            os.kill(pid, signum)
    except ProcessLookupError:
        pass


def _session(record: Record) -> Iterator[int]:
    """Yield the processes of the session of a record that have our token. Only on Linux; elsewhere none is found."""
    if not LINUX:
        return
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        fields = _stat(int(entry))
        if fields is None or fields[0] in "ZX" or int(fields[3]) != record.pid:
            continue
        try:
            environment = Path(f"/proc/{entry}/environ").read_bytes()
        except OSError:
            continue
        if f"{TOKEN_VARIABLE}={record.token}".encode() in environment.split(b"\0"):
            yield int(entry)


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/<pid>/stat after the command's name: state, ppid, pgrp, session, …; 19: start."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return line.rpartition(")")[2].split()


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "boot"
