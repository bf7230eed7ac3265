"""Decides when an object that disappeared from its member, although its Work still wants it, is applied again.

`controllers.work_status` notices the loss and `controllers.execution` applies the object again.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane.apimachinery.meta import condition
from controlplane.kinds.work import APPLIED, RETAINED, Work

LONGEST_WAIT = timedelta(seconds=256)
OBJECT_LOST = "ObjectLost"  # reason of the condition Applied=False: the member no longer holds the applied object


def wait_before_reapply(work: Work) -> timedelta:
    """Return how long after its loss an object is applied again, if it was lost before. 0 after the first loss.

    The wait grows with the time in which the object has been lost again and again, which is the time between the
    transitions of the conditions Retained and Applied. That time is rounded down to a power of two seconds and limited
    to LONGEST_WAIT. Example: lost again and again for 20 s → wait 16 s.
    """
    applied, retained = (condition(work.status.conditions, name) for name in (APPLIED, RETAINED))
    if applied is None or retained is None or applied.last_transition_time is None:
        return timedelta(0)
    first_loss = retained.last_transition_time or applied.last_transition_time
    seconds = int((applied.last_transition_time - first_loss).total_seconds())
    return min(timedelta(seconds=1 << (seconds.bit_length() - 1)), LONGEST_WAIT) if seconds > 0 else timedelta(0)


def waits_until(work: Work, *, now: datetime) -> datetime | None:
    """Return when a lost object is applied again. None: it is not lost, or may be applied now."""
    applied = condition(work.status.conditions, APPLIED)
    if applied is None or applied.reason != OBJECT_LOST or applied.last_transition_time is None:
        return None
    until = applied.last_transition_time + wait_before_reapply(work)
    return until if until > now else None
