"""What-if runs: large questions are answered by a process of their own, which writes its progress to Redis.

A question about 10,000 bindings takes seconds of CPU and hundreds of megabytes. Neither the API, which answers requests
meanwhile, nor a worker, which may be evicting copies, has them to spare. The process has a lower priority, a limit of
memory and a limit of time. Its answer is kept for KEPT_SECONDS, for the user who asked
([decision 12](../../docs/decisions/0012-what-if-runs-in-a-process-of-its-own.md)).
"""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec
import redis

import config
from apps.failover.redis_client import redis_client
from controlplane.apimachinery.errors import ServiceUnavailable, TooManyRequests
from controlplane.insight.changes import Change
from controlplane.kinds.what_if import RUNNING, WhatIfStatus

PREFIX: Final = "lifeboat:what-if:"
KEPT_SECONDS: Final = 900  # the answer, after it was found
ALIVE_SECONDS: Final = 30  # a run that has not reported for so long has died
STARTS_WITHIN: Final = 60  # seconds: a run that has not reported since it was started has died
MOST_AT_ONCE: Final = 2  # processes of one API process
COMMAND: Final = "what_if_run"
PROJECT: Final = Path(config.__file__).parents[1]  # `python -m` finds packages there, wherever this process was started

_running: list[subprocess.Popen[bytes]] = []


class Run(msgspec.Struct, frozen=True):
    """A question, who asked it, and what is known of the answer."""

    user: str
    changes: tuple[dict[str, Any], ...]
    status: WhatIfStatus = WhatIfStatus(phase=RUNNING)


@lru_cache(maxsize=1)
def client() -> redis.Redis:
    """Return this process's connections to Redis."""
    return redis_client()


def start(changes: Sequence[Change], *, user: str) -> str:
    """Let a process answer a question; return the name of the run.

    Raises TooManyRequests while MOST_AT_ONCE runs of this process are under way, and ServiceUnavailable without Redis.
    """
    _running[:] = [process for process in _running if process.poll() is None]
    if len(_running) >= MOST_AT_ONCE:
        raise TooManyRequests(f"{MOST_AT_ONCE} questions are being answered already: ask again in some seconds")
    name = uuid.uuid4().hex
    write(name, Run(user, _documents(changes)), seconds=STARTS_WITHIN)
    command = [sys.executable, "-m", "django", COMMAND, name, "--settings", "config.settings"]
    process = subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _running.append(process)
    return name


def keep(changes: Sequence[Change], status: WhatIfStatus, *, user: str) -> str:
    """Keep the answer to a question that was answered at once; return the name of the run. Raises as `write`."""
    name = uuid.uuid4().hex
    write(name, Run(user, _documents(changes), status), seconds=KEPT_SECONDS)
    return name


def _documents(changes: Sequence[Change]) -> tuple[dict[str, Any], ...]:
    return tuple(msgspec.to_builtins(changes))


def find(name: str, *, user: str) -> Run | None:
    """Return a run of this user. None: there is none, its answer has expired, or its process has died."""
    run = read(name)
    return run if run is not None and run.user == user else None


def read(name: str) -> Run | None:
    """Return a run. None: there is none, its answer has expired, or its process has died."""
    try:
        found: Any = client().get(PREFIX + name)
    except redis.RedisError as error:
        raise _away(error) from error
    return None if found is None else msgspec.json.decode(found, type=Run)


def write(name: str, run: Run, *, seconds: int) -> None:
    """Keep a run for some seconds. Raises ServiceUnavailable without Redis."""
    try:
        client().set(PREFIX + name, msgspec.json.encode(run), ex=seconds)
    except redis.RedisError as error:
        raise _away(error) from error


@contextmanager
def alive(name: str) -> Iterator[None]:
    """Keep a run alive during the block, also while it reports no progress because it reads, or waits for a core."""
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(ALIVE_SECONDS / 6):
            with suppress(redis.RedisError):  # without Redis the answer cannot be kept either
                client().expire(PREFIX + name, ALIVE_SECONDS)

    thread = threading.Thread(target=keep, name="alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _away(error: redis.RedisError) -> ServiceUnavailable:
    return ServiceUnavailable(f"large questions need Redis, and it does not answer ({type(error).__name__})")
