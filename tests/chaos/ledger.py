"""The ledger: every write and what became of it, every kill and every fault, in a file that no killed process holds."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import msgspec

Outcome = Literal["acknowledged", "refused", "unknown"]
OUTCOMES: tuple[Outcome, ...] = ("acknowledged", "refused", "unknown")


class Write(msgspec.Struct, kw_only=True):
    """One write that was sent. `version`: the resourceVersion of the answer, 0 without one."""

    id: str  # stands in the object's annotation, so that the change log shows when it was written
    kind: str
    name: str
    verb: Literal["apply", "delete"]
    outcome: Outcome
    version: int = 0


class Ledger:
    """Writes lines to a file as things happen, and counts them."""

    def __init__(self, path: Path) -> None:
        self.writes: list[Write] = []
        self.kills: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()

    def write(self, one: Write) -> None:
        """Note a write and what became of it."""
        with self._lock:
            self.writes.append(one)
        self._line(write=msgspec.to_builtins(one))

    def kill(self, name: str, what: str) -> None:
        """Note that a program was killed; `what`: its main process, or one of its children."""
        self.kills[name] += 1
        self._line(kill=name, what=what)

    def fault(self, member: str, fault: str) -> None:
        """Note that a member began to fail or was mended."""
        if fault != "none":
            self.faults[fault] += 1
        self._line(member=member, fault=fault)

    def close(self) -> None:
        self._file.close()

    def summary(self) -> list[str]:
        """Return the lines to print."""
        outcomes = Counter(one.outcome for one in self.writes)
        counts = ", ".join(f"{outcomes[name]} {name}" for name in OUTCOMES)
        return [
            f"kills -9: {self.kills.total()} ({_listed(self.kills)})",
            f"cluster faults: {self.faults.total()} ({_listed(self.faults)})",
            f"writes: {counts}",
        ]

    def _line(self, **fields: Any) -> None:
        with self._lock:
            self._file.write(json.dumps({"at": round(time.time(), 3), **fields}) + "\n")


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
