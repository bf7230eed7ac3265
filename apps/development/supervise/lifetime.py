"""The life of one supervisor: in the foreground, in the background, and how another process ends it."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from apps.development.supervise.errors import SuperviseError
from apps.development.supervise.processes import Supervisor
from apps.development.supervise.run_folder import RunFolder

PROJECT = Path(__file__).resolve().parents[3]
Facts = dict[str, Any]


def hold(
    home: RunFolder,
    bring_up: Callable[[Supervisor], Facts],
    *,
    say: Callable[[str], None] = print,
    with_parent: bool = False,
) -> None:
    """Start everything, publish its addresses, keep it running until a signal arrives, and end it.

    with_parent: also end when the process that started this one has ended.
    Raises SuperviseError if the folder already has a supervisor, or if a process does not start.
    """
    home.create()
    if not home.lock():
        raise SuperviseError(f"already running in {home.root} (pid {home.holder()}): `make down` ends it")
    supervisor = Supervisor(home, say=say)
    supervisor.stop_on_signals()
    if stale := supervisor.end_stale():
        say(f"ended what a crashed run had left: {', '.join(stale)}")
    try:
        home.publish(bring_up(supervisor))
        supervisor.watch(with_parent=with_parent)
    finally:
        home.withdraw()
        supervisor.stop()


def detach(
    home: RunFolder, arguments: Sequence[str], *, within: float, say: Callable[[str], None] = print
) -> tuple[subprocess.Popen[bytes], Facts]:
    """Start a supervisor in the background and print its output until everything runs.

    Returns its process and what it published. `within`: seconds. Raises SuperviseError if it is not ready by then.
    """
    home.create()
    log = home.log("supervisor")
    printed = log.stat().st_size if log.exists() else 0
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "apps.development.supervise", *arguments],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + within
    while True:
        ended = process.poll()
        facts = home.published() if home.holder() == process.pid else None
        with log.open("rb") as output:
            output.seek(printed)
            fresh = output.read()
        printed += len(fresh)
        if fresh:
            say(fresh.decode(errors="replace").rstrip("\n"))
        if ended is not None:
            raise SuperviseError(f"the supervisor ended with status {ended} (log: {log})")
        if facts is not None:
            return process, facts
        if time.monotonic() > deadline:
            process.terminate()
            process.wait()
            raise SuperviseError(f"not up after {within:g} s (log: {log})")
        time.sleep(0.05)


def down(home: RunFolder, *, within: float = 90.0) -> bool:
    """End the supervisor of a folder with its processes, or those that a crashed supervisor left.

    Returns whether anything was running. `within`: seconds until the supervisor is killed.
    """
    if not home.run.exists():
        return False
    holder = home.holder()
    if holder is not None:
        os.kill(holder, signal.SIGTERM)
        deadline = time.monotonic() + within
        while home.locked() and time.monotonic() < deadline:
            time.sleep(0.05)
        if home.locked():
            os.kill(holder, signal.SIGKILL)
    left = Supervisor(home).end_stale()
    home.withdraw()
    return holder is not None or bool(left)


def exports(facts: Facts) -> str:
    """Return lines for eval: the environment variables of the processes that run."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in facts["environment"].items())
