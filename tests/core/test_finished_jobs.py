"""A Job that has finished is deleted here after its time to live, and with it on its members [finished-jobs]."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import DELETION_PROTECTED, DELETION_PROTECTED_LABEL
from controlplane.controllers.finished_jobs import JOB, FinishedJobs
from controlplane.engine import run
from controlplane.engine.memory import MemoryStore
from controlplane.kinds.template import Template
from controlplane.settings import Settings
from tests.builders.objects import START

WHERE = Ref(JOB, "default", "migrate")
ENDED_AT = START + timedelta(seconds=100)


def job(*, seconds: Any = 60, ended: str = "", at: datetime | None = ENDED_AT, **labels: str) -> Template:
    times = {} if at is None else {"lastTransitionTime": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
    conditions = [{"type": "Suspended", "status": "False"}, {"type": ended, "status": "True", **times}]
    document = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "migrate", "namespace": "default", "uid": "uid-migrate", "labels": labels},
        "spec": {} if seconds is None else {"ttlSecondsAfterFinished": seconds},
    }
    made = Template.fold(document)
    return replace(made, status={"conditions": conditions} if ended else {"active": 1})


class Story:
    """A Job in a store of memory, whose clock moves."""

    def __init__(self, first: Template) -> None:
        self.now = START
        self.controllers = [FinishedJobs()]
        self.store = MemoryStore(controllers=self.controllers, clock=lambda: self.now)
        self.store.create(first)

    def write(self, new: Template) -> None:
        old = self.store.get([WHERE])[WHERE]
        labels, generation = new.metadata.labels, old.metadata.generation + 1
        self.store.put(replace(new, metadata=replace(old.metadata, labels=labels, generation=generation)), old)

    def is_there(self, seconds: int) -> bool:
        """Test whether the Job is there so many seconds after START."""
        self.now = START + timedelta(seconds=seconds)
        run.run_until_idle(self.controllers, self.store, Settings(), world=run.World())
        return WHERE in self.store.get([WHERE])


@pytest.mark.parametrize("ended", ["Complete", "Failed"])
def test_a_job_is_deleted_when_its_time_to_live_has_passed_after_it_finished(ended: str) -> None:
    story = Story(job())
    assert story.is_there(100), "it runs"

    story.write(job(ended=ended))

    assert story.is_there(159)
    assert not story.is_there(160)


def test_a_time_to_live_of_0_deletes_a_job_as_soon_as_it_has_finished() -> None:
    assert not Story(job(seconds=0, ended="Complete")).is_there(100)


@pytest.mark.parametrize(
    "kept",
    [
        job(seconds=None, ended="Complete"),
        job(seconds="60", ended="Complete"),
        job(ended="Suspended"),
        job(ended="Complete", at=None),
        job(ended="Complete", **{DELETION_PROTECTED_LABEL: DELETION_PROTECTED}),
    ],
)
def test_other_jobs_stay(kept: Template) -> None:
    assert Story(kept).is_there(10**6)


def test_a_job_that_is_kept_for_longer_or_is_protected_no_more_is_looked_at_again() -> None:
    story = Story(job(ended="Complete"))
    assert story.is_there(150)
    story.write(job(ended="Complete", seconds=600))
    assert story.is_there(699)
    story.write(job(ended="Complete", seconds=600, **{DELETION_PROTECTED_LABEL: DELETION_PROTECTED}))
    assert story.is_there(900)

    story.write(job(ended="Complete", seconds=600))

    assert not story.is_there(901)
