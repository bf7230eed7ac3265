"""The changes that no test has to notice, each with its reason: a file in `judged/` for each module.

A table has the name of a function and a line of it. Below it, a changed line is followed by the reason, for example:

    [aged_priority."return row.priority + int(waited // ageing_seconds)"]
    "return row.priority + int(waited / ageing_seconds)" = "same result: neither number is negative"
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.mutate.changes import Change

FOLDER = Path(__file__).with_name("judged")
Reasons = dict[str, dict[str, dict[str, str]]]  # function → line → changed line → reason


def file_of(module: Path) -> Path:
    """Return the file of a module: controlplane/eviction/rate.py → judged/controlplane.eviction.rate.toml."""
    return FOLDER / ".".join([*module.with_suffix("").parts, "toml"])


def reasons(module: Path) -> Reasons:
    """Return the judged changes of a module."""
    file = file_of(module)
    return tomllib.loads(file.read_text()) if file.exists() else {}


def is_judged(change: Change, judged: Reasons) -> bool:
    return change.after in judged.get(change.function, {}).get(change.before, {})
