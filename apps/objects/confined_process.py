"""Processes that run code of users, within limits of time, memory and files, and messages to and from them.

A message is its length (4 bytes, big endian) and JSON. Code that needs more than it may have ends its process.
"""

from __future__ import annotations

import os
import resource
import select
import struct
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import orjson

HEADER = struct.Struct(">I")
MEMORY = 256 * 2**20  # bytes that a process may use beyond what it begins with
ROOT = Path(__file__).parents[2]
_STAT = Path("/proc/self/statm")


class Ended(Exception):
    """The process has ended, or was ended because it did not answer. `at`: field and rule that it ran last."""

    at: Sequence[str] = ("", "")


class ConfinedProcess(ABC):
    """One process, `python -m <module> <seconds> <memory>`. One thread at a time uses it.

    Its first message says that it is ready.
    """

    start_seconds = 30.0  # until it is ready
    stderr: int | None = None  # None: that of this process

    def __init__(self, module: str, *, seconds: float, memory: int = MEMORY, answer_seconds: float) -> None:
        """`seconds`: of processor time for a call. `answer_seconds`: without an answer, after which it is ended.

        Raises Ended if the process does not start.
        """
        self.seconds = seconds
        self.answer_seconds = answer_seconds
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(seconds), str(memory)],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "TZ": "UTC"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            bufsize=0,
            start_new_session=True,
        )
        try:
            self.receive(self.start_seconds)
        except Ended:
            self.close()
            raise

    @abstractmethod
    def why_ended(self, code: int) -> str:
        """Return why the process ended with this code."""

    @property
    def has_ended(self) -> bool:
        """Whether the process does not run any more."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def send(self, *messages: bytes) -> None:
        """Send messages in JSON. The process reads a message before it works on it, so a pipe that stays full means
        that it hangs. Raises Ended."""
        assert self._process.stdin is not None
        pipe, ends = self._process.stdin.fileno(), time.monotonic() + self.answer_seconds
        view = memoryview(b"".join(HEADER.pack(len(message)) + message for message in messages))
        while view:
            _, writable, _ = select.select([], [pipe], [], max(ends - time.monotonic(), 0))
            if not writable:
                raise Ended(f"did not end within {self.answer_seconds:g} s")
            try:
                view = view[os.write(pipe, view[: select.PIPE_BUF]) :]
            except OSError as error:
                raise Ended(self.why_ended(self._process.wait())) from error

    def receive(self, seconds: float | None = None) -> dict[str, Any]:
        """Return the next message, waiting at most `seconds`, by default `answer_seconds`. Raises Ended."""
        ends_within = self.answer_seconds if seconds is None else seconds
        (size,) = HEADER.unpack(self._read(HEADER.size, ends_within))
        found: dict[str, Any] = orjson.loads(self._read(size, ends_within))
        return found

    def _read(self, size: int, seconds: float) -> bytes:
        assert self._process.stdout is not None
        pipe, found, ends = self._process.stdout.fileno(), b"", time.monotonic() + seconds
        while len(found) < size:
            readable, _, _ = select.select([pipe], [], [], max(ends - time.monotonic(), 0))
            if not readable:
                raise Ended(f"did not end within {seconds:g} s")
            part = os.read(pipe, size - len(found))
            if not part:
                raise Ended(self.why_ended(self._process.wait()))
            found += part
        return found


# In the process.


def write(sink: BinaryIO, message: bytes) -> None:
    """Send a message in JSON at once."""
    sink.write(HEADER.pack(len(message)) + message)
    sink.flush()


def read(source: BinaryIO) -> dict[str, Any] | None:
    """Return the next message; None: there are no more."""
    header = source.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    message: dict[str, Any] = orjson.loads(source.read(*HEADER.unpack(header)))
    return message


def limit(memory: int) -> None:
    """Limit this process: more memory by at most `memory` bytes, no files to write, no core dump."""
    try:
        used = int(_STAT.read_text().split()[0]) * resource.getpagesize()
    except OSError:  # not Linux, where the limit of address space has no effect either
        used = 0
    if used:
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
