"""Processes of a worker's pool: they end with the main process, and load nothing big for that."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.processes import until

# The main process ends when its input ends. Its child asks Celery, as each process of a pool does, to be killed then.
# If that does not happen, an alarm ends the child.
SCRIPT = """
import os, signal, sys
import apps.worker.process_pool
from celery.concurrency import prefork

if os.fork() == 0:
    prefork.platforms.set_pdeathsig("SIGKILL")
    print(os.getpid(), *(name for name in ("pycparser", "cffi.cparser") if name in sys.modules), flush=True)
    signal.alarm(60)
    signal.pause()
sys.stdin.read()
"""


def test_a_process_is_killed_when_the_main_process_ends_and_loads_no_parser_of_c() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as main:
        assert main.stdout is not None
        assert main.stdin is not None
        pid, *loaded = main.stdout.readline().split()
        main.stdin.close()

        until(lambda: main.poll() == 0, within=20)
        until(lambda: not _runs(int(pid)), within=20)

    assert loaded == []


def _runs(pid: int) -> bool:
    """Test whether a process runs. A process that has ended does not, even if its parent has not read its status."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
