"""Not a bench: CPU time of processes, which says the same on a busy machine and on a quiet one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")  # in a second


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU seconds of these processes and of their children that have ended."""
    return sum(sum(map(int, _fields(pid)[11:15])) for pid in pids) / _TICKS


def database_pids() -> list[int]:
    """Return the processes of the PostgreSQL server of Django's connection; it runs on this machine."""
    from django.db import connection  # here: Django is set up by now

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (own,) = cursor.fetchone()
    parent = int(_fields(own)[1])
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [parent, *map(int, children)]


def _fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on; zeros for a process that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["0"] * 20
