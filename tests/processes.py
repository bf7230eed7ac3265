"""The product's real processes on the database of a test or a bench: started, watched, ended."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

from tests import forked
from tests.forked import Forked

Process = subprocess.Popen[bytes] | Forked
PR_SET_PDEATHSIG = 1
PROJECT = Path(__file__).parents[1]
START_SECONDS = 180.0  # on a machine that starts many at once
END_SECONDS = 20.0
STACKS_SECONDS = 1.0
CELERY = ("-m", "celery", "--skip-checks", "-A")


def environment(folder: Path, *, redis_url: str, **extra: str) -> dict[str, str]:
    """Return the environment of processes that work on this process's database; `extra`: LIFEBOAT_ and the name."""
    from django.db import connection  # here: importing this module needs no Django

    given: dict[str, Any] = connection.settings_dict
    parameters = {name.lower(): given[name] for name in ("HOST", "PORT", "USER", "PASSWORD") if given[name]} | {
        name: value for name, value in given["OPTIONS"].items() if name != "pool"
    }
    return {
        **os.environ,
        "DATABASE_URL": f"postgresql:///{quote(given['NAME'])}?{urlencode(parameters)}",
        "REDIS_URL": redis_url,
        "LIFEBOAT_SECRET_KEY": os.environ.get("LIFEBOAT_SECRET_KEY", "only-for-tests"),
        "LIFEBOAT_DEVELOPMENT": "true",
        "LIFEBOAT_HOME": str(folder),
        "PYTHONPATH": str(PROJECT),
        "PYTHONWARNINGS": "ignore",
        **{f"LIFEBOAT_{name.upper()}": value for name, value in extra.items()},
    }


def own_redis() -> str:
    """Return the last database of the run's Redis, emptied: no ticks of others are in it."""
    import redis  # here: importing this module needs no services

    url = f"{os.environ['REDIS_URL'].rsplit('/', 1)[0]}/15"
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return url


_running: list[Processes] = []  # those whose blocks have not ended


class Processes:
    """Processes that are killed, whatever happens, at the end of the block."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = dict(environment)
        self._started: list[Process] = []
        self._starting: list[Callable[[], None]] | None = None  # inside `at_once`: waits for their words

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        _running.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        if self in _running:
            _running.remove(self)
        for process in self._started:
            _signal_group(process, signal.SIGKILL)
        for process in self._started:
            process.wait()

    def start(self, name: str, arguments: Sequence[str], *, says: str = "") -> Process:
        """Start `python <arguments>`; return when its log has said `says`. Raises RuntimeError with its log."""
        log = self.folder / f"{name}-{len(self._started)}.log"
        with log.open("wb") as output:
            process = started(arguments, self.environment, output.fileno())
        self._started.append(process)
        if says and self._starting is not None:
            self._starting.append(partial(_await_words, says, name, log, process))
        elif says:
            _await_words(says, name, log, process)
        return process

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let processes that are started in this block start side by side; wait for all of them at its end."""
        self._starting = []
        try:
            yield
            for await_words in self._starting:
                await_words()
        finally:
            self._starting = None

    def worker(self, name: str = "worker", *, application: str = "config") -> Process:
        """Start a Celery worker."""
        options = ["--loglevel=INFO", f"--hostname={name}@%h"]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        return self.start(name, [*CELERY, application, "worker", *options, *quiet], says=" ready.")

    def beat(self) -> Process:
        """Start Celery's beat."""
        arguments = [*CELERY, "config", "beat", "--loglevel=INFO", "--pidfile="]
        return self.start("beat", arguments, says="Starting...")

    def members(self) -> Process:
        """Start the process that talks to members."""
        return self.start("members", ["manage.py", "members"], says="members: ready")

    def stacks(self) -> str:
        """Return the ends of the logs, after each process that runs has printed the stacks of its threads to its log.

        Only for processes that have imported `config`: SIGUSR2 ends others.
        """
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGUSR2)
        time.sleep(STACKS_SECONDS)
        return "\n".join(f"{log}:\n{log.read_text(errors='replace')[-4000:]}" for log in self.folder.glob("*.log"))

    def end_all(self) -> None:
        """End all processes the way an operator does, the last one first."""
        for process in reversed(self._started):
            self.end(process)

    def end(self, process: Process, *, by: int = signal.SIGTERM) -> None:
        """End a process and everything it started."""
        if process.poll() is None:
            _signal_group(process, signal.SIGCONT)
            _signal_group(process, by)
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                pass
        _signal_group(process, signal.SIGKILL)
        process.wait()


def started(
    arguments: Sequence[str], environment: Mapping[str, str], output: int, errors: int | None = None
) -> Process:
    """Start `python <arguments>` with these file descriptors. Benches start it as users do."""
    if forked.AVAILABLE and "PYTEST_VERSION" in os.environ:
        return forked.start(arguments, env=environment, output=output, errors=errors)
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=PROJECT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if errors is None else errors,
        start_new_session=True,
        preexec_fn=_end_with_parent,
    )


def _await_words(words: str, name: str, log: Path, process: Process) -> None:
    try:
        until(lambda: words in log.read_text(), within=START_SECONDS, alive=process)
    except AssertionError as error:
        raise RuntimeError(f"{name} did not say {words!r}:\n{log.read_text()[-4000:]}") from error


def manage(*arguments: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command of manage.py; return its status and what it printed."""
    return forked.python(["manage.py", *arguments], env=environment)


def _end_with_parent() -> None:
    """Ask Linux to end this process when the test run dies without a word."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _signal_group(process: Process, number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass  # all of them are gone


def family(process: Process) -> list[int]:
    """Return the pids of a process and its children."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [process.pid, *map(int, children)]


def peak_megabytes(pid: int) -> float:
    """Return the largest resident size a process has had, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def hear_interrupts() -> None:
    """Let a new process end at SIGINT, for `preexec_fn`: a job that a shell starts in the background ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def until(holds: Callable[[], Any], *, within: float, alive: Process | None = None, every: float = 0.05) -> Any:
    """Return what `holds` returns as soon as it is true.

    Raises AssertionError after `within` seconds, with the stacks of the processes that a test has started.
    """
    ends = time.monotonic() + within
    while True:
        if found := holds():
            return found
        assert alive is None or alive.poll() is None, f"the process ended with status {alive.returncode}"
        if time.monotonic() >= ends:
            stacks = "\n".join(processes.stacks() for processes in _running)
            raise AssertionError(f"not within {within:g} s: {getattr(holds, '__name__', holds)}\n{stacks}")
        time.sleep(every)


def ring(names: Sequence[str], *, redis_url: str) -> None:
    """Send a tick for each name, as beat does."""
    from apps.worker.tasks import tick  # here: importing this module needs no Django
    from config.celery import TICK_OPTIONS, app

    with app.connection_for_write(redis_url) as connection:
        for name in names:
            tick.apply_async((name,), connection=connection, **TICK_OPTIONS)
