"""Processes that run expressions of users (`cel_process`), within limits of time, memory and size.

An expression that needs more than it may have ends its process. The next call starts another one.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache
from threading import BoundedSemaphore, Lock
from typing import Any

import orjson

from apps.objects.confined_process import ConfinedProcess, Ended
from controlplane.apimachinery.causes import invalid, required, shown, unsupported
from controlplane.apimachinery.errors import Cause, ServiceUnavailable
from controlplane.wire.structural import StructuralSchema

SECONDS = 1.0  # of processor time for the rules of one write
COMPILE_SECONDS = 5.0  # of processor time for the compilation of all rules of a definition
WAIT_SECONDS = 15.0  # without an answer, after which a process is ended; a busy machine gives it little time
MAX_INPUT = 6 * 2**20  # bytes of a call
MAX_PROCESSES = 4  # at work at the same time; further calls wait
MAX_IDLE = 2  # processes that are kept for later calls
MODULE = "apps.objects.cel_process"


class CelProcess(ConfinedProcess):
    """A process that runs expressions."""

    start_seconds = WAIT_SECONDS
    stderr = subprocess.DEVNULL

    def ask(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a call. Raises Ended, with field and rule that ran last."""
        at: Sequence[str] = ("", "")
        try:
            self.send(orjson.dumps(call))
            while "at" in (found := self.receive()):
                at = found["at"]
        except Ended as ended:
            ended.at = at
            raise
        return found

    def why_ended(self, code: int) -> str:
        if code == -signal.SIGPROF:
            return f"needed more than {self.seconds:g} s of processor time"
        return "needs more memory than it may have, or ended its process"


class CelPool:
    """Processes for the expressions of one process of Lifeboat."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._idle: list[CelProcess] = []
        self._lock = Lock()
        self._turns = BoundedSemaphore(MAX_PROCESSES)

    def ask(self, call: Mapping[str, Any], *, also: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer to a call. `also` is added to it if the process does not know the schema.

        Raises Ended.
        """
        with self._turns:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            process = process or CelProcess(MODULE, seconds=self._seconds, answer_seconds=WAIT_SECONDS)
            try:
                found = process.ask(call)
                if also is not None and "unknown" in found:
                    found = process.ask({**call, **also})
            except Ended:
                process.close()
                raise
            with self._lock:
                if len(self._idle) < MAX_IDLE:
                    self._idle.append(process)
                    return found
            process.close()
            return found


@lru_cache(maxsize=1)
def for_writes() -> CelPool:
    """Return the processes that run the expressions of one write."""
    return CelPool(SECONDS)


@lru_cache(maxsize=1)
def for_definitions() -> CelPool:
    """Return the processes that compile expressions, which may take longer."""
    return CelPool(COMPILE_SECONDS)


def violations(schema: StructuralSchema, new: dict[str, Any], old: dict[str, Any] | None) -> list[Cause]:
    """Return a cause for every rule in CEL that a document breaks. `old` None: it is created.

    Rules that need more time or memory than they may have are broken. Raises ServiceUnavailable if they cannot be run.
    """
    call = {"do": "violations", "digest": schema.rules_digest, "new": new} | ({} if old is None else {"old": old})
    if len(orjson.dumps(call)) > MAX_INPUT:
        return [invalid("", "object", f"an object with rules in CEL may have at most {MAX_INPUT // 2} bytes")]
    try:
        found = for_writes().ask(call, also={"schema": schema.node})
    except Ended as ended:
        field, rule = ended.at
        if not rule:
            raise ServiceUnavailable(f"the rules of the CustomResourceDefinition cannot be run: {ended}") from ended
        return [Cause("FieldValueInvalid", f'Invalid value: "object": {ended} evaluating rule: {rule}', field)]
    if "error" in found:
        return [Cause("FieldValueInvalid", f"Invalid value: the rules cannot be evaluated: {found['error']}", "")]
    return [Cause(*cause) for cause in found["causes"]]


def rule_faults(schemas: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Cause]:
    """Return a cause for every invalid rule in schemas, each of which has its field and its root node."""
    try:
        found = for_definitions().ask({"do": "faults", "schemas": schemas})
    except Ended as ended:
        field, rule = ended.at
        if not rule:
            raise ServiceUnavailable(
                f"the rules of the CustomResourceDefinition cannot be compiled: {ended}"
            ) from ended
        return [invalid(field, rule, f"the compilation {ended}")]
    if "error" in found:
        return [invalid("spec.versions", shown(found["error"]), "the rules cannot be compiled")]
    return [cause_of(*fault) for fault in found["faults"]]


def cause_of(field: str, value: Any, why: str, is_missing: bool, choices: Sequence[str]) -> Cause:
    """Return the cause for a fault that a process found in an expression."""
    if choices:
        return unsupported(field, value, choices)
    return required(field, why) if is_missing else invalid(field, value, why)
