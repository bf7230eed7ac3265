"""Processes that run scripts. A script that takes too long is ended with its process, and another one is started."""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from apps.interpretation.lua_process import HEADER
from controlplane.interpret.customized import Answer, Question, Script
from controlplane.kinds.interpreter_customization import OPERATIONS

log = logging.getLogger(__name__)

SECONDS = 1.0  # of processor time that one call may use, as in Karmada
MEMORY = 256 * 2**20  # bytes that a process of scripts may use beyond what it begins with
ANSWER_SECONDS = 10.0  # without any answer, after which the process is ended; a busy machine gives it little time
START_SECONDS = 30.0
IN_ADVANCE = 32  # calls that are sent before their answers are read
ROOT = Path(__file__).parents[2]
SHAPED_BY = {"ReviseReplica": 1, "Retain": 2}
"""How many arguments show the shape of empty tables in the result, by operation."""


class Ended(Exception):
    """The process has ended, or was ended because it did not answer."""


class LuaProcess:
    """One process. Used by one thread at a time; it is started at the first call."""

    def __init__(self, seconds: float = SECONDS, memory: int = MEMORY, answer_seconds: float = ANSWER_SECONDS) -> None:
        self._arguments = [sys.executable, "-m", "apps.interpretation.lua_process", str(seconds), str(memory)]
        self._answer_seconds = answer_seconds
        self._process: subprocess.Popen[bytes] | None = None

    def answers(self, questions: Sequence[Question]) -> Iterator[Answer]:
        """Yield the answer to each question, in order. The answer of a script that ended the process is an error."""
        rest = list(questions)
        while rest:
            answered = 0
            try:
                for answer in self._run(rest):
                    answered += 1
                    yield answer
            except Ended as ended:
                self.close()
                yield Answer(error=str(ended))
                answered += 1
            rest = rest[answered:]

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _run(self, questions: Sequence[Question]) -> Iterator[Answer]:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        for begin in range(0, len(questions), IN_ADVANCE):
            part = questions[begin : begin + IN_ADVANCE]
            calls = [_call(question) for question in part]
            self._write(process.stdin.fileno(), b"".join(HEADER.pack(len(call)) + call for call in calls))
            for _ in part:
                (size,) = HEADER.unpack(self._read(process.stdout.fileno(), HEADER.size, self._answer_seconds))
                found = orjson.loads(self._read(process.stdout.fileno(), size, self._answer_seconds))
                yield Answer(tuple(found.get("values", ())), found.get("error", ""))

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(
                self._arguments,
                cwd=ROOT,
                env={"PYTHONPATH": str(ROOT), "TZ": "UTC"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
            assert self._process.stdout is not None
            self._read(self._process.stdout.fileno(), HEADER.size, START_SECONDS)
        return self._process

    def _write(self, pipe: int, data: bytes) -> None:
        """Write all data. The process reads a call before it answers, so a pipe that stays full means that it hangs."""
        view, ends = memoryview(data), time.monotonic() + self._answer_seconds
        while view:
            _, writable, _ = select.select([], [pipe], [], max(ends - time.monotonic(), 0))
            if not writable:
                raise Ended(f"the script did not end within {self._answer_seconds:g} s; its process was ended")
            try:
                view = view[os.write(pipe, view[:65536]) :]
            except OSError as error:
                raise Ended(self._why_ended()) from error

    def _read(self, pipe: int, size: int, seconds: float) -> bytes:
        found, ends = b"", time.monotonic() + seconds
        while len(found) < size:
            readable, _, _ = select.select([pipe], [], [], max(ends - time.monotonic(), 0))
            if not readable:
                raise Ended(f"the script did not end within {seconds:g} s; its process was ended")
            part = os.read(pipe, size - len(found))
            if not part:
                raise Ended(self._why_ended())
            found += part
        return found

    def _why_ended(self) -> str:
        code = None if self._process is None else self._process.wait()
        if code == -signal.SIGVTALRM:
            return "the script has used more processor time than it may; its process was ended"
        return "the process of the script ended: the script needs more memory or deeper nesting than it may have"


def _call(question: Question) -> bytes:
    assert isinstance(question.rule, Script)
    _, function, results = OPERATIONS[question.rule.operation]
    arguments: list[Any] = orjson.loads(question.arguments)
    return orjson.dumps(
        {
            "script": question.rule.text,
            "function": function,
            "arguments": arguments,
            "results": results,
            "references": [value for value in arguments[: SHAPED_BY.get(question.rule.operation, 0)] if value],
        }
    )
