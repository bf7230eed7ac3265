"""Processes that run scripts. A script that takes too long is ended with its process, and another one is started."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import orjson

from apps.objects.confined_process import MEMORY, ConfinedProcess, Ended
from controlplane.interpret.customized import Answer, Question, Script
from controlplane.kinds.interpreter_customization import OPERATIONS

MODULE = "apps.interpretation.lua_process"
SECONDS = 1.0  # of processor time that one call may use, as in Karmada
ANSWER_SECONDS = 10.0  # without any answer, after which the process is ended; a busy machine gives it little time
IN_ADVANCE = 32  # calls that are sent before their answers are read
SHAPED_BY = {"ReviseReplica": 1, "Retain": 2}
"""How many arguments show the shape of empty tables in the result, by operation."""


class _Scripts(ConfinedProcess):
    """A process that runs scripts."""

    def why_ended(self, code: int) -> str:
        if code == -signal.SIGVTALRM:
            return "has used more processor time than it may"
        return "needs more memory or deeper nesting than it may have, or ended its process"


class LuaProcess:
    """One process that runs scripts, and its successors. Used by one thread at a time; started at the first call."""

    def __init__(self, seconds: float = SECONDS, memory: int = MEMORY, answer_seconds: float = ANSWER_SECONDS) -> None:
        self._begin = partial(_Scripts, MODULE, seconds=seconds, memory=memory, answer_seconds=answer_seconds)
        self._process: _Scripts | None = None

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
                yield Answer(error=f"the script {ended}")
                answered += 1
            rest = rest[answered:]

    @property
    def has_started(self) -> bool:
        """Whether there is a process, so that an answer takes as long as its script."""
        return self._process is not None

    def start(self) -> None:
        """Start the process unless it runs."""
        self._started()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def _run(self, questions: Sequence[Question]) -> Iterator[Answer]:
        process = self._started()
        for begin in range(0, len(questions), IN_ADVANCE):
            part = questions[begin : begin + IN_ADVANCE]
            process.send(*map(_call, part))
            for _ in part:
                found = process.receive()
                yield Answer(tuple(found.get("values", ())), found.get("error", ""))

    def _started(self) -> _Scripts:
        if self._process is None or self._process.has_ended:
            self.close()
            self._process = self._begin()
        return self._process


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
