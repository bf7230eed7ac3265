"""What a person gives before a dangerous act, the same on every page: a reason, and the typed name of a large act.

The console (`apps/console/guard.py`), the admin and the browsable API show a dry run of the act beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from apps.objects.preview import Preview

THRESHOLD: Final = 10  # workloads; if an act concerns more, its subject has to be typed
WORSE: Final = 1.1  # a dry run that concerns more than this many times the workloads of the one before is shown again
REASON_LENGTH: Final = 180


Confirmation = Callable[[Preview], None]
"""Raises if the author has not confirmed what a write does to workloads. It is called before the write is stored."""


def no_confirmation(found: Preview) -> None:
    """Ask nothing: the author reads the effects as warnings."""


def problems(sent: Mapping[str, Any], *, subject: str, concerned: int, threshold: int = THRESHOLD) -> dict[str, str]:
    """Return why an act is not done yet, by the field of the page that each problem concerns. {}: it may be done.

    sent: `reason`; `typed`, which has to be the subject; `concerned`: the number that the person has seen.
    subject: what is typed to confirm the act.
    concerned: workloads that the act concerns now.
    threshold: with more workloads than this the subject has to be typed; -1: always.
    """
    found = {}
    reason = sent.get("reason", "").strip()
    if not reason:
        found["reason"] = "Write the reason. The change log keeps it with your name."
    elif len(reason) > REASON_LENGTH:
        found["reason"] = f"The reason has {len(reason)} characters; write at most {REASON_LENGTH}."
    if concerned > threshold and sent.get("typed", "").strip() != subject:
        many = f"{concerned} workloads are concerned, more than {threshold}: " if threshold >= 0 else ""
        found["typed"] = f"{many}type {subject} to confirm."
    seen = sent.get("concerned", "")
    if not found and seen.isdecimal() and len(seen) < 10 and concerned > int(seen) * WORSE:
        found["act"] = (
            f"Nothing was done: {concerned} workloads are concerned now, and {seen} were when you looked. "
            "Check the dry run again and confirm it."
        )
    return found
