"""When the scheduler tries a refused binding again, if no change of an object makes it due earlier."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from controlplane.apimachinery.meta import condition
from controlplane.kinds.binding import SCHEDULED, Binding
from controlplane.scheduling.schedule import QUOTA_EXCEEDED, UNSCHEDULABLE, Refused

RETRY_UNSCHEDULABLE: Final = timedelta(minutes=5)
"""A binding that fits nowhere is tried again after this time, or when a cluster changes [scheduling-triggers]."""
FIRST_RETRY, LAST_RETRY = timedelta(seconds=1), timedelta(seconds=10)  # after an error


def retry_delay(binding: Binding, outcome: Refused, *, now: datetime) -> timedelta:
    """Return how long to wait until a refused binding is tried again.

    If nothing fits, or a quota refuses it, RETRY_UNSCHEDULABLE. After an error, the time for which it has lasted
    already, at least FIRST_RETRY and at most LAST_RETRY.
    """
    if outcome.reason in (UNSCHEDULABLE, QUOTA_EXCEEDED):
        return RETRY_UNSCHEDULABLE
    scheduled = condition(binding.status.conditions, SCHEDULED)
    since = scheduled.last_transition_time if scheduled is not None else None
    return FIRST_RETRY if since is None else min(max(now - since, FIRST_RETRY), LAST_RETRY)
