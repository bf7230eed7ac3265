"""FinishedJobs: deletes Jobs whose time to live has passed after they finished, as the ttl-after-finished controller of
Kubernetes does [finished-jobs].

Members get a Job without its time to live: a copy that a member deletes would run again. So it counts here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from controlplane.apimachinery.meta import Ref, Struct
from controlplane.apimachinery.times import later
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, deleting
from controlplane.engine.deletion_protection import is_protected
from controlplane.engine.state import State, Watch
from controlplane.interpret.aggregate_job import finished
from controlplane.kinds.template import Template
from controlplane.settings import Settings
from controlplane.wire.resource import parse_time

JOB: Final = "batch/Job"


class FinishedJobsSnapshot(Struct, frozen=True):
    """A Job."""

    subject: Template


def expires_at(job: Template | None) -> datetime | None:
    """Return when a Job is deleted. None: never, or it has not finished."""
    seconds = None if job is None else job.spec.get("ttlSecondsAfterFinished")
    if job is None or not isinstance(seconds, int) or job.metadata.deletion_timestamp is not None or is_protected(job):
        return None
    ended = finished(job.status)
    if not ended:
        return None
    conditions = [one for one in job.status["conditions"] if isinstance(one, dict)]
    turned: dict[str, Any] = next((one for one in conditions if one.get("type") == ended), {})
    at = parse_time(turned.get("lastTransitionTime") or job.status.get("completionTime"))
    return None if at is None else later(at, seconds)


def _changed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    """A Job is due when it has finished, or when it changes how long it is kept after that."""
    if new is not None and expires_at(new) is not None and expires_at(old) != expires_at(new):
        yield new.ref


class FinishedJobs(Controller):
    """Key: a Job. Deletes it."""

    name: ClassVar[str] = "finished_jobs"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = (JOB,)
    watches: ClassVar[tuple[Watch, ...]] = (Watch(JOB, _changed),)
    owns: ClassVar[Ownership] = Ownership({JOB: ("delete",)})

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[FinishedJobsSnapshot | None]:
        found = state.get(refs)
        return [FinishedJobsSnapshot(found[ref]) if ref in found else None for ref in refs]

    def decide(
        self, snapshot: FinishedJobsSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        at = expires_at(snapshot.subject)
        if at is None or at > now:
            return NOTHING if at is None else Decision(wake_at=at)
        return Decision(changes=(deleting(snapshot.subject, now=now),), reason="TimeToLive")
