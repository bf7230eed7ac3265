"""From start to end of one supervisor: in the foreground, in the background, and how another process ends it."""

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
from apps.development.supervise.run_folder import Home

PROJECT = Path(__file__).resolve().parents[3]
Facts = dict[str, Any]


def hold(
    home: Home,
    bring_up: Callable[[Supervisor], Facts],
    *,
    say: Callable[[str], None] = print,
    with_parent: bool = False,
) -> None:
    """Bring everything up, publish where it is, keep it running until told to stop, and end it.

    with_parent: end also when the process that started this one is gone.
    Raises SuperviseError where the folder has a supervisor already, or something does not come up.
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
    home: Home, arguments: Sequence[str], *, within: float, say: Callable[[str], None] = print
) -> tuple[subprocess.Popen[bytes], Facts]:
    """Start a supervisor in the background, repeat what it says, and return it and what it published when all is up.

    within: seconds. Raises SuperviseError with its own words where it ends before that.
    """
    home.create()
    log = home.log("supervisor")
    heard = log.stat().st_size if log.exists() else 0
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
        with log.open("rb") as words:
            words.seek(heard)
            fresh = words.read()
        heard += len(fresh)
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


def down(home: Home, *, within: float = 90.0) -> bool:
    """End a folder's supervisor and what it started, or what a crashed one left; return whether there was anything.

    within: seconds it may take in order before it is ended at once.
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
    """Return what a shell evaluates to reach what is running."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in facts["environment"].items())
