"""Decides whether the change of an object on its member is put back, and when [member-drift].

`clusters.drift` finds the change, `controllers.work_status` stores it and `controllers.execution` puts it back.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane.apimachinery.meta import Condition, condition
from controlplane.apimachinery.names import DRIFT_ANNOTATION
from controlplane.clusters.lost_objects import LONGEST_WAIT
from controlplane.kinds.policy import DRIFT_MODES, REPAIR
from controlplane.kinds.work import DRIFTED, RETAINED, Work
from controlplane.settings import Settings


def is_put_back(work: Work, settings: Settings) -> bool:
    """Test whether changes on the member are put back, and not only reported."""
    asked = work.metadata.annotations.get(DRIFT_ANNOTATION)
    return (asked if asked in DRIFT_MODES else settings.drift) == REPAIR


def is_changed(work: Work | None) -> bool:
    """Test whether the object of a Work is known to differ from its manifest because it was changed."""
    drifted = None if work is None else condition(work.status.conditions, DRIFTED)
    return drifted is not None and drifted.status == "True"


def wait_before_repair(work: Work, *, at: datetime) -> timedelta:
    """Return how long after a change at this time the object is put back. 0 after the first change.

    Like the wait after a loss (`lost_objects.wait_before_reapply`) it grows with the time in which the object has been
    changed again and again, because another controller may work against this one.
    """
    retained: Condition | None = condition(work.status.conditions, RETAINED)
    if retained is None or retained.status == "True" or retained.last_transition_time is None:
        return timedelta(0)
    seconds = int((at - retained.last_transition_time).total_seconds())
    return min(timedelta(seconds=1 << (seconds.bit_length() - 1)), LONGEST_WAIT) if seconds > 0 else timedelta(0)


def waits_until(work: Work, *, now: datetime) -> datetime | None:
    """Return when a changed object is put back. None: it was not changed, or may be put back now."""
    drifted = condition(work.status.conditions, DRIFTED)
    if drifted is None or drifted.status != "True" or drifted.last_transition_time is None:
        return None
    until = drifted.last_transition_time + wait_before_repair(work, at=drifted.last_transition_time)
    return until if until > now else None
