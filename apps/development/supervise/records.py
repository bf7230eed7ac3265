"""Who was started: records on disk that outlive a crash, exact enough never to end a stranger.

A pid alone is no name: the system gives it out again. A record also holds when the process started, and a token that
every process we start carries in its environment.
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
    """One process we started, leader of its own process group and session."""

    name: str
    pid: int
    started: str  # identity of the start, from started()
    token: str  # value of LIFEBOAT_SUPERVISED in its environment
    stop_signal: int
    group: bool  # whether stopping addresses the whole group; PostgreSQL wants the postmaster only

    def alive(self) -> bool:
        return started(self.pid) == self.started

    def write(self, folder: Path) -> None:
        write_private(folder / f"{self.name}.json", json.dumps(dataclasses.asdict(self)))

    def erase(self, folder: Path) -> None:
        (folder / f"{self.name}.json").unlink(missing_ok=True)


def read_records(folder: Path) -> list[Record]:
    """Return the records a supervisor left; a torn or foreign file is no record."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(Record(**json.loads(path.read_text())))
        except (TypeError, ValueError):
            continue
    return found


def started(pid: int) -> str | None:
    """Return what tells this process from every other that has had or will have its pid; None when it does not run."""
    if LINUX:
        fields = _stat(pid)
        return None if fields is None or fields[0] in "ZX" else f"{_boot()}/{fields[19]}"
    listing = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, when = listing.stdout.strip().partition(" ")
    return None if not when or state.startswith("Z") else when.strip()


def end(record: Record, *, grace: float) -> bool:
    """End a recorded process and what is left of its session; return whether anything was running.

    grace: seconds between the polite signal and SIGKILL.
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
    """Return whether the process ended within so many seconds."""
    deadline = time.monotonic() + seconds
    while record.alive():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def send(pid: int, signum: int, *, group: bool) -> None:
    """Send a signal to a process or to the group it leads; one that is gone already is fine."""
    try:
        if group:
            os.killpg(pid, signum)
        else:
            os.kill(pid, signum)
    except ProcessLookupError:
        pass


def _session(record: Record) -> Iterator[int]:
    """Yield processes of the session the record opened that carry our token (Linux; elsewhere none are known)."""
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
