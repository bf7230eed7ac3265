"""How long a Directly eviction waits for a source that nobody can reach, as a policy's annotation says it (D14)."""

from __future__ import annotations

from datetime import timedelta

DIGITS = 9  # of the longest time: thirty years


def parse_wait(said: str) -> timedelta | None:
    """Return the time `After=<seconds>` names; None for anything else: it waits."""
    name, _, seconds = said.partition("=")
    named = name == "After" and seconds.isdecimal() and len(seconds) <= DIGITS
    return timedelta(seconds=int(seconds)) if named else None
