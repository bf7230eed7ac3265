"""What differs between two members' answers, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.simulator.comparison.cases import Case, Document

SHOWN = 3  # differences named per answer


def differences(case: Case, real: list[Document], simulated: list[Document]) -> list[str]:
    """Return a line for each step that the two members answer differently."""
    found = []
    for number, (step, theirs, ours) in enumerate(zip(case.steps, real, simulated, strict=True), 1):
        if theirs != ours:
            reported = "; ".join(list(_between(theirs, ours, ""))[:SHOWN])
            found.append(f"{case.name}, step {number} ({step.method}): {reported}")
    return found


def _between(real: Any, simulated: Any, path: str) -> Iterator[str]:
    if isinstance(real, dict) and isinstance(simulated, dict):
        for name in sorted(real.keys() | simulated.keys()):
            if real.get(name) != simulated.get(name):
                yield from _between(real.get(name), simulated.get(name), f"{path}.{name}")
    elif isinstance(real, list) and isinstance(simulated, list) and len(real) == len(simulated):
        for index, (one, other) in enumerate(zip(real, simulated, strict=True)):
            if one != other:
                yield from _between(one, other, f"{path}[{index}]")
    else:
        yield f"{path}: real {_short(real)}, simulated {_short(simulated)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 100 else text[:100] + "…"
