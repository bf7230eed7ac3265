"""The annotation of a policy with the maximum wait of a Directly eviction for an unreachable cluster
[directly-unreachable]."""

from __future__ import annotations

from datetime import timedelta

MAX_DIGITS = 9  # of the seconds: thirty years


def parse_wait(text: str) -> timedelta | None:
    """Return the time of an annotation `After=<seconds>`; None for any other text, such as Wait: wait without end."""
    name, _, seconds = text.partition("=")
    is_valid = name == "After" and seconds.isdecimal() and len(seconds) <= MAX_DIGITS
    return timedelta(seconds=int(seconds)) if is_valid else None
